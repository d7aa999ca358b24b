/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/go_table.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { GO_1_18 = 0xfffffff0, GO_1_20 = 0xfffffff1 };

#define MAX_FUNCTIONS (1u << 22)
#define MAX_RELOCATIONS (1u << 22)
/* That may look like a header: each costs a search of the relocations. */
#define MAX_CANDIDATES 8
#define STEP 8
#define PIECE 8192
/* Of runtime.moduledata: where it has what its text begins with, since Go 1.18. It begins with the table's address. */
#define MODULE_TEXT 176

/* As it is since Go 1.18. Offsets are from here. */
struct header {
	uint32_t magic;
	uint8_t zero[2], quantum, pointer;
	uint64_t n_functions, n_files;
	uint64_t text;
	uint64_t names, units, files, pcs, functions;
};

struct search {
	const struct spoor_elf *elf;
	const Elf64_Shdr *text;
	unsigned n_candidates;
};

static bool has_bytes(const struct spoor_elf *elf, const Elf64_Shdr *s)
{
	return s && s->sh_type != SHT_NOBITS && !(s->sh_flags & SHF_COMPRESSED) && s->sh_size &&
	       s->sh_offset <= elf->image.size && s->sh_size <= elf->image.size - s->sh_offset;
}

static bool read_header(const struct spoor_elf *elf, const Elf64_Shdr *table, struct header *ret)
{
	return table->sh_size >= sizeof(*ret) &&
	       spoor_image_read(&elf->image, table->sh_offset, ret, sizeof(*ret)) == 0;
}

static bool is_relative(const struct header *h)
{
	return h->magic == GO_1_18 || h->magic == GO_1_20;
}

/* The addend of the R_X86_64_RELATIVE relocation of this address: what the loader writes there. 0: none. */
static uint64_t relocated(const struct spoor_elf *elf, uint64_t vaddr)
{
	const Elf64_Shdr *table = spoor_elf_section(elf, ".rela.dyn");
	Elf64_Rela rela[PIECE / sizeof(Elf64_Rela)];
	uint64_t n, i, some;

	if (!has_bytes(elf, table))
		return 0;
	n = table->sh_size / sizeof(*rela);
	if (n > MAX_RELOCATIONS)
		n = MAX_RELOCATIONS;
	for (i = 0; i < n; i += some) {
		some = n - i < PIECE / sizeof(*rela) ? n - i : PIECE / sizeof(*rela);
		if (spoor_image_read(&elf->image, table->sh_offset + i * sizeof(*rela), rela, some * sizeof(*rela)) < 0)
			return 0;
		for (uint64_t k = 0; k < some; k++)
			if (rela[k].r_offset == vaddr && ELF64_R_TYPE(rela[k].r_info) == R_X86_64_RELATIVE)
				return rela[k].r_addend;
	}
	return 0;
}

/* An address in what the loader relocates in a position-independent program; zero until then. 0 also: there is none. */
static uint64_t address_in(const struct spoor_elf *elf, const Elf64_Shdr *section, uint64_t at)
{
	uint64_t address;

	if (at + sizeof(address) > section->sh_size ||
	    spoor_image_read(&elf->image, section->sh_offset + at, &address, sizeof(address)) < 0)
		return 0;
	return address ? address : relocated(elf, section->sh_addr + at);
}

/* Since Go 1.26 the header does not say it, only what the runtime knows of itself, which has a section since then. */
static uint64_t text_of(const struct spoor_elf *elf, const Elf64_Shdr *table)
{
	const Elf64_Shdr *module = spoor_elf_section(elf, ".go.module");
	uint64_t text = address_in(elf, table, offsetof(struct header, text));

	if (text || !has_bytes(elf, module) || address_in(elf, module, 0) != table->sh_addr)
		return text;
	return address_in(elf, module, MODULE_TEXT);
}

/* Its tables follow each other, as Go's linker writes them, and the last has room for all functions. */
static bool is_plausible(const struct header *h, uint64_t room)
{
	return is_relative(h) && !h->zero[0] && !h->zero[1] && h->quantum == 1 && h->pointer == 8 && h->n_functions &&
	       h->n_functions <= MAX_FUNCTIONS && sizeof(*h) <= h->names && h->names <= h->units &&
	       h->units <= h->files && h->files <= h->pcs && h->pcs <= h->functions && h->functions < room &&
	       h->n_functions * 8 + 4 <= room - h->functions;
}

/* A program may carry another one among its data: the functions must be in this one's code. */
static bool is_of_this_code(const struct search *s, const Elf64_Shdr *table, const struct header *h, uint64_t text)
{
	uint64_t functions = table->sh_offset + h->functions, begin = s->text->sh_addr;
	uint32_t first, end;

	if (spoor_image_read(&s->elf->image, functions, &first, sizeof(first)) < 0 ||
	    spoor_image_read(&s->elf->image, functions + h->n_functions * 8, &end, sizeof(end)) < 0)
		return false;
	return first < end && text >= begin && text - begin <= s->text->sh_size &&
	       end <= s->text->sh_size - (text - begin);
}

static bool is_table(struct search *s, const Elf64_Shdr *table, struct spoor_go_table *ret)
{
	struct header h;
	uint64_t text;

	if (!read_header(s->elf, table, &h) || !is_plausible(&h, table->sh_size) || s->n_candidates >= MAX_CANDIDATES)
		return false;
	s->n_candidates++;
	text = text_of(s->elf, table);
	if (!text || !is_of_this_code(s, table, &h, text))
		return false;
	*ret = (struct spoor_go_table){ .section = *table, .text = text };
	return true;
}

/* The first eight bytes say already that nearly everything is no header. */
static bool begins_header(const uint8_t *at)
{
	static const uint8_t rest[] = { 0xff, 0xff, 0xff, 0, 0, 1, 8 };

	return (at[0] == (GO_1_18 & 0xff) || at[0] == (GO_1_20 & 0xff)) && !memcmp(at + 1, rest, sizeof(rest));
}

static Elf64_Shdr rest_of(const Elf64_Shdr *section, uint64_t skip)
{
	Elf64_Shdr rest = *section;

	rest.sh_addr += skip;
	rest.sh_offset += skip;
	rest.sh_size -= skip;
	return rest;
}

static bool search_piece(struct search *s, const Elf64_Shdr *section, uint64_t at, const uint8_t *piece, uint64_t size,
			 struct spoor_go_table *ret)
{
	for (uint64_t i = 0; i + STEP <= size; i += STEP) {
		Elf64_Shdr table;

		if (!begins_header(piece + i))
			continue;
		table = rest_of(section, at + i);
		if (is_table(s, &table, ret))
			return true;
	}
	return false;
}

static bool search_section(struct search *s, const Elf64_Shdr *section, struct spoor_go_table *ret)
{
	uint8_t piece[PIECE];

	if (!has_bytes(s->elf, section))
		return false;
	for (uint64_t at = 0, some; at < section->sh_size; at += some) {
		some = section->sh_size - at < PIECE ? section->sh_size - at : PIECE;
		if (spoor_image_read(&s->elf->image, section->sh_offset + at, piece, some) < 0)
			return false;
		if (search_piece(s, section, at, piece, some, ret))
			return true;
	}
	return false;
}

static int search_all(const struct spoor_elf *elf, struct spoor_go_table *ret)
{
	struct search s = { .elf = elf, .text = spoor_elf_section(elf, ".text") };

	if (!s.text || (!spoor_elf_section(elf, ".go.buildinfo") && !spoor_elf_section(elf, ".note.go.buildid")))
		return -ENOENT;
	if (search_section(&s, spoor_elf_section(elf, ".data.rel.ro"), ret) ||
	    search_section(&s, spoor_elf_section(elf, ".rodata"), ret))
		return 0;
	return -ENOENT;
}

int spoor_go_table_find(const struct spoor_elf *elf, struct spoor_go_table *ret)
{
	const Elf64_Shdr *section = spoor_elf_section(elf, ".gopclntab");
	struct header h;

	if (!has_bytes(elf, section))
		section = spoor_elf_section(elf, ".data.rel.ro.gopclntab");
	if (!has_bytes(elf, section))
		return search_all(elf, ret);
	*ret = (struct spoor_go_table){ .section = *section };
	if (read_header(elf, section, &h) && is_relative(&h))
		ret->text = text_of(elf, section);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of PLT entries. An entry jumps through a slot, `jmp *slot(%rip)`, and the slot's relocation names the
 * function; this holds for .plt, .plt.sec (CET) and .plt.got alike, whatever their order.
 * Source: x86-64 psABI 5.2 and 13.1.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "object/symtab.h"

struct slot {
	uint64_t addr;
	const char *name;
};

struct slots {
	struct slot *list;
	size_t n;
	const Elf64_Sym *syms;
	size_t n_syms;
	const char *strings;
	size_t strings_size;
};

static int add_relocations(struct slots *slots, const Elf64_Rela *relas, size_t n)
{
	struct slot *list = reallocarray(slots->list, slots->n + n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	slots->list = list;
	for (size_t i = 0; i < n; i++) {
		uint64_t sym = ELF64_R_SYM(relas[i].r_info), type = ELF64_R_TYPE(relas[i].r_info);

		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || sym == 0 || sym >= slots->n_syms)
			continue;
		if (slots->syms[sym].st_name == 0 || slots->syms[sym].st_name >= slots->strings_size)
			continue;
		slots->list[slots->n++] = (struct slot){ relas[i].r_offset, slots->strings + slots->syms[sym].st_name };
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct slot *)a)->addr, y = ((const struct slot *)b)->addr;

	return x < y ? -1 : x > y;
}

static const char *name_of_slot(const struct slots *slots, uint64_t addr)
{
	struct slot key = { .addr = addr }, *found;

	if (!slots->n)
		return NULL;
	found = bsearch(&key, slots->list, slots->n, sizeof(key), compare);
	return found ? found->name : NULL;
}

/* The slot that the entry's `jmp *rel(%rip)` goes through; 0 if it has none. */
static uint64_t entry_slot(const uint8_t *code, size_t size, uint64_t addr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = 0;
	int32_t rel;

	if (size >= 4 && !memcmp(code, endbr64, 4))
		at = 4;
	if (at < size && code[at] == 0xf2) /* bnd */
		at++;
	if (at + 6 > size || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	memcpy(&rel, code + at + 2, 4);
	return addr + at + 6 + (uint64_t)(int64_t)rel;
}

static int add_section(struct spoor_symtab *t, const struct spoor_elf *elf, const char *name, size_t entry,
		       const struct slots *slots)
{
	const Elf64_Shdr *section = spoor_elf_section(elf, name);
	_cleanup_(spoor_freep) uint8_t *code = NULL;
	size_t size;

	if (!section || spoor_elf_read(elf, section, (void **)&code, &size) < 0)
		return 0;
	if (section->sh_entsize == 8 || section->sh_entsize == 16)
		entry = section->sh_entsize;
	for (size_t at = 0; at + entry <= size; at += entry) {
		uint64_t addr = section->sh_addr + at;
		uint64_t slot = entry_slot(code + at, entry, addr);
		const char *function = slot ? name_of_slot(slots, slot) : NULL;
		struct spoor_symbol symbol = {
			.addr = addr,
			.end = addr + entry,
			.limit = addr + entry,
			.name = function,
			.rank = 0,
			.form = SPOOR_SYMBOL_PLT,
		};
		int r;

		if (!function || symbol.end < addr)
			continue;
		r = spoor_symtab_add(t, &symbol);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_slots(const struct spoor_elf *elf, struct slots *slots)
{
	static const char *const sections[] = { ".rela.plt", ".rela.dyn" };

	for (size_t i = 0; i < 2; i++) {
		const Elf64_Shdr *section = spoor_elf_section(elf, sections[i]);
		_cleanup_(spoor_freep) void *relas = NULL;
		size_t size;
		int r;

		if (!section || spoor_elf_read(elf, section, &relas, &size) < 0)
			continue;
		r = add_relocations(slots, relas, size / sizeof(Elf64_Rela));
		if (r < 0)
			return r;
	}
	if (slots->n)
		qsort(slots->list, slots->n, sizeof(*slots->list), compare);
	return 0;
}

int spoor_symtab_add_plt(struct spoor_symtab *t, const struct spoor_elf *elf)
{
	static const struct {
		const char *name;
		size_t entry;
	} sections[] = { { ".plt", 16 }, { ".plt.sec", 16 }, { ".plt.got", 8 }, { ".plt.bnd", 16 } };
	const Elf64_Shdr *dynsym = spoor_elf_section_of_type(elf, SHT_DYNSYM);
	_cleanup_(spoor_freep) void *syms = NULL;
	struct slots slots = {};
	char *strings;
	size_t size;
	int r;

	if (!dynsym || !spoor_elf_section_at(elf, dynsym->sh_link))
		return 0;
	if (spoor_elf_read(elf, dynsym, &syms, &size) < 0)
		return 0;
	slots.syms = syms;
	slots.n_syms = size / sizeof(Elf64_Sym);
	if (spoor_elf_read(elf, spoor_elf_section_at(elf, dynsym->sh_link), (void **)&strings, &slots.strings_size) < 0)
		return 0;
	slots.strings = strings;
	r = spoor_symtab_own(t, strings);
	if (r < 0)
		return r;
	r = read_slots(elf, &slots);
	for (size_t i = 0; r == 0 && i < sizeof(sections) / sizeof(*sections); i++)
		r = add_section(t, elf, sections[i].name, sections[i].entry, &slots);
	free(slots.list);
	return r;
}

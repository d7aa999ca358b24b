/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/elf_view.h"

#include <errno.h>
#include <string.h>

static bool read_at(const struct spoor_elf_view *elf, uint64_t offset, void *ret, size_t size)
{
	if (offset > elf->size || size > elf->size - offset)
		return false;
	memcpy(ret, elf->image + offset, size);
	return true;
}

static bool section_header(const struct spoor_elf_view *elf, uint64_t i, Elf64_Shdr *ret)
{
	uint64_t offset;

	if (elf->header.e_shentsize != sizeof(*ret) || __builtin_mul_overflow(i, sizeof(*ret), &offset) ||
	    __builtin_add_overflow(offset, elf->header.e_shoff, &offset))
		return false;
	return read_at(elf, offset, ret, sizeof(*ret));
}

int spoor_view_open(const void *image, size_t size, struct spoor_elf_view *ret)
{
	struct spoor_elf_view elf = { .image = image, .size = size };
	const Elf64_Ehdr *h = &elf.header;
	Elf64_Shdr first;

	if (!read_at(&elf, 0, &elf.header, sizeof(elf.header)))
		return -ENOEXEC;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64)
		return -ENOEXEC;
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
		return -ENOEXEC;

	if (h->e_shoff) {
		elf.n_sections = h->e_shnum;
		if (!elf.n_sections && section_header(&elf, 0, &first))
			elf.n_sections = first.sh_size;
		/* No more than the file has room for: it bounds every loop over sections. */
		if (elf.n_sections > size / sizeof(Elf64_Shdr))
			elf.n_sections = size / sizeof(Elf64_Shdr);
	}
	*ret = elf;
	return 0;
}

bool spoor_view_segment(const struct spoor_elf_view *elf, unsigned int i, Elf64_Phdr *ret)
{
	uint64_t offset;

	if (i >= elf->header.e_phnum || elf->header.e_phentsize != sizeof(*ret) ||
	    __builtin_add_overflow(elf->header.e_phoff, (uint64_t)i * sizeof(*ret), &offset))
		return false;
	return read_at(elf, offset, ret, sizeof(*ret));
}

static bool section_named(const struct spoor_elf_view *elf, const Elf64_Shdr *names, uint32_t at, const char *name)
{
	size_t len = strlen(name) + 1;
	uint64_t offset;

	if (at >= names->sh_size || len > names->sh_size - at || __builtin_add_overflow(names->sh_offset, at, &offset))
		return false;
	return offset <= elf->size && len <= elf->size - offset && !memcmp(elf->image + offset, name, len);
}

static int find_section(const struct spoor_elf_view *elf, const char *name, bool compressed,
			struct spoor_view_range *ret)
{
	uint64_t i, n_names = elf->header.e_shstrndx;
	Elf64_Shdr names, s;

	if (n_names == SHN_XINDEX)
		n_names = section_header(elf, 0, &s) ? s.sh_link : 0;
	if (n_names >= elf->n_sections || !section_header(elf, n_names, &names))
		return -ENOENT;

	for (i = 1; i < elf->n_sections; i++) {
		if (!section_header(elf, i, &s))
			return -ENOENT;
		if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL ||
		    !!(s.sh_flags & SHF_COMPRESSED) != compressed || !section_named(elf, &names, s.sh_name, name))
			continue;
		if (s.sh_offset > elf->size || s.sh_size > elf->size - s.sh_offset || !s.sh_size)
			continue;
		ret->data = elf->image + s.sh_offset;
		ret->size = s.sh_size;
		ret->vaddr = s.sh_addr;
		return 0;
	}
	return -ENOENT;
}

int spoor_view_section(const struct spoor_elf_view *elf, const char *name, struct spoor_view_range *ret)
{
	return find_section(elf, name, false, ret);
}

int spoor_view_compressed(const struct spoor_elf_view *elf, const char *name, struct spoor_view_range *ret)
{
	return find_section(elf, name, true, ret);
}

int spoor_view_mapped(const struct spoor_elf_view *elf, uint64_t vaddr, struct spoor_view_range *ret)
{
	Elf64_Phdr p;
	uint64_t skip, size;
	unsigned int i;

	for (i = 0; spoor_view_segment(elf, i, &p); i++) {
		if (p.p_type != PT_LOAD || vaddr < p.p_vaddr)
			continue;
		skip = vaddr - p.p_vaddr;
		if (skip >= p.p_filesz || p.p_offset >= elf->size || skip >= elf->size - p.p_offset)
			continue;
		size = p.p_filesz - skip;
		if (size > elf->size - p.p_offset - skip)
			size = elf->size - p.p_offset - skip;
		ret->data = elf->image + p.p_offset + skip;
		ret->size = size;
		ret->vaddr = vaddr;
		return 0;
	}
	return -ENOENT;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "object/unpacked.h"

#define MAX_SECTIONS (1 << 20)
#define MAX_SECTION_SIZE (1ULL << 30)

int spoor_image_read(const struct spoor_image *image, uint64_t offset, void *ret_buf, size_t len)
{
	size_t done = 0;

	if (offset > image->size || len > image->size - offset)
		return -EBADMSG;
	if (image->fd < 0) {
		memcpy(ret_buf, (const char *)image->mem + offset, len);
		return 0;
	}
	while (done < len) {
		ssize_t n = pread(image->fd, (char *)ret_buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG; /* the file shrank */
		done += (size_t)n;
	}
	return 0;
}

static int read_sections(struct spoor_elf *elf)
{
	const Elf64_Ehdr *h = &elf->header;
	uint64_t n = h->e_shnum, names = h->e_shstrndx;
	Elf64_Shdr first;
	int r;

	if (!h->e_shoff)
		return 0;
	if (h->e_shentsize != sizeof(Elf64_Shdr))
		return -EBADMSG;
	r = spoor_image_read(&elf->image, h->e_shoff, &first, sizeof(first));
	if (r < 0)
		return r;
	if (n == 0)
		n = first.sh_size;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	if (n > MAX_SECTIONS || n > elf->image.size / sizeof(Elf64_Shdr))
		return -EBADMSG;

	elf->sections = calloc(n + 1, sizeof(*elf->sections));
	if (!elf->sections)
		return -ENOMEM;
	r = spoor_image_read(&elf->image, h->e_shoff, elf->sections, n * sizeof(Elf64_Shdr));
	if (r < 0)
		return r;
	elf->n_sections = (unsigned)n;
	if (names >= n)
		return 0;
	r = spoor_elf_read(elf, &elf->sections[names], (void **)&elf->names, &elf->names_size);
	return r == -ENODATA ? 0 : r;
}

int spoor_elf_open(const struct spoor_image *image, struct spoor_elf *ret, struct spoor_error *e)
{
	struct spoor_elf elf = { .image = *image };
	int r;

	r = spoor_image_read(image, 0, &elf.header, sizeof(elf.header));
	if (r == -EBADMSG || (r == 0 && memcmp(elf.header.e_ident, ELFMAG, SELFMAG)))
		return spoor_fail(e, ENOEXEC, "not an ELF file");
	if (r < 0)
		return spoor_fail(e, -r, "cannot read ELF header: %s", strerror(-r));
	if (elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    elf.header.e_machine != EM_X86_64)
		return spoor_fail(e, ENOEXEC, "not an x86-64 ELF file");
	r = read_sections(&elf);
	if (r < 0) {
		spoor_elf_close(&elf);
		return spoor_fail(e, -r, "damaged ELF section headers");
	}
	*ret = elf;
	return 0;
}

void spoor_elf_close(struct spoor_elf *elf)
{
	free(elf->sections);
	free(elf->names);
	*elf = (struct spoor_elf){ .image.fd = -1 };
}

const Elf64_Shdr *spoor_elf_section(const struct spoor_elf *elf, const char *name)
{
	for (unsigned i = 1; i < elf->n_sections; i++) {
		const Elf64_Shdr *sh = &elf->sections[i];

		if (sh->sh_name < elf->names_size && !strcmp(elf->names + sh->sh_name, name))
			return sh;
	}
	return NULL;
}

const Elf64_Shdr *spoor_elf_section_of_type(const struct spoor_elf *elf, uint32_t type)
{
	for (unsigned i = 1; i < elf->n_sections; i++)
		if (elf->sections[i].sh_type == type)
			return &elf->sections[i];
	return NULL;
}

const Elf64_Shdr *spoor_elf_section_at(const struct spoor_elf *elf, uint32_t index)
{
	return index && index < elf->n_sections ? &elf->sections[index] : NULL;
}

static bool is_mostly_a_hole(const struct spoor_image *image, uint64_t size)
{
	struct stat st;

	return image->fd >= 0 && fstat(image->fd, &st) == 0 && size > spoor_most_memory(&st);
}

int spoor_elf_read(const struct spoor_elf *elf, const Elf64_Shdr *section, void **ret, size_t *ret_size)
{
	_cleanup_(spoor_freep) char *buf = NULL;
	int r;

	if (section->sh_type == SHT_NOBITS || section->sh_size == 0 || section->sh_flags & SHF_COMPRESSED)
		return -ENODATA;
	if (section->sh_size > MAX_SECTION_SIZE || section->sh_offset > elf->image.size ||
	    section->sh_size > elf->image.size - section->sh_offset || is_mostly_a_hole(&elf->image, section->sh_size))
		return -EBADMSG;
	buf = malloc(section->sh_size + 1);
	if (!buf)
		return -ENOMEM;
	r = spoor_image_read(&elf->image, section->sh_offset, buf, section->sh_size);
	if (r < 0)
		return r;
	buf[section->sh_size] = 0;
	*ret_size = section->sh_size;
	*ret = TAKE_PTR(buf);
	return 0;
}

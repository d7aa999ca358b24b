/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Bounded random access to an ELF image, in a file or in memory. Files are read, never mapped, so that a file which
 * shrinks under us is a short read and not a SIGBUS. Every offset and size of the image is checked before use.
 * Source: System V ABI (gABI) chapters 4 and 5.
 */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct spoor_image {
	int fd;          /* -1: in memory */
	const void *mem; /* not owned */
	uint64_t size;
};

struct spoor_elf {
	struct spoor_image image;
	Elf64_Ehdr header;
	Elf64_Shdr *sections; /* owned */
	unsigned n_sections;
	char *names; /* owned section names, NUL-terminated */
	size_t names_size;
};

/* Reads [offset, offset+len) whole, or fails with -EBADMSG (outside the image) or -errno. */
int spoor_image_read(const struct spoor_image *image, uint64_t offset, void *ret_buf, size_t len);

/* Reads headers of an x86-64 ELF. -ENOEXEC: it is none; -EBADMSG: damaged. The image must outlive *ret. */
int spoor_elf_open(const struct spoor_image *image, struct spoor_elf *ret, struct spoor_error *e);
void spoor_elf_close(struct spoor_elf *elf);

/* NULL if there is none. */
const Elf64_Shdr *spoor_elf_section(const struct spoor_elf *elf, const char *name);
const Elf64_Shdr *spoor_elf_section_of_type(const struct spoor_elf *elf, uint32_t type);
const Elf64_Shdr *spoor_elf_section_at(const struct spoor_elf *elf, uint32_t index);

/* The section's bytes, followed by a NUL that is not counted. Caller frees. -ENODATA: no bytes in this file. */
int spoor_elf_read(const struct spoor_elf *elf, const Elf64_Shdr *section, void **ret, size_t *ret_size);

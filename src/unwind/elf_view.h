/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A bounds-checked look into an ELF64 x86-64 image that lies in memory. Input is untrusted: every accessor
 * answers "not there" rather than reading outside of [image, image+size), and assumes no alignment.
 * Nothing is allocated; a view lives as long as the image. Thread-safe.
 *
 * Source of the layout: System V gABI, chapters 4 and 5.
 */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spoor_elf_view {
	const uint8_t *image;
	size_t size;
	Elf64_Ehdr header;
	uint64_t n_sections; /* e_shnum, or section 0's size when there are too many for it */
};

/* A piece of the file and where the process sees it. */
struct spoor_view_range {
	const uint8_t *data;
	size_t size;
	uint64_t vaddr;
};

/* Returns 0, or -ENOEXEC when this is no x86-64 executable or shared object. */
int spoor_view_open(const void *image, size_t size, struct spoor_elf_view *ret);
bool spoor_view_segment(const struct spoor_elf_view *elf, unsigned int i, Elf64_Phdr *ret);
/* The first section of this name that has bytes in the file and is not compressed; 0 or -ENOENT. */
int spoor_view_section(const struct spoor_elf_view *elf, const char *name, struct spoor_view_range *ret);
/* The same of one that is compressed (SHF_COMPRESSED): as it is in the file. */
int spoor_view_compressed(const struct spoor_elf_view *elf, const char *name, struct spoor_view_range *ret);
/* What is mapped at vaddr, to the end of its segment's file bytes; 0 or -ENOENT. */
int spoor_view_mapped(const struct spoor_elf_view *elf, uint64_t vaddr, struct spoor_view_range *ret);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * How large debugging information becomes when it is unpacked: a hostile file is to cost by its size. Source: gABI
 * chapter 4, "Section Compression"; .zdebug_*, which is what binutils made before there was that: "ZLIB", the size in 8
 * bytes, the higher first.
 */
#include <endian.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* Sections of real objects become at most ten times smaller. */
#define SPOOR_MOST_TIMES_SMALLER 64

/* The head of a .zdebug_* section: its length, and the size unpacked; 0: it is none. */
static inline size_t spoor_zdebug_head(const void *section, size_t n, uint64_t *ret_size)
{
	static const char magic[] = { 'Z', 'L', 'I', 'B' };
	const size_t head = sizeof(magic) + sizeof(uint64_t);

	if (n < head || memcmp(section, magic, sizeof(magic)))
		return 0;
	memcpy(ret_size, (const char *)section + sizeof(magic), sizeof(*ret_size));
	*ret_size = be64toh(*ret_size);
	return head;
}

/*
 * Is all that libdw would take into memory of this file's debugging information within bounds? mapped: only what is
 * unpacked costs memory; else all of it is read, and a sparse file has taken no room on its disk for it.
 */
bool spoor_debug_is_bounded(Elf *elf, const struct stat *st, bool mapped);

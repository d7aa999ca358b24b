/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What a file's tables cost in memory, read or unpacked: a hostile file is to cost by its size. Source: gABI
 * chapter 4, "Section Compression"; .zdebug_*, which is what binutils made before there was that: "ZLIB", the size in 8
 * bytes, the higher first.
 */
#include <endian.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>

/* Sections of real objects become at most ten times smaller. */
#define SPOOR_MOST_TIMES_SMALLER 64

/* What a file may cost in memory: by the room that it takes on its disk, since a hole costs its owner nothing. */
static inline uint64_t spoor_most_memory(const struct stat *st)
{
	uint64_t disk = st->st_blocks ? st->st_blocks * 512ULL : (uint64_t)st->st_size; /* a server may not tell */

	return MIN(disk, (4ULL << 30) / SPOOR_MOST_TIMES_SMALLER) * SPOOR_MOST_TIMES_SMALLER;
}

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

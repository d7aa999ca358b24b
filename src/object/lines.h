/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Source lines and inlined functions from DWARF 2-5, by libdw. libdw parses a stranger's bytes in this process, so
 * what it unpacks and our own work over that are bounded (entries, depth, ranges), files that only root can change are
 * mapped and all others are read, and nothing is opened before an address of the object is asked for.
 * Source: DWARF 5, sections 2.17, 3.3, 6.2.
 */
#include "object/symbols.h"

struct spoor_lines;

/*
 * Keeps its own descriptors. alt_fd: the supplementary file, -1: look for it. -ENODATA: no DWARF in the file;
 * -EFBIG: it, or that of the supplementary one, would become too large in memory.
 */
int spoor_lines_open(int fd, int alt_fd, const char *debug_root, struct spoor_lines **ret);
void spoor_lines_free(struct spoor_lines *l);

/*
 * Like spoor_symbols_resolve(). The last line's function is NULL where DWARF has only a line; *ret_start is where
 * the owning function begins (0: unknown). Returns 0 when nothing is known.
 */
int spoor_lines_resolve(struct spoor_lines *l, uint64_t vaddr, struct spoor_source_line *lines, int max,
			uint64_t *ret_start, int *ret_unqualified);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Where a Go program keeps its table of functions (pclntab). Go's own linker gives it a section. Others put it with
 * what else is read-only once relocated: then it is searched for by its header, in Go programs alone.
 * Source: Go's src/runtime/symtab.go (pcHeader, moduledata).
 */
#include "object/image.h"

struct spoor_go_table {
	Elf64_Shdr section; /* sh_addr, sh_offset and sh_size: from the table on to the end of its section */
	uint64_t text;      /* what its addresses are relative to, since Go 1.18; 0: the file does not say */
};

/* Thread-safe. Beyond what `text` comes from, only a table that was searched for has been looked at. 0 or -ENOENT. */
int spoor_go_table_find(const struct spoor_elf *elf, struct spoor_go_table *ret);

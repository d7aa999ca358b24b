/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Function names and lines of Go programs, which keep them in .gopclntab (found by go_table.h) even when stripped.
 * Source: Go's src/debug/gosym/pclntab.go and src/runtime/symtab.go, formats of Go 1.2, 1.16, 1.18 and 1.20.
 */
#include "object/symtab.h"

struct spoor_gopclntab;

/* -ENOENT: no such table; -EBADMSG: damaged or of a version we do not know. */
int spoor_gopclntab_open(const struct spoor_elf *elf, struct spoor_gopclntab **ret);
void spoor_gopclntab_free(struct spoor_gopclntab *g);

/* Adds every function; names stay in g, which must outlive t. */
int spoor_gopclntab_symbols(const struct spoor_gopclntab *g, struct spoor_symtab *t);
/* File and line of an address, or -ENOENT. The file stays in g. */
int spoor_gopclntab_line(const struct spoor_gopclntab *g, uint64_t vaddr, const char **ret_file, uint32_t *ret_line);

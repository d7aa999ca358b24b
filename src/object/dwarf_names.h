/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What a DWARF function entry is called: its linkage name demangled, else its name qualified by its scopes. */
#include <elfutils/libdw.h>

struct spoor_dwarf_names;

int spoor_dwarf_names_new(struct spoor_dwarf_names **ret);
void spoor_dwarf_names_free(struct spoor_dwarf_names *names);

/*
 * Borrowed until spoor_dwarf_names_free(); NULL if it has none. *ret_unqualified is 1 if the name is a bare one in a
 * language that has namespaces, so that a symbol table may know better.
 */
const char *spoor_dwarf_name(struct spoor_dwarf_names *names, Dwarf_Die *function, int *ret_unqualified);

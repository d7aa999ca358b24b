/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "unwind/elf_view.h"
#include "unwind/rowset.h"

/*
 * Adds the ranges and rows of the Go functions of an object, from the stack deltas of its .gopclntab.
 * 0, -ENOENT: no Go; -EBADMSG: damaged, or a version we do not know; -ENOMEM.
 *
 * Source: Go's src/runtime/symtab.go and src/internal/abi/symtab.go; layouts of Go 1.2, 1.16, 1.18 and 1.20.
 */
int spoor_go_read(const struct spoor_elf_view *elf, struct rowset *rows);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Unwind rows that the recorder compiled, as it hands them over: a memfd that nobody can change any more
 * (unwind/row_layout.h). What is in it is not believed: sizes are checked here, indexes at each use.
 */
#include "agent/core/sys.h"
#include "unwind/row.h"

/* Maps the rows, for ever. 0 or -errno: it is not what it should be, or there is no memory. */
int rows_map(int fd, struct spoor_row_table *ret);

/* The rule for an address of the ELF file; of op NONE if there is none. Async-signal-safe. */
struct spoor_rule rows_rule(const struct spoor_row_table *t, uint64_t vaddr);

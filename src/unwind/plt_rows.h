/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Rows for the stubs by which objects call each other, where nothing describes them: lld's, and in programs that are
 * linked statically those of functions that are chosen as the program begins. A signal may interrupt them as any code.
 */
#include "unwind/elf_view.h"
#include "unwind/rowset.h"

/* All ranges are settled before and after. What is not known as a stub gets no rows. 0, or -ENOMEM. */
int spoor_plt_rows(const struct spoor_elf_view *elf, struct rowset *rows);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Rows for code that nothing describes, in an object that describes other code: what was compiled without unwind
 * information, beside the C runtime's start files that have it. Such code can be walked if it keeps frame pointers,
 * which the prologues of what it calls tell; from the first prologue in a gap on it is taken to.
 */
#include "unwind/elf_view.h"
#include "unwind/rowset.h"

/* All ranges are settled before and after. 0, or -ENOMEM. */
int spoor_frame_pointer_rows(const struct spoor_elf_view *elf, struct rowset *rows);

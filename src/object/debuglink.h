/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Where an object's debug information lies when it is in a file of its own: by build-id, by .gnu_debuglink (name and
 * CRC), and the supplementary file that dwz shares between several (.gnu_debugaltlink).
 * Source: GDB manual, "Debugging Information in Separate Files"; DWARF 5 section 7.3.6.
 */
#include <stdbool.h>

#include "object/image.h"

/*
 * Open fd of the separate debug file of the object `elf` (its image must be a file), or -ENOENT. Caller closes.
 * ret_other (may be NULL): one that has its build-id is of other code, and was passed over.
 */
int spoor_debuglink_open(const struct spoor_elf *elf, const char *debug_root, bool *ret_other);
/* Open fd of the supplementary file that the debug file `elf` refers to, or -ENOENT. Caller closes. */
int spoor_debugaltlink_open(const struct spoor_elf *elf, const char *debug_root);

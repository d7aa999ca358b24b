/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* /tmp/perf-PID.map: what just-in-time compilers say about the code they made. "START SIZE NAME", numbers in hex. */
#include "object/symtab.h"

/* Fills t with the map of pid; t is empty on failure. A file that is not there, not regular, or not its owner's to write is no map: -ENOENT. */
int spoor_jit_map_load(const char *folder, unsigned pid, struct spoor_symtab *t);

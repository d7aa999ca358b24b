/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* /tmp/perf-PID.map: what just-in-time compilers say about the code they made. "START SIZE NAME", numbers in hex. */
#include "object/symtab.h"

/*
 * Opens the map of pid. A file that is not there, not regular, or not its owner's alone to write is no map: -ENOENT.
 * Links are not followed: /tmp is everybody's.
 */
int spoor_jit_map_open(const char *folder, unsigned pid);
/* Fills t; t is empty on failure. */
int spoor_jit_map_load(int fd, struct spoor_symtab *t);

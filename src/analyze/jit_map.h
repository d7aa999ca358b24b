/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* /tmp/perf-PID.map: what just-in-time compilers say about the code they made. "START SIZE NAME", numbers in hex. */
#include "object/symtab.h"

#define SPOOR_JIT_MAP_MAX (256u << 20) /* bytes; a larger one is none */

/* Fills t; t is empty on failure. */
int spoor_jit_map_load(int fd, struct spoor_symtab *t);

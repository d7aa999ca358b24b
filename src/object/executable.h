/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Is this ELF file a program (ET_EXEC, or a position-independent executable), not a shared library? */
#include <stdbool.h>

/* Reads with bounded preads; a damaged file is no executable. Thread-safe. */
bool spoor_object_is_executable(int fd);
/* The program interpreter (PT_INTERP), or "" if there is none. size >= 1. */
void spoor_object_interpreter(int fd, char *ret, int size);

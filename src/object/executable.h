/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Is this ELF file a program (ET_EXEC, or a position-independent executable), not a shared library? */
#include <stdbool.h>

/* Reads with bounded preads; a damaged file is no executable. Thread-safe. */
bool spoor_object_is_executable(int fd);
/* The program interpreter (PT_INTERP), or "" if there is none. size >= 1. */
void spoor_object_interpreter(int fd, char *ret, int size);
/* What a script names behind its "#!", without arguments, or /bin/sh, as execvp(3) has it; "": it is ELF. size > 8. */
void spoor_object_script(int fd, char *ret, int size);
/* The loader that begins to run when path is executed: of a script, its interpreter's. "": there is none. */
void spoor_object_loader(const char *path, char *ret, int size);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Code that a program makes as it runs need not lie in anonymous memory: where it is written by one mapping and run by
 * another (so that no page is both), these are of a memfd, of shared memory, or of a file. Thread-safe.
 */
#include <stdbool.h>

/* Is what lies in this file such code? That is so unless it is an ELF file or another system's (PE). */
bool spoor_file_is_made_code(int fd);
/* Does a file of this name live no longer than the processes that have it mapped: a memfd, shared memory? */
bool spoor_path_is_shared_memory(const char *path);

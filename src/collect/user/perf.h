/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Counters that programs may be asked for (SPOOR_PERF_CONTEXTS of arena.h): which of them there are on this machine. */
#include <stddef.h>
#include <stdint.h>

/*
 * Which of these contexts' counters cannot be had here, and why, as words for a person; "": all can. Asked for
 * ourselves: a program of another user may have fewer.
 */
void spoor_user_perf_missing(uint32_t contexts, char *ret, size_t size);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* From what was collected to what is understood and shown: a snapshot as struct spoor_counters. */
#include "analyze/counters.h"
#include "collect/session/counting.h"

/* Everything so far, folded to `level` (spoor_folder_new()). 0 or -errno; *ret is then empty. */
int spoor_stat_fill(struct spoor_counting *c, enum spoor_stat_level level, struct spoor_counters *ret);

/*
 * Processes that have ended, one by one: `done` is called with the counters of each, which are gone when it returns.
 * Returns 0, or the first error of it or for want of memory.
 */
int spoor_stat_take_finals(struct spoor_counting *c, int (*done)(void *ctx, struct spoor_counters *c), void *ctx);

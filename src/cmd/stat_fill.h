/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* From what was collected to what is understood and shown: a snapshot as struct spoor_counters. */
#include "analyze/counters.h"
#include "collect/session/counting.h"

/*
 * Everything so far. 0 or -errno; *ret is then empty. *ret_first: the pid of the first of those processes that are in
 * one task (pid 0), if there is one.
 */
int spoor_stat_fill(struct spoor_counting *c, struct spoor_counters *ret, pid_t *ret_first);

/* Ended processes one by one: `done` is called with the counters of each, which are its own until it returns. */
struct spoor_stat_finals;
struct spoor_stat_finals *spoor_stat_finals_new(void (*done)(void *ctx, struct spoor_counters *c), void *ctx);
const struct spoor_count_visitor *spoor_stat_finals_visitor(struct spoor_stat_finals *f);
void spoor_stat_finals_freep(struct spoor_stat_finals **f);

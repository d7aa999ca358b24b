/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What was counted, by thread: live threads as the kernel has them, and what ended threads left, kept here by process.
 * Nothing is missed and nothing counted twice between two looks. Used from one thread.
 */
#include <stdbool.h>

#include "collect/kernel/rounds.h"
#include "collect/session/counted.h"

struct spoor_counts;

/*
 * keep: ended processes stay apart, until there are some thousands: then the oldest are merged into one. Else they all
 * are, once they were handed out by spoor_counts_finals(), or at once if `finals` is not set.
 */
int spoor_counts_new(struct spoor_kernel *k, bool keep, bool finals, struct spoor_counts **ret);
void spoor_counts_free(struct spoor_counts *c);

/* By site: stack_of() as spoor_site_stacks_id(), for ids that are of one call only. */
typedef uint32_t (*spoor_counts_stack_fn)(void *ctx, uint32_t stack, bool now);
void spoor_counts_name_stacks(struct spoor_counts *c, spoor_counts_stack_fn stack_of, void *ctx);

/* Everything so far. 0 or -errno; what was handed out until then is right, but not all. */
int spoor_counts_take(struct spoor_counts *c, const struct spoor_count_visitor *v);
/* Takes what ended threads have left from the kernel, which has room for some thousand processes. */
int spoor_counts_collect(struct spoor_counts *c);
/* Processes that have ended and were not handed out here yet, each complete. Returns how many. */
size_t spoor_counts_finals(struct spoor_counts *c, const struct spoor_count_visitor *v);
/* Calls that nothing else says, for want of kernel memory. */
uint64_t spoor_counts_lost(const struct spoor_counts *c);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What of programs' buffers is in a trace already, as the trace's packets say: for a recorder that follows one which
 * was killed after it wrote and before it gave the packets back. Not thread-safe.
 */
#include <stdint.h>

#include "collect/user/arena.h"
#include "trace/source_list.h"

/* How much that was: events; as far as it was told with them, what was lost, overwritten, too late; programs. */
struct spoor_written_sum {
	uint64_t events, lost, overwritten, late, undescribed;
	unsigned programs;
};
void spoor_written_sum(struct spoor_source_list *w, struct spoor_written_sum *ret);
/* Moves the positions of an arena's packets behind what is written. */
void spoor_written_apply(struct spoor_source_list *w, struct spoor_user_arena *a);

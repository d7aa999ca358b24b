/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What every report says at its end: how much it is about, what was lost, how the stacks were walked. */
#include "trace/reader.h"

struct spoor_tally {
	uint64_t calls, errors, unfinished;
	uint64_t began_before; /* of calls: those whose times are only bounds */
	uint64_t walks[SPOOR_WALK_STATUS_MAX]; /* per call, by enum spoor_walk_status */
	uint64_t ways[2];                      /* by enum spoor_walk_way */
	uint64_t no_stack;                     /* none was asked for */
	uint64_t empty;                        /* complete, and without any call site of what was asked for */
	uint64_t user_events;
};

/* n calls (completed, failed, or never ended) with this stack. */
void spoor_tally_stack(struct spoor_tally *t, const struct spoor_segment *segment, uint32_t stack, uint64_t n);

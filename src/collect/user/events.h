/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Events of an arena made events of a trace, where they lie: stamps to CLOCK_MONOTONIC, ids to the trace's, tids to
 * the host's; everything checked, so that what comes out can be written. Not thread-safe.
 */
#include "collect/user/arena.h"
#include "collect/user/lanes.h"
#include "collect/user/stacks.h"

struct spoor_user_events {
	struct spoor_user_arena *arena;
	struct spoor_user_classes *classes;
	struct spoor_user_clock *clock; /* NULL: stamps are CLOCK_MONOTONIC ns already */
	uint64_t until;                 /* ns: what is later is left for the next time */
	uint64_t most;                  /* ns: what is later still is garbage */
	/* The host's tid of what the program calls so. */
	uint32_t (*tid)(void *ctx, uint32_t tid);
	/* The id of a call stack, defined. NULL: they have none. */
	uint32_t (*stack)(void *ctx, const struct spoor_user_walk *walk);
	void *ctx;
	const struct spoor_user_class *class; /* of the event at hand */
};

struct spoor_user_batch {
	struct spoor_run run; /* what is sound and not too late, padding left out */
	size_t bytes;         /* of the arena that this was */
	uint64_t n;           /* events */
	uint32_t tid;         /* of all of them; 0: of several */
	bool all;             /* nothing was left for the next time */
};

/*
 * `len` bytes at `data`, copied from packet i at its position. The packet is marked bad at the first event that makes
 * no sense; what remains of it is then not left but lost.
 */
void spoor_user_events_convert(struct spoor_user_events *x, unsigned i, uint8_t *data, size_t len,
			       struct spoor_user_batch *ret);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Events of an arena made events of a trace, in the one pass that copies them: stamps to CLOCK_MONOTONIC, ids to the
 * trace's, tids to the host's; everything checked, so that what comes out can be written. Not thread-safe.
 *
 *	the program's memory   | head | fields ..... | head | fields ... |   each word is read once; of the head what it
 *	                          |        |            |        |           says is checked before it is used, of the
 *	                          v        v            v        v           fields, their copy
 *	the round's buffer     | head'| fields ..... | head'| fields ... |
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
	size_t room;                    /* bytes: a packet that has more is left alone */
	/* The host's tid of what the program calls so. */
	uint32_t (*tid)(void *ctx, uint32_t tid);
	/* The id of a call stack, defined. NULL: they have none. */
	uint32_t (*stack)(void *ctx, const struct spoor_user_walk *walk);
	void *ctx;
};

struct spoor_user_batch {
	struct spoor_run run; /* what is sound and not too late, padding left out */
	size_t bytes;         /* of the arena that this was */
	uint64_t n;           /* events */
	uint64_t undescribed; /* events that are not in it, for want of a description */
	uint32_t tid;         /* of all of them; 0: of several */
	bool too_much;        /* there was no room: it is left alone */
	bool done;            /* it is full, and nothing of it was left for the next time */
};

/*
 * What packet i has that was not taken yet, into `to`, which has room for the whole packet. It is marked bad at the
 * first event that makes no sense; what remains of it is then not left but lost. Of a class that is defined, and has
 * no description that makes sense (spoor_user_undescribed), single events are lost.
 */
void spoor_user_events_take(struct spoor_user_events *x, unsigned i, uint8_t *to, struct spoor_user_batch *ret);

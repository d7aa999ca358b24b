/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Which stream file what is written to. A run is what one thread wrote since it was looked at last, in order of time;
 * a lane is a stream, in which runs must not overlap:
 *
 *   lane 0   [thread 1][ thread 7 ]     [ thread 1 ]
 *   lane 1      [thread 2 ]    [thread 9]   [ 2 ]              -> time
 *
 * A run goes to the lane that ended last before it begins (first come, best fit: the fewest lanes that do), whatever
 * thread it is of: so there are as many lanes as threads wrote at once, not as there were threads. Where that would
 * be too many, the runs at hand are merged into one. Not thread-safe.
 */
#include <stddef.h>
#include <stdint.h>

#define SPOOR_LANES 64
#define SPOOR_LANES_PLAIN 48 /* for runs as they are; the others are for what was merged, and for who comes late */

struct spoor_run {
	uint8_t *data; /* whole events, struct spoor_event_header */
	size_t len;
	uint64_t begin, end; /* stamps of the first and last */
	unsigned lane;
	void *owner; /* the caller's */
};

struct spoor_lanes {
	uint64_t end[SPOOR_LANES];
	unsigned n; /* in use */
};

/* Sorts runs by their begin, gives each a lane. -E2BIG: they need too many lanes; nothing has changed but the order. */
int spoor_lanes_assign(struct spoor_lanes *l, struct spoor_run *runs, size_t n);
/* One run, that may use all lanes. -E2BIG: it begins before the end of each. */
int spoor_lanes_place(struct spoor_lanes *l, struct spoor_run *run);
/* The least end of any lane: with all in use, what is older has no place. */
uint64_t spoor_lanes_horizon(const struct spoor_lanes *l);

/* All events of the runs in order of time, into `to` (the sum of their len). -ENOMEM. */
int spoor_runs_merge(const struct spoor_run *runs, size_t n, uint8_t *to, struct spoor_run *ret);

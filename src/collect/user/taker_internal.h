/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The taker's parts: taker.c (rounds, taking), taker_write.c (runs to lanes), taker_hold.c (what waits for a relay). */
#include "base/time.h"
#include "collect/user/taker.h"

#define BUFFER (8u << 20)
#define KEEP_NS (10 * SPOOR_NS_PER_SEC) /* so old are the oldest pairs of clocks */
#define MOST_RUNS 4000 /* of a round: SPOOR_MAX_SOURCES is enough for them, and all counts of as many programs */

struct taken {
	struct spoor_source *source;
	unsigned packet;
	size_t bytes;
	bool done;
	uint64_t n, refused; /* events; those that found no room */
	uint64_t undescribed; /* and those that are lost for want of a description */
	uint32_t tid;
	struct spoor_packet_source where;
};

/* Written, and not yet where it is safe. */
struct held {
	struct spoor_source *source; /* NULL: it is gone */
	unsigned packet;
	bool done;
	uint64_t serial, position, mark;
};

struct spoor_taker {
	struct spoor_writer *w;
	struct spoor_user_classes classes;
	struct spoor_user_stacks *stacks;
	struct spoor_user_clock clock;
	struct spoor_lanes lanes;
	uint8_t *buffer;
	size_t used, limit;
	struct spoor_run runs[MOST_RUNS];
	struct taken taken[MOST_RUNS]; /* runs[i].owner is one of them */
	size_t n_runs;
	size_t n_empty; /* behind them: taken without a run, of which no packet has told yet */
	uint64_t discarded[SPOOR_LANES];
	uint64_t lost;               /* that no lane has told of yet */
	uint64_t until, most;        /* the horizon, ns, and what no stamp can be beyond */
	struct spoor_clock_pair now; /* both clocks at the horizon */
	struct spoor_packet_source sources[SPOOR_MAX_SOURCES];
	uint64_t named; /* so many packets' were */
	struct spoor_source **untold; /* whose losses are in `lost` */
	size_t n_untold, room_untold;
	struct spoor_taker_counts counts;
	uint64_t written, undescribed; /* events, as packets tell it */
	struct spoor_source_list unwritten; /* of packets that could not be written: what they would have told */
	struct spoor_source_list earlier;   /* a recorder's before us: positions in arenas that may come yet */
	size_t telling;                     /* so many of `unwritten` are in the packet at hand, the last ones */
	bool failed;                        /* one could not be written since on_unwritten() was called */
	void (*on_unwritten)(void *ctx);    /* NULL: nobody asks */
	void *on_unwritten_ctx;
	bool holds;
	struct held *held; /* in the order of marks, from first_held on */
	size_t first_held, n_held, room_held;
};

/* taker_hold.c: the packet stays in the program's buffer. false: nobody holds, or there is no memory. */
bool spoor_taker_holds(struct spoor_taker *t, const struct taken *k);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * From the stamps of programs (TSC) to CLOCK_MONOTONIC, piecewise linear through pairs of both:
 *
 *   ns                    pairs are taken a tenth of a second apart, and after what lies before them was read: so an
 *    |            .+      event lies between two pairs, and neither the drift of the TSC nor what NTP does to
 *    |      .+''''        CLOCK_MONOTONIC adds up.
 *    |   +'
 *    +-------------- tsc
 *
 * Before the first pair and after the last the nearest piece goes on. While a machine sleeps CLOCK_MONOTONIC stands
 * still, and the TSC as a rule goes on: so does this. Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spoor_clock_pair {
	uint64_t tsc, ns;
};

#define SPOOR_CLOCK_RATE_SHIFT 32
struct spoor_clock_piece {
	uint64_t tsc, ns; /* where it begins */
	uint64_t end;     /* where it ends; UINT64_MAX: the last */
	uint64_t rate;    /* ns per tick, so many bits behind the point */
};

struct spoor_user_clock {
	struct spoor_clock_pair *pairs; /* in order of both */
	size_t n, room;
	struct spoor_clock_piece piece; /* of the last conversion: the next is of the same one as a rule */
};

/* Now, as exactly as it can be had: the least disturbed of several tries. */
struct spoor_clock_pair spoor_clock_pair_now(void);

/*
 * Adds a pair anywhere. One that contradicts the others (an earlier TSC at a later time, a rate that no clock has) is
 * refused: -EINVAL. -ENOMEM.
 */
int spoor_user_clock_add(struct spoor_user_clock *c, struct spoor_clock_pair p);
/* Adds one that is of now, and true: if it contradicts the others, which a TSC does that began anew, so does this. */
int spoor_user_clock_now(struct spoor_user_clock *c, struct spoor_clock_pair p);
/* Forgets pairs before ns, but for what conversions from there on need. */
void spoor_user_clock_forget(struct spoor_user_clock *c, uint64_t ns);
void spoor_user_clock_done(struct spoor_user_clock *c);

/* Sets the piece to the one of the stamp. */
void spoor_user_clock_find(struct spoor_user_clock *c, uint64_t tsc);
/* The same of a stamp before the first piece. */
uint64_t spoor_user_clock_before(const struct spoor_user_clock *c, uint64_t tsc);

/*
 * With fewer than two pairs there is no rate: 1 GHz is then assumed. Times never go backwards where stamps do not.
 * Inline, for each event comes by.
 */
static inline uint64_t spoor_user_clock_ns(struct spoor_user_clock *c, uint64_t tsc)
{
	unsigned __int128 ns;

	if (__builtin_expect(tsc < c->piece.tsc || tsc >= c->piece.end, 0))
		spoor_user_clock_find(c, tsc);
	if (__builtin_expect(tsc < c->piece.tsc, 0))
		return spoor_user_clock_before(c, tsc);
	ns = c->piece.ns + (((unsigned __int128)(tsc - c->piece.tsc) * c->piece.rate) >> SPOOR_CLOCK_RATE_SHIFT);
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

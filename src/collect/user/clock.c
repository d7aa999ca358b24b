/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES 8
/* No CPU counts slower than 100 MHz or faster than 20 GHz; but for one whose machine slept, as far as ns tell. */
#define LEAST_RATE ((1ULL << SPOOR_CLOCK_RATE_SHIFT) / 20)
#define MOST_RATE (10ULL << SPOOR_CLOCK_RATE_SHIFT)
/* Pairs closer than this say nothing about a rate: how exactly each was taken is all that would be seen. */
#define NEAR_NS 1000000ULL

struct spoor_clock_pair spoor_clock_pair_now(void)
{
	struct spoor_clock_pair best = { 0, 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		struct timespec ts;
		uint64_t before, after;
		unsigned cpu;

		before = __rdtscp(&cpu);
		clock_gettime(CLOCK_MONOTONIC, &ts);
		after = __rdtscp(&cpu);
		if (after - before >= least)
			continue;
		least = after - before;
		best.tsc = before + least / 2;
		best.ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	}
	return best;
}

/* 0 if that is no clock's. Below LEAST_RATE: it stood still for a while. */
static uint64_t rate_of(const struct spoor_clock_pair *a, const struct spoor_clock_pair *b)
{
	unsigned __int128 rate;

	if (b->tsc <= a->tsc || b->ns <= a->ns)
		return 0;
	rate = ((unsigned __int128)(b->ns - a->ns) << SPOOR_CLOCK_RATE_SHIFT) / (b->tsc - a->tsc);
	return rate > MOST_RATE ? 0 : rate ? (uint64_t)rate : 1;
}

/* The first pair that is later than tsc. */
static size_t find(const struct spoor_user_clock *c, uint64_t tsc)
{
	size_t lo = 0, hi = c->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->pairs[mid].tsc <= tsc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool fits(const struct spoor_user_clock *c, size_t at, const struct spoor_clock_pair *p)
{
	if (at > 0 && !rate_of(&c->pairs[at - 1], p))
		return false;
	return at == c->n || rate_of(p, &c->pairs[at]);
}

int spoor_user_clock_add(struct spoor_user_clock *c, struct spoor_clock_pair p)
{
	size_t at = find(c, p.tsc);

	if (at > 0 && p.ns >= c->pairs[at - 1].ns && p.ns - c->pairs[at - 1].ns < NEAR_NS)
		return 0;
	if (at < c->n && p.ns <= c->pairs[at].ns && c->pairs[at].ns - p.ns < NEAR_NS)
		return 0;
	if (!fits(c, at, &p))
		return -EINVAL;
	if (c->n == c->room) {
		size_t room = c->room ? c->room * 2 : 64;
		struct spoor_clock_pair *grown = reallocarray(c->pairs, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		c->pairs = grown;
		c->room = room;
	}
	memmove(c->pairs + at + 1, c->pairs + at, (c->n - at) * sizeof(*c->pairs));
	c->pairs[at] = p;
	c->n++;
	c->piece.end = 0; /* it may have been divided */
	return 0;
}

/* Near that pair; 0: there is none. */
static uint64_t usual_rate(const struct spoor_user_clock *c, size_t first)
{
	uint64_t rate;

	for (size_t i = first; i > 0; i--)
		if ((rate = rate_of(&c->pairs[i - 1], &c->pairs[i])) >= LEAST_RATE)
			return rate;
	for (size_t i = first + 1; i + 1 < c->n; i++)
		if ((rate = rate_of(&c->pairs[i], &c->pairs[i + 1])) >= LEAST_RATE)
			return rate;
	return 0;
}

/* Before p as if it had gone on with the rate that it had. */
static void begin_anew(struct spoor_user_clock *c, struct spoor_clock_pair p)
{
	uint64_t rate = c->n ? usual_rate(c, c->n - 1) : 0, ticks = p.tsc / 2;
	uint64_t ns = (uint64_t)(((unsigned __int128)ticks * rate) >> SPOOR_CLOCK_RATE_SHIFT);

	c->n = 0;
	c->piece.end = 0;
	if (ns && ns < p.ns)
		spoor_user_clock_add(c, (struct spoor_clock_pair){ p.tsc - ticks, p.ns - ns });
}

int spoor_user_clock_now(struct spoor_user_clock *c, struct spoor_clock_pair p)
{
	int r = spoor_user_clock_add(c, p);

	if (r != -EINVAL)
		return r;
	begin_anew(c, p);
	return spoor_user_clock_add(c, p);
}

void spoor_user_clock_forget(struct spoor_user_clock *c, uint64_t ns)
{
	size_t n = 0;

	while (n + 2 < c->n && c->pairs[n + 1].ns <= ns)
		n++;
	if (!n)
		return;
	c->n -= n;
	memmove(c->pairs, c->pairs + n, c->n * sizeof(*c->pairs));
	c->piece.end = 0;
}

void spoor_user_clock_done(struct spoor_user_clock *c)
{
	free(c->pairs);
	*c = (struct spoor_user_clock){};
}

/*
 * Of two pairs between which the machine slept: from the first on time goes by as usual until it is that of the second,
 * where it stands still; behind the second, if that is the last one, it goes by again.
 */
static void find_around_sleep(struct spoor_user_clock *c, size_t first, uint64_t tsc)
{
	const struct spoor_clock_pair *a = &c->pairs[first], *b = a + 1;
	uint64_t rate = usual_rate(c, first), asleep;

	if (!rate)
		return;
	asleep = a->tsc + (uint64_t)(((unsigned __int128)(b->ns - a->ns) << SPOOR_CLOCK_RATE_SHIFT) / rate);
	asleep = asleep < b->tsc ? asleep : b->tsc;
	if (tsc < asleep)
		c->piece = (struct spoor_clock_piece){ a->tsc, a->ns, asleep, rate };
	else if (tsc < b->tsc)
		c->piece = (struct spoor_clock_piece){ asleep, b->ns, b->tsc, 0 };
	else
		c->piece = (struct spoor_clock_piece){ b->tsc, b->ns, UINT64_MAX, rate };
}

void spoor_user_clock_find(struct spoor_user_clock *c, uint64_t tsc)
{
	size_t at = find(c, tsc), first, second;

	first = at > 0 ? at - 1 : 0;
	if (c->n >= 2 && first + 2 > c->n)
		first = c->n - 2;
	second = first + 1 < c->n ? first + 1 : first;
	c->piece = (struct spoor_clock_piece){
		.tsc = c->n ? c->pairs[first].tsc : 0,
		.ns = c->n ? c->pairs[first].ns : 0,
		.end = second + 1 < c->n ? c->pairs[second].tsc : UINT64_MAX,
		.rate = c->n >= 2 ? rate_of(&c->pairs[first], &c->pairs[second]) : 0,
	};
	if (!c->piece.rate)
		c->piece.rate = 1ULL << SPOOR_CLOCK_RATE_SHIFT;
	else if (c->piece.rate < LEAST_RATE)
		find_around_sleep(c, first, tsc);
}

uint64_t spoor_user_clock_before(const struct spoor_user_clock *c, uint64_t tsc)
{
	const struct spoor_clock_piece *p = &c->piece;
	uint64_t back = (uint64_t)(((unsigned __int128)(p->tsc - tsc) * p->rate) >> SPOOR_CLOCK_RATE_SHIFT);

	return back < p->ns ? p->ns - back : 0;
}

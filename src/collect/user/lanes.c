/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/record.h"

static int by_begin(const void *a, const void *b)
{
	const struct spoor_run *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* Of the lanes that ended by then the last; a new one if there is none; `most` of them: -E2BIG. */
static int fit(struct spoor_lanes *l, struct spoor_run *run, unsigned most)
{
	unsigned best = l->n;

	for (unsigned i = 0; i < l->n && i < most; i++)
		if (l->end[i] <= run->begin && (best == l->n || l->end[i] > l->end[best]))
			best = i;
	if (best >= most)
		return -E2BIG;
	if (best == l->n)
		l->n++;
	l->end[best] = run->end;
	run->lane = best;
	return 0;
}

int spoor_lanes_assign(struct spoor_lanes *l, struct spoor_run *runs, size_t n)
{
	struct spoor_lanes try = *l;

	qsort(runs, n, sizeof(*runs), by_begin);
	for (size_t i = 0; i < n; i++)
		if (fit(&try, &runs[i], SPOOR_LANES_PLAIN))
			return -E2BIG;
	*l = try;
	return 0;
}

int spoor_lanes_place(struct spoor_lanes *l, struct spoor_run *run)
{
	return fit(l, run, SPOOR_LANES);
}

uint64_t spoor_lanes_horizon(const struct spoor_lanes *l)
{
	uint64_t least = UINT64_MAX;

	if (l->n < SPOOR_LANES)
		return 0;
	for (unsigned i = 0; i < l->n; i++)
		least = l->end[i] < least ? l->end[i] : least;
	return least;
}

/* ---- merging: a heap of runs by the stamp of their next event ---- */

struct head {
	uint64_t ts;
	const uint8_t *at, *end;
};

static void sink(struct head *heap, size_t n, size_t i)
{
	struct head h = heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= n)
			break;
		if (child + 1 < n && heap[child + 1].ts < heap[child].ts)
			child++;
		if (heap[child].ts >= h.ts)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = h;
}

static const struct spoor_event_header *event_at(const uint8_t *at)
{
	return (const void *)at;
}

/* As many events of the first run as come before the next one's. Returns their bytes. */
static size_t stretch(const struct head *heap, size_t n)
{
	const uint8_t *at = heap[0].at;
	uint64_t until = UINT64_MAX;

	for (size_t i = 1; i < n && i < 3; i++)
		until = heap[i].ts < until ? heap[i].ts : until;
	do
		at += spoor_event_size(event_at(at));
	while (at < heap[0].end && event_at(at)->ts <= until);
	return at - heap[0].at;
}

int spoor_runs_merge(const struct spoor_run *runs, size_t n, uint8_t *to, struct spoor_run *ret)
{
	_cleanup_(spoor_freep) struct head *heap = reallocarray(NULL, n ? n : 1, sizeof(*heap));
	struct spoor_run merged = { .data = to, .begin = UINT64_MAX };
	size_t live = 0;

	if (!heap)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!runs[i].len)
			continue;
		heap[live++] = (struct head){ runs[i].begin, runs[i].data, runs[i].data + runs[i].len };
		merged.begin = runs[i].begin < merged.begin ? runs[i].begin : merged.begin;
		merged.end = runs[i].end > merged.end ? runs[i].end : merged.end;
	}
	for (size_t i = live / 2; i-- > 0;)
		sink(heap, live, i);
	while (live) {
		size_t bytes = stretch(heap, live);

		memcpy(to + merged.len, heap[0].at, bytes);
		merged.len += bytes;
		heap[0].at += bytes;
		if (heap[0].at == heap[0].end)
			heap[0] = heap[--live];
		else
			heap[0].ts = event_at(heap[0].at)->ts;
		sink(heap, live, 0);
	}
	*ret = merged;
	return 0;
}

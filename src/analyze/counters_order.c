/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters of system calls: order, shares of a whole, percentiles. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "base/cleanup.h"

static uint64_t sort_key(const struct spoor_call_counters *c, enum spoor_stat_sort sort)
{
	switch (sort) {
	case SPOOR_STAT_BY_CALLS:
		return spoor_call_shown(c);
	case SPOOR_STAT_BY_ERRORS:
		return c->errors;
	case SPOOR_STAT_BY_MAX:
		return c->max_ns;
	case SPOOR_STAT_BY_NAME:
		return 0;
	default:
		return spoor_call_shown_ns(c);
	}
}

int spoor_call_compare(const struct spoor_call_counters *a, const struct spoor_call_counters *b,
		       enum spoor_stat_sort sort)
{
	uint64_t x = sort_key(a, sort), y = sort_key(b, sort);
	char name_a[64], name_b[64];
	int r;

	if (x != y)
		return x > y ? -1 : 1;
	spoor_call_counters_name(a->id, name_a, sizeof(name_a));
	spoor_call_counters_name(b->id, name_b, sizeof(name_b));
	r = strcmp(name_a, name_b);
	if (r)
		return r;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static int compare_calls(const void *a, const void *b, void *sort)
{
	return spoor_call_compare(a, b, *(enum spoor_stat_sort *)sort);
}

void spoor_task_sort_calls(struct spoor_task_counters *t, enum spoor_stat_sort sort)
{
	if (t->n_calls)
		qsort_r(t->calls, t->n_calls, sizeof(*t->calls), compare_calls, &sort);
}

struct ordered {
	struct spoor_task_counters task;
	uint64_t key;
};

static int compare_tasks(const void *pa, const void *pb, void *sort)
{
	const struct ordered *a = pa, *b = pb;
	int r = *(enum spoor_stat_sort *)sort == SPOOR_STAT_BY_NAME ?
			strncmp(a->task.comm, b->task.comm, sizeof(a->task.comm)) :
			0;

	if (r)
		return r;
	if (a->key != b->key)
		return a->key > b->key ? -1 : 1;
	if (a->task.pid != b->task.pid)
		return a->task.pid < b->task.pid ? -1 : 1;
	if (a->task.tid != b->task.tid)
		return a->task.tid < b->task.tid ? -1 : 1;
	return a->task.start_ns < b->task.start_ns ? -1 : a->task.start_ns > b->task.start_ns;
}

/* Without memory they stay in the order in which they are. */
void spoor_counters_sort_tasks(struct spoor_counters *c, enum spoor_stat_sort sort)
{
	_cleanup_(spoor_freep) struct ordered *order = calloc(c->n + 1, sizeof(*order));

	if (!order)
		return;
	for (size_t i = 0; i < c->n; i++) {
		struct spoor_call_counters total = spoor_task_total(&c->tasks[i]);

		order[i] = (struct ordered){ c->tasks[i], sort_key(&total, sort) };
	}
	qsort_r(order, c->n, sizeof(*order), compare_tasks, &sort);
	for (size_t i = 0; i < c->n; i++)
		c->tasks[i] = order[i].task;
}

uint64_t spoor_call_percentile(const struct spoor_call_counters *c, unsigned per_mille)
{
	uint64_t rank = (uint64_t)(((unsigned __int128)c->calls * per_mille + 999) / 1000), before = 0;
	unsigned i = 0;
	double ns;

	if (!c->calls)
		return 0;
	if (!rank)
		return c->min_ns;
	if (rank >= c->calls)
		return c->max_ns;
	while (i < SPOOR_HISTOGRAM - 1 && spoor_add_saturated(before, c->histogram[i]) < rank)
		before += c->histogram[i++];
	if (!c->histogram[i])
		return c->max_ns;
	ns = exp2(i + (double)(rank - before) / (double)c->histogram[i]);
	if (ns <= (double)c->min_ns)
		return c->min_ns;
	return ns >= (double)c->max_ns ? c->max_ns : (uint64_t)ns;
}

/* ---- shares ---- */

struct remainder {
	unsigned __int128 rest;
	size_t i;
};

static int by_rest(const void *pa, const void *pb)
{
	const struct remainder *a = pa, *b = pb;

	if (a->rest != b->rest)
		return a->rest > b->rest ? -1 : 1;
	return a->i < b->i ? -1 : 1;
}

int spoor_shares(const uint64_t *parts, size_t n, uint32_t *ret)
{
	_cleanup_(spoor_freep) struct remainder *rests = calloc(n + 1, sizeof(*rests));
	unsigned __int128 total = 0;
	uint32_t given = 0;

	if (!rests)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		total += parts[i];
	for (size_t i = 0; i < n; i++) {
		unsigned __int128 scaled = (unsigned __int128)parts[i] * 10000;

		ret[i] = total ? (uint32_t)(scaled / total) : 0;
		rests[i] = (struct remainder){ total ? scaled % total : 0, i };
		given += ret[i];
	}
	qsort(rests, n, sizeof(*rests), by_rest);
	for (size_t i = 0; total && given < 10000; i++, given++)
		ret[rests[i].i]++;
	return 0;
}

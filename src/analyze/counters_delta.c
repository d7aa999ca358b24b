/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What came between two snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "base/cleanup.h"

struct key {
	uint32_t serial;
	pid_t pid, tid;
	uint64_t start;
	size_t number;
};

/*
 * By execve a thread comes to have the leader's tid and start, some time before it goes on as another one: while it has
 * a serial, that alone says who it is.
 */
static struct key key_of(const struct spoor_task_counters *t, size_t number)
{
	return (struct key){ t->serial, t->pid, t->tid, t->tid ? t->start_ns : t->process_start_ns, number };
}

static int by_key(const void *pa, const void *pb)
{
	const struct key *a = pa, *b = pb;

	if (a->serial != b->serial)
		return a->serial < b->serial ? -1 : 1;
	if (a->serial)
		return 0;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->start < b->start ? -1 : a->start > b->start;
}

/*
 * Which task of `now` a task of `before` went into: itself; what ended threads of its process were folded into; or
 * what ended processes were. Its number, or SIZE_MAX.
 */
static size_t successor(const struct key *keys, size_t n, const struct spoor_task_counters *t)
{
	struct key wanted[] = { key_of(t, 0), { 0, t->pid, 0, t->process_start_ns, 0 }, {} };
	const struct key *found = NULL;

	for (unsigned i = 0; i < 3 && !found; i++)
		found = bsearch(&wanted[i], keys, n, sizeof(*keys), by_key);
	return found ? found->number : SIZE_MAX;
}

/* ---- one call ---- */

static int subtract_errnos(struct spoor_call_counters *to, const struct spoor_call_counters *now,
			   const struct spoor_call_counters *base)
{
	for (size_t i = 0; i < now->n_errnos; i++) {
		uint64_t n = now->errnos[i].n;

		for (size_t k = 0; k < base->n_errnos; k++)
			if (base->errnos[k].number == now->errnos[i].number)
				n = spoor_sub_saturated(n, base->errnos[k].n);
		if (spoor_call_add_errno(to, now->errnos[i].number, n) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A new extreme was set in between and is exact; else the histogram says between what it was. */
static void set_bounds(struct spoor_call_counters *to, const struct spoor_call_counters *now,
		       const struct spoor_call_counters *base)
{
	unsigned low = 0, high = SPOOR_HISTOGRAM - 1;

	if (!to->calls)
		return;
	while (low < high && !to->histogram[low])
		low++;
	while (high > low && !to->histogram[high])
		high--;
	to->min_ns = now->min_ns;
	to->max_ns = now->max_ns;
	if (base->calls && now->min_ns >= base->min_ns) {
		uint64_t least = low ? UINT64_C(1) << low : 0;

		to->min_is_bound = 1;
		to->min_ns = now->min_ns > least ? now->min_ns : least;
	}
	if (base->calls && now->max_ns <= base->max_ns) {
		uint64_t most = high == SPOOR_HISTOGRAM - 1 ? UINT64_MAX : (UINT64_C(2) << high) - 1;

		to->max_is_bound = 1;
		to->max_ns = now->max_ns < most ? now->max_ns : most;
	}
}

static int subtract_call(struct spoor_task_counters *to, const struct spoor_call_counters *now,
			 const struct spoor_call_counters *base)
{
	struct spoor_call_counters *c = spoor_task_add_call(to, now->id, now->stack);

	if (!c)
		return -ENOMEM;
	c->calls = spoor_sub_saturated(now->calls, base->calls);
	c->errors = spoor_sub_saturated(now->errors, base->errors);
	c->ns = spoor_sub_saturated(now->ns, base->ns);
	c->blocked_ns = spoor_sub_saturated(now->blocked_ns, base->blocked_ns);
	for (unsigned i = 0; i < SPOOR_HISTOGRAM; i++)
		c->histogram[i] = spoor_sub_saturated(now->histogram[i], base->histogram[i]);
	c->in_flight = now->in_flight;
	c->in_flight_ns = now->in_flight_ns;
	c->in_flight_blocked_ns = now->in_flight_blocked_ns;
	c->unreturned = spoor_sub_saturated(now->unreturned, base->unreturned);
	c->unreturned_ns = spoor_sub_saturated(now->unreturned_ns, base->unreturned_ns);
	c->unreturned_blocked_ns = spoor_sub_saturated(now->unreturned_blocked_ns, base->unreturned_blocked_ns);
	c->left = spoor_sub_saturated(now->left, base->left);
	c->left_ns = spoor_sub_saturated(now->left_ns, base->left_ns);
	c->left_blocked_ns = spoor_sub_saturated(now->left_blocked_ns, base->left_blocked_ns);
	c->carried_ns = base->in_flight_ns;
	c->carried_blocked_ns = base->in_flight_blocked_ns;
	set_bounds(c, now, base);
	if (!spoor_call_shown(c) && !c->errors && !spoor_call_shown_ns(c)) {
		to->n_calls--; /* nothing happened */
		return 0;
	}
	return subtract_errnos(c, now, base);
}

/* ---- one task ---- */

struct pair {
	size_t now, before;
};

static int by_now(const void *pa, const void *pb)
{
	const struct pair *a = pa, *b = pb;

	return a->now < b->now ? -1 : a->now > b->now;
}

static size_t take_calls(const struct spoor_task_counters *t, struct spoor_call_ref *refs)
{
	for (size_t i = 0; i < t->n_calls; i++)
		refs[i] = (struct spoor_call_ref){ 0, &t->calls[i], (uint8_t)spoor_task_ended(t) };
	return t->n_calls;
}

/* The calls of several tasks in one, each (id, stack) once, in order. */
static int gather(const struct spoor_task_counters *const *tasks, size_t n, struct spoor_task_counters *ret)
{
	_cleanup_(spoor_freep) struct spoor_call_ref *refs = NULL;
	size_t n_refs = 0;

	for (size_t i = 0; i < n; i++)
		n_refs += tasks[i]->n_calls;
	refs = calloc(n_refs + 1, sizeof(*refs));
	if (!refs)
		return -ENOMEM;
	n_refs = 0;
	for (size_t i = 0; i < n; i++)
		n_refs += take_calls(tasks[i], refs + n_refs);
	spoor_call_refs_sort(refs, n_refs);
	return spoor_call_refs_merge(refs, n_refs, 1, ret);
}

static int call_order(const struct spoor_call_counters *a, const struct spoor_call_counters *b)
{
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Both in order. What is only in the base cannot be: counters do not vanish. */
static int subtract_calls(struct spoor_task_counters *to, const struct spoor_task_counters *now,
			  const struct spoor_task_counters *base)
{
	static const struct spoor_call_counters none;
	size_t k = 0;

	for (size_t i = 0; i < now->n_calls; i++) {
		const struct spoor_call_counters *c = &now->calls[i], *from = &none;

		while (k < base->n_calls && call_order(&base->calls[k], c) < 0)
			k++;
		if (k < base->n_calls && call_order(&base->calls[k], c) == 0)
			from = &base->calls[k];
		if (subtract_call(to, c, from) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* befores[0..n): what went into this task. */
static int subtract_task(struct spoor_counters *to, const struct spoor_task_counters *now,
			 const struct spoor_task_counters *const *befores, size_t n)
{
	struct spoor_task_counters calls = {}, base = {}, *task = spoor_counters_add_task(to);
	int r = task ? gather(&now, 1, &calls) : -ENOMEM;

	if (r == 0)
		r = gather(befores, n, &base);
	if (r == 0) {
		*task = *now;
		task->calls = NULL;
		task->n_calls = 0;
		r = subtract_calls(task, &calls, &base);
	}
	for (size_t i = 0; i < n && r == 0; i++) {
		task->overflow = spoor_sub_saturated(task->overflow, befores[i]->overflow);
		if (now->tid || befores[i]->tid)
			continue;
		/* What ended before is not of this span. */
		task->threads -= befores[i]->threads < task->threads ? befores[i]->threads : task->threads;
		task->processes -= befores[i]->processes < task->processes ? befores[i]->processes : task->processes;
	}
	spoor_task_done(&calls);
	spoor_task_done(&base);
	if (r == 0 && !task->n_calls && !task->overflow) {
		free(task->calls);
		to->n--;
	}
	return r;
}

static int subtract(const struct spoor_counters *before, const struct spoor_counters *now, struct spoor_counters *to)
{
	_cleanup_(spoor_freep) struct key *keys = calloc(now->n + 1, sizeof(*keys));
	_cleanup_(spoor_freep) struct pair *pairs = calloc(before->n + 1, sizeof(*pairs));
	_cleanup_(spoor_freep) const struct spoor_task_counters **befores = calloc(before->n + 1, sizeof(*befores));
	size_t at = 0;

	if (!keys || !pairs || !befores)
		return -ENOMEM;
	for (size_t i = 0; i < now->n; i++)
		keys[i] = key_of(&now->tasks[i], i);
	qsort(keys, now->n, sizeof(*keys), by_key);
	for (size_t i = 0; i < before->n; i++)
		pairs[i] = (struct pair){ successor(keys, now->n, &before->tasks[i]), i };
	qsort(pairs, before->n, sizeof(*pairs), by_now);
	for (size_t i = 0; i < before->n; i++)
		befores[i] = &before->tasks[pairs[i].before];
	for (size_t i = 0; i < now->n; i++) {
		size_t end = at;

		while (end < before->n && pairs[end].now == i)
			end++;
		if (subtract_task(to, &now->tasks[i], befores + at, end - at) < 0)
			return -ENOMEM;
		at = end;
	}
	return 0;
}

int spoor_counters_delta(const struct spoor_counters *before, const struct spoor_counters *now,
			 struct spoor_counters *ret)
{
	struct spoor_counters delta = {
		.at_ns = now->at_ns,
		.since_ns = before->at_ns,
		.lost_threads = spoor_sub_saturated(now->lost_threads, before->lost_threads),
		.lost_calls = spoor_sub_saturated(now->lost_calls, before->lost_calls),
	};

	if (subtract(before, now, &delta) < 0) {
		spoor_counters_done(&delta);
		return -ENOMEM;
	}
	*ret = delta;
	return 0;
}

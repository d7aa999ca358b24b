/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters of system calls: keeping and adding them. */
#include "analyze/counters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/record.h"
#include "trace/syscalls.h"

void spoor_task_done(struct spoor_task_counters *t)
{
	for (size_t i = 0; i < t->n_calls; i++)
		free(t->calls[i].errnos);
	free(t->calls);
	*t = (struct spoor_task_counters){};
}

void spoor_counters_done(struct spoor_counters *c)
{
	for (size_t i = 0; i < c->n; i++)
		spoor_task_done(&c->tasks[i]);
	free(c->tasks);
	*c = (struct spoor_counters){};
}

/* Room for one more of n elements: capacities are powers of two, so they need not be kept. */
static int grow(void *array, size_t n, size_t size)
{
	void **a = array, *bigger;

	if (n & (n - 1))
		return 0;
	bigger = reallocarray(*a, n ? n * 2 : 1, size);
	if (!bigger)
		return -ENOMEM;
	*a = bigger;
	return 0;
}

struct spoor_task_counters *spoor_counters_add_task(struct spoor_counters *c)
{
	if (grow(&c->tasks, c->n, sizeof(*c->tasks)) < 0)
		return NULL;
	c->tasks[c->n] = (struct spoor_task_counters){};
	return &c->tasks[c->n++];
}

struct spoor_call_counters *spoor_task_add_call(struct spoor_task_counters *t, uint16_t id, uint32_t stack)
{
	if (grow(&t->calls, t->n_calls, sizeof(*t->calls)) < 0)
		return NULL;
	t->calls[t->n_calls] = (struct spoor_call_counters){ .id = id, .stack = stack };
	return &t->calls[t->n_calls++];
}

int spoor_call_add_errno(struct spoor_call_counters *c, uint16_t number, uint64_t n)
{
	for (size_t i = 0; i < c->n_errnos; i++) {
		if (c->errnos[i].number == number) {
			c->errnos[i].n = spoor_add_saturated(c->errnos[i].n, n);
			return 0;
		}
	}
	if (!n)
		return 0;
	if (grow(&c->errnos, c->n_errnos, sizeof(*c->errnos)) < 0)
		return -ENOMEM;
	c->errnos[c->n_errnos++] = (struct spoor_errno_count){ number, n };
	return 0;
}

unsigned spoor_histogram_bucket(uint64_t ns)
{
	unsigned i = ns ? 63 - (unsigned)__builtin_clzll(ns) : 0;

	return i < SPOOR_HISTOGRAM ? i : SPOOR_HISTOGRAM - 1;
}

/* ---- adding ---- */

static void merge_bounds(struct spoor_call_counters *to, const struct spoor_call_counters *from)
{
	if (!from->calls)
		return;
	if (!to->calls || from->min_ns < to->min_ns) {
		to->min_ns = from->min_ns;
		to->min_is_bound = from->min_is_bound;
	}
	if (!to->calls || from->max_ns > to->max_ns) {
		to->max_ns = from->max_ns;
		to->max_is_bound = from->max_is_bound;
	}
}

static void add(uint64_t *to, uint64_t n)
{
	*to = spoor_add_saturated(*to, n);
}

/* All but the errnos. */
static void merge_sums(struct spoor_call_counters *to, const struct spoor_call_counters *from)
{
	merge_bounds(to, from);
	add(&to->calls, from->calls);
	add(&to->errors, from->errors);
	add(&to->ns, from->ns);
	add(&to->blocked_ns, from->blocked_ns);
	for (unsigned i = 0; i < SPOOR_HISTOGRAM; i++)
		add(&to->histogram[i], from->histogram[i]);
	add(&to->in_flight, from->in_flight);
	add(&to->in_flight_ns, from->in_flight_ns);
	add(&to->in_flight_blocked_ns, from->in_flight_blocked_ns);
	add(&to->unreturned, from->unreturned);
	add(&to->unreturned_ns, from->unreturned_ns);
	add(&to->unreturned_blocked_ns, from->unreturned_blocked_ns);
	add(&to->left, from->left);
	add(&to->left_ns, from->left_ns);
	add(&to->left_blocked_ns, from->left_blocked_ns);
	add(&to->carried_ns, from->carried_ns);
	add(&to->carried_blocked_ns, from->carried_blocked_ns);
}

int spoor_call_merge(struct spoor_call_counters *to, const struct spoor_call_counters *from)
{
	int r = 0;

	merge_sums(to, from);
	for (size_t i = 0; i < from->n_errnos && r == 0; i++)
		r = spoor_call_add_errno(to, from->errnos[i].number, from->errnos[i].n);
	return r;
}

struct spoor_call_counters spoor_task_total(const struct spoor_task_counters *t)
{
	struct spoor_call_counters total = {};

	for (size_t i = 0; i < t->n_calls; i++)
		merge_sums(&total, &t->calls[i]);
	return total;
}

static int by_call(const void *pa, const void *pb)
{
	const struct spoor_call_ref *a = pa, *b = pb;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->call->id != b->call->id)
		return a->call->id < b->call->id ? -1 : 1;
	if (a->call->stack != b->call->stack)
		return a->call->stack < b->call->stack ? -1 : 1;
	return 0;
}

void spoor_call_refs_sort(struct spoor_call_ref *refs, size_t n)
{
	if (n)
		qsort(refs, n, sizeof(*refs), by_call);
}

static void end_in_flight(struct spoor_call_counters *c)
{
	add(&c->unreturned, c->in_flight);
	add(&c->unreturned_ns, c->in_flight_ns);
	add(&c->unreturned_blocked_ns, c->in_flight_blocked_ns);
	c->in_flight = c->in_flight_ns = c->in_flight_blocked_ns = 0;
}

static int copy_call(struct spoor_task_counters *to, const struct spoor_call_counters *from, uint32_t stack)
{
	struct spoor_call_counters *call = spoor_task_add_call(to, from->id, stack);

	if (!call)
		return -ENOMEM;
	*call = *from;
	call->stack = stack;
	call->errnos = NULL;
	call->n_errnos = 0;
	for (size_t i = 0; i < from->n_errnos; i++)
		if (spoor_call_add_errno(call, from->errnos[i].number, from->errnos[i].n) < 0)
			return -ENOMEM;
	return 0;
}

int spoor_call_refs_merge(const struct spoor_call_ref *refs, size_t n, int by_site, struct spoor_task_counters *to)
{
	for (size_t i = 0; i < n; i++) {
		struct spoor_call_counters *call = to->n_calls ? &to->calls[to->n_calls - 1] : NULL,
					   from = *refs[i].call;
		uint32_t stack = by_site ? from.stack : 0;
		int r;

		if (refs[i].ended)
			end_in_flight(&from);
		if (call && call->id == from.id && call->stack == stack)
			r = spoor_call_merge(call, &from);
		else
			r = copy_call(to, &from, stack);
		if (r < 0)
			return r;
	}
	return 0;
}

static int copy_task(struct spoor_counters *to, const struct spoor_task_counters *from)
{
	struct spoor_task_counters *task = spoor_counters_add_task(to);

	if (!task)
		return -ENOMEM;
	*task = *from;
	task->calls = NULL;
	task->n_calls = 0;
	for (size_t i = 0; i < from->n_calls; i++)
		if (copy_call(task, &from->calls[i], from->calls[i].stack) < 0)
			return -ENOMEM;
	return 0;
}

int spoor_counters_copy(const struct spoor_counters *c, struct spoor_counters *ret)
{
	struct spoor_counters copy = *c;

	copy.tasks = NULL;
	copy.n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (copy_task(&copy, &c->tasks[i]) < 0) {
			spoor_counters_done(&copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

/* ---- what is shown ---- */

static uint64_t sum(const uint64_t *parts, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		add(&all, parts[i]);
	return all;
}

#define SUM(...) sum((const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

uint64_t spoor_call_shown(const struct spoor_call_counters *c)
{
	return SUM(c->calls, c->in_flight, c->unreturned, c->left);
}

uint64_t spoor_call_shown_ns(const struct spoor_call_counters *c)
{
	return spoor_sub_saturated(SUM(c->ns, c->in_flight_ns, c->unreturned_ns, c->left_ns), c->carried_ns);
}

uint64_t spoor_call_shown_blocked_ns(const struct spoor_call_counters *c)
{
	return spoor_sub_saturated(
		SUM(c->blocked_ns, c->in_flight_blocked_ns, c->unreturned_blocked_ns, c->left_blocked_ns),
		c->carried_blocked_ns);
}

void spoor_call_counters_name(uint16_t id, char *buf, size_t size)
{
	const char *name = id < SPOOR_SYSCALL_MAX ? spoor_syscall_info(id)->name : NULL;
	const char *abi = id >= SPOOR_SYSCALL_I386 && id < SPOOR_SYSCALL_MAX ? " (i386)" : "";

	if (name)
		snprintf(buf, size, "%s%s", name, abi);
	else if (id < SPOOR_SYSCALL_MAX)
		snprintf(buf, size, "syscall_%u%s", id & (SPOOR_SYSCALL_I386 - 1u), abi);
	else
		snprintf(buf, size, "(unknown number)");
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/stat_fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

_Static_assert(SPOOR_HISTOGRAM == SPOOR_COUNTER_BUCKETS, "");

struct filling {
	struct spoor_counters *to;
	struct spoor_task_counters *task; /* the last; NULL: there is none, or no memory */
	pid_t first;                      /* of the processes that are in one task */
	int error;
};

static void fill_task(void *ctx, const struct spoor_counted_task *t)
{
	struct filling *f = ctx;

	f->task = spoor_counters_add_task(f->to);
	if (!f->task) {
		f->error = -ENOMEM;
		return;
	}
	if (!t->pid)
		f->first = t->first_pid;
	f->task->pid = t->pid;
	f->task->tid = t->tid;
	f->task->ppid = t->ppid;
	memcpy(f->task->comm, t->comm, sizeof(f->task->comm));
	f->task->start_ns = t->start_ns;
	f->task->end_ns = t->end_ns;
	f->task->process_start_ns = t->process_start_ns;
	f->task->threads = t->threads;
	f->task->processes = t->processes;
}

static void fill_call(void *ctx, const struct spoor_counted_call *c)
{
	struct filling *f = ctx;
	struct spoor_call_counters *to = f->task ? spoor_task_add_call(f->task, c->id, c->stack) : NULL;

	if (!to) {
		f->error = -ENOMEM;
		return;
	}
	to->calls = c->calls;
	to->errors = c->errors;
	to->ns = c->ns;
	to->min_ns = c->min_ns;
	to->max_ns = c->max_ns;
	to->blocked_ns = c->blocked_ns;
	memcpy(to->histogram, c->histogram, sizeof(to->histogram));
	to->in_flight = c->in_flight;
	to->in_flight_ns = c->in_flight_ns;
	to->in_flight_blocked_ns = c->in_flight_blocked_ns;
	to->unreturned = c->unreturned;
	to->unreturned_ns = c->unreturned_ns;
	to->unreturned_blocked_ns = c->unreturned_blocked_ns;
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++)
		if (c->error[i] && spoor_call_add_errno(to, c->error[i], c->error_n[i]))
			f->error = -ENOMEM;
}

/* Calls that lie nowhere else belong to some task: the first. */
static void fill_lost(struct spoor_counters *to, struct spoor_counting *c)
{
	to->lost_threads = spoor_counting_lost_threads(c);
	if (to->n)
		to->tasks[0].overflow = spoor_counts_lost(c->counts);
}

int spoor_stat_fill(struct spoor_counting *c, struct spoor_counters *ret, pid_t *ret_first)
{
	struct spoor_counters counters = { .since_ns = c->host.began };
	struct filling f = { .to = &counters };
	const struct spoor_count_visitor v = { .task = fill_task, .call = fill_call, .ctx = &f };
	int r = spoor_counts_take(c->counts, &v);

	counters.at_ns = spoor_now_monotonic();
	if (!r)
		r = f.error;
	if (r) {
		spoor_counters_done(&counters);
		return r;
	}
	fill_lost(&counters, c);
	if (f.first)
		*ret_first = f.first;
	*ret = counters;
	return 0;
}

/* ---- ended processes ---- */

struct spoor_stat_finals {
	struct spoor_count_visitor visitor;
	struct spoor_counters counters; /* the process being handed out */
	struct filling filling;
	void (*done)(void *ctx, struct spoor_counters *c);
	void *ctx;
};

static void final_task(void *ctx, const struct spoor_counted_task *t)
{
	struct spoor_stat_finals *f = ctx;

	spoor_counters_done(&f->counters);
	f->counters = (struct spoor_counters){ .since_ns = t->start_ns, .at_ns = t->end_ns };
	f->filling = (struct filling){ .to = &f->counters };
	fill_task(&f->filling, t);
}

static void final_call(void *ctx, const struct spoor_counted_call *c)
{
	struct spoor_stat_finals *f = ctx;

	fill_call(&f->filling, c);
}

static void final_end(void *ctx)
{
	struct spoor_stat_finals *f = ctx;

	f->done(f->ctx, &f->counters);
}

struct spoor_stat_finals *spoor_stat_finals_new(void (*done)(void *ctx, struct spoor_counters *c), void *ctx)
{
	struct spoor_stat_finals *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->done = done;
	f->ctx = ctx;
	f->visitor = (struct spoor_count_visitor){ .task = final_task, .call = final_call, .end = final_end, .ctx = f };
	return f;
}

const struct spoor_count_visitor *spoor_stat_finals_visitor(struct spoor_stat_finals *f)
{
	return &f->visitor;
}

void spoor_stat_finals_freep(struct spoor_stat_finals **f)
{
	if (!*f)
		return;
	spoor_counters_done(&(*f)->counters);
	free(*f);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/stat_fill.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"

_Static_assert(SPOOR_HISTOGRAM == SPOOR_COUNTER_BUCKETS, "");

struct filling {
	struct spoor_folder *to;
	bool skip; /* there was no memory for the task */
	int error;
};

static void fill_task(void *ctx, const struct spoor_counted_task *t)
{
	struct filling *f = ctx;
	struct spoor_task_counters task = {
		.pid = t->pid,
		.tid = t->tid,
		.ppid = t->ppid,
		.serial = t->serial,
		.first_pid = t->first_pid,
		.start_ns = t->start_ns,
		.end_ns = t->end_ns,
		.process_start_ns = t->process_start_ns,
		.threads = (unsigned)t->threads,
		.processes = (unsigned)t->processes,
		.overflow = t->overflow,
	};

	memcpy(task.comm, t->comm, sizeof(task.comm));
	f->skip = spoor_folder_task(f->to, &task) < 0;
	if (f->skip)
		f->error = -ENOMEM;
}

static void fill_call(void *ctx, const struct spoor_counted_call *c)
{
	struct filling *f = ctx;
	struct spoor_call_counters *to = f->skip ? NULL : spoor_folder_call(f->to, c->id, c->stack);
	struct spoor_call_counters call = {
		.calls = c->calls,
		.errors = c->errors,
		.ns = c->ns,
		.min_ns = c->min_ns,
		.max_ns = c->max_ns,
		.blocked_ns = c->blocked_ns,
		.in_flight = c->in_flight.n,
		.in_flight_ns = c->in_flight.ns,
		.in_flight_blocked_ns = c->in_flight.blocked_ns,
		.unreturned = c->unreturned.n,
		.unreturned_ns = c->unreturned.ns,
		.unreturned_blocked_ns = c->unreturned.blocked_ns,
		.left = c->left.n,
		.left_ns = c->left.ns,
		.left_blocked_ns = c->left.blocked_ns,
	};

	if (!to) {
		f->error = -ENOMEM;
		return;
	}
	memcpy(call.histogram, c->histogram, sizeof(call.histogram));
	spoor_call_merge(to, &call);
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++)
		if (c->error[i] && spoor_call_add_errno(to, c->error[i], c->error_n[i]))
			f->error = -ENOMEM;
}

int spoor_stat_fill(struct spoor_counting *c, enum spoor_stat_level level, struct spoor_counters *ret)
{
	struct spoor_counters counters;
	struct filling f = {};
	const struct spoor_count_visitor v = { .task = fill_task, .call = fill_call, .ctx = &f };
	int r = spoor_folder_new(level, &f.to);

	if (r)
		return r;
	r = spoor_counts_take(c->counts, &v);
	if (!r)
		r = f.error;
	spoor_folder_take(f.to, &counters);
	spoor_folder_free(f.to);
	if (r) {
		spoor_counters_done(&counters);
		return r;
	}
	counters.since_ns = c->host.began;
	counters.at_ns = spoor_now_monotonic();
	counters.lost_threads = spoor_counting_lost_threads(c);
	counters.lost_calls = spoor_counts_lost(c->counts);
	*ret = counters;
	return 0;
}

/* ---- ended processes ---- */

struct finals {
	struct filling filling; /* the process being handed out */
	uint64_t start_ns, end_ns;
	int (*done)(void *ctx, struct spoor_counters *c);
	void *ctx;
	int error;
};

static void final_task(void *ctx, const struct spoor_counted_task *t)
{
	struct finals *f = ctx;

	f->filling = (struct filling){ .skip = true };
	f->start_ns = t->start_ns;
	f->end_ns = t->end_ns;
	f->filling.error = spoor_folder_new(SPOOR_STAT_PROCESS, &f->filling.to);
	if (!f->filling.error)
		fill_task(&f->filling, t);
}

static void final_call(void *ctx, const struct spoor_counted_call *c)
{
	struct finals *f = ctx;

	fill_call(&f->filling, c);
}

static void final_end(void *ctx)
{
	struct finals *f = ctx;
	struct spoor_counters c = {};
	int r = f->filling.error;

	if (f->filling.to)
		spoor_folder_take(f->filling.to, &c);
	spoor_folder_free(f->filling.to);
	f->filling.to = NULL;
	c.since_ns = f->start_ns;
	c.at_ns = f->end_ns;
	if (!r)
		r = f->done(f->ctx, &c);
	spoor_counters_done(&c);
	f->error = f->error ?: r;
}

int spoor_stat_take_finals(struct spoor_counting *c, int (*done)(void *ctx, struct spoor_counters *c), void *ctx)
{
	struct finals f = { .done = done, .ctx = ctx };
	const struct spoor_count_visitor v = { .task = final_task, .call = final_call, .end = final_end, .ctx = &f };

	spoor_counts_finals(c->counts, &v);
	return f.error;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Counters of our own making, for tests of what folds, subtracts, sorts and shows them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/counters.h"
#include "base/cleanup.h"
#include "trace/record.h"

#define READ 0
#define WRITE 1
#define GETPPID 110
#define EXIT_GROUP 231

static uint64_t seed = 20251121;

static inline uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* A thread, alive, with no calls yet. */
static inline struct spoor_task_counters *add_task(struct spoor_counters *c, pid_t pid, pid_t tid, uint64_t start)
{
	struct spoor_task_counters *t = spoor_counters_add_task(c);

	assert_non_null(t);
	t->pid = pid;
	t->tid = tid;
	t->ppid = 1;
	t->start_ns = start;
	t->threads = 1;
	snprintf(t->comm, sizeof(t->comm), "task%d", tid);
	return t;
}

/* The same by a name, which may fill its field; no thread's start is another's, and nobody is its parent. */
static inline struct spoor_task_counters *add_named(struct spoor_counters *c, pid_t pid, pid_t tid, const char *comm)
{
	struct spoor_task_counters *t = add_task(c, pid, tid, (uint64_t)tid);

	t->ppid = 0;
	t->process_start_ns = (uint64_t)pid;
	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, comm, strnlen(comm, sizeof(t->comm)));
	return t;
}

/* What threads that have ended were folded into: of pid or, if that is 0, of ended processes. */
static inline struct spoor_task_counters *add_ended(struct spoor_counters *c, pid_t pid, unsigned threads)
{
	struct spoor_task_counters *t = add_task(c, pid, 0, 0);

	t->threads = threads;
	t->processes = !pid;
	return t;
}

static inline struct spoor_task_counters *task_of(struct spoor_counters *c, pid_t pid, pid_t tid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->tasks[i].pid == pid && c->tasks[i].tid == tid)
			return &c->tasks[i];
	return NULL;
}

static inline struct spoor_call_counters *call_of(struct spoor_task_counters *t, uint16_t id, uint32_t stack)
{
	for (size_t i = 0; i < t->n_calls; i++)
		if (t->calls[i].id == id && t->calls[i].stack == stack)
			return &t->calls[i];
	return spoor_task_add_call(t, id, stack);
}

/* n calls that took so long each, a quarter of it blocked. */
static inline struct spoor_call_counters *count(struct spoor_task_counters *t, uint16_t id, uint32_t stack, uint64_t n,
						uint64_t ns)
{
	struct spoor_call_counters *c = call_of(t, id, stack);

	assert_non_null(c);
	c->min_ns = c->calls && c->min_ns < ns ? c->min_ns : ns;
	c->max_ns = c->calls && c->max_ns > ns ? c->max_ns : ns;
	c->calls += n;
	c->ns += n * ns;
	c->blocked_ns += n * (ns / 4);
	c->histogram[spoor_histogram_bucket(ns)] += n;
	return c;
}

static inline uint64_t histogram_sum(const struct spoor_call_counters *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SPOOR_HISTOGRAM; i++)
		sum += c->histogram[i];
	return sum;
}

/* What was in *ret is released. */
static inline void fold(const struct spoor_counters *c, enum spoor_stat_level level, int by_site,
			struct spoor_counters *ret)
{
	spoor_counters_done(ret);
	assert_int_equal(spoor_counters_fold(c, level, by_site, ret), 0);
}

static inline void take_delta(const struct spoor_counters *before, const struct spoor_counters *now,
			      struct spoor_counters *ret)
{
	spoor_counters_done(ret);
	assert_int_equal(spoor_counters_delta(before, now, ret), 0);
}

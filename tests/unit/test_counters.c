/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#include "trace/record.h"
#include "trace/syscalls.h"

#define READ 0
#define WRITE 1
#define GETPPID 110

static uint64_t seed = 20251121;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct spoor_task_counters *add_task(struct spoor_counters *c, pid_t pid, pid_t tid, uint64_t start)
{
	struct spoor_task_counters *t = spoor_counters_add_task(c);

	t->pid = pid;
	t->tid = tid;
	t->ppid = 1;
	t->start_ns = start;
	t->threads = 1;
	snprintf(t->comm, sizeof(t->comm), "task%d", tid);
	return t;
}

static struct spoor_call_counters *call_of(struct spoor_task_counters *t, uint16_t id, uint32_t stack)
{
	for (size_t i = 0; i < t->n_calls; i++)
		if (t->calls[i].id == id && t->calls[i].stack == stack)
			return &t->calls[i];
	return spoor_task_add_call(t, id, stack);
}

/* n calls that took so long. */
static struct spoor_call_counters *count(struct spoor_task_counters *t, uint16_t id, uint32_t stack, uint64_t n,
					 uint64_t ns)
{
	struct spoor_call_counters *c = call_of(t, id, stack);

	c->min_ns = c->calls && c->min_ns < ns ? c->min_ns : ns;
	c->max_ns = c->calls && c->max_ns > ns ? c->max_ns : ns;
	c->calls += n;
	c->ns += n * ns;
	c->blocked_ns += n * (ns / 2);
	c->histogram[spoor_histogram_bucket(ns)] += n;
	return c;
}

static uint64_t histogram_sum(const struct spoor_call_counters *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SPOOR_HISTOGRAM; i++)
		sum += c->histogram[i];
	return sum;
}

static struct spoor_task_counters *task_of(struct spoor_counters *c, pid_t pid, pid_t tid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->tasks[i].pid == pid && c->tasks[i].tid == tid)
			return &c->tasks[i];
	return NULL;
}

static void test_buckets(void **state)
{
	assert_int_equal(spoor_histogram_bucket(0), 0);
	assert_int_equal(spoor_histogram_bucket(1), 0);
	assert_int_equal(spoor_histogram_bucket(2), 1);
	assert_int_equal(spoor_histogram_bucket(3), 1);
	assert_int_equal(spoor_histogram_bucket(4), 2);
	assert_int_equal(spoor_histogram_bucket((UINT64_C(1) << 47) - 1), 46);
	assert_int_equal(spoor_histogram_bucket(UINT64_C(1) << 47), 47);
	assert_int_equal(spoor_histogram_bucket(UINT64_MAX), 47);
}

static void test_names(void **state)
{
	char name[64];

	spoor_call_counters_name(GETPPID, name, sizeof(name));
	assert_string_equal(name, "getppid");
	spoor_call_counters_name(SPOOR_SYSCALL_I386 + 20, name, sizeof(name));
	assert_string_equal(name, "getpid (i386)");
	spoor_call_counters_name(511, name, sizeof(name));
	assert_string_equal(name, "syscall 511");
	spoor_call_counters_name(SPOOR_EV_SYSCALL_OTHER, name, sizeof(name));
	assert_string_equal(name, "(unknown number)");
}

/* 1,009 threads of 7 processes, each with a prime number of calls. */
static void make_primes(struct spoor_counters *c)
{
	for (int i = 0; i < 1009; i++) {
		struct spoor_task_counters *t = add_task(c, 100 + i % 7, 100 + i, 1000 + (uint64_t)i);

		t->process_start_ns = 1000 + (uint64_t)(i % 7);
		count(t, GETPPID, 0, 7919, 67);
		count(t, READ, (uint32_t)(i % 3), 13, 1000 + (uint64_t)i)->errors = 5;
		spoor_call_add_errno(call_of(t, READ, (uint32_t)(i % 3)), ENOENT, 3);
		spoor_call_add_errno(call_of(t, READ, (uint32_t)(i % 3)), EINTR, 2);
	}
}

static void test_fold_application(void **state)
{
	struct spoor_counters c = {}, folded;
	struct spoor_call_counters *call;

	make_primes(&c);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_APPLICATION, 0, &folded), 0);
	assert_int_equal(folded.n, 1);
	assert_int_equal(folded.tasks[0].threads, 1009);
	assert_int_equal(folded.tasks[0].processes, 7);
	assert_int_equal(folded.tasks[0].pid, 100);
	assert_string_equal(folded.tasks[0].comm, "task100");
	assert_int_equal(folded.tasks[0].n_calls, 2);
	call = call_of(&folded.tasks[0], GETPPID, 0);
	assert_int_equal(call->calls, 1009 * 7919);
	assert_int_equal(call->ns, 1009ull * 7919 * 67);
	assert_int_equal(histogram_sum(call), call->calls);
	call = call_of(&folded.tasks[0], READ, 0);
	assert_int_equal(call->calls, 1009 * 13);
	assert_int_equal(call->errors, 1009 * 5);
	assert_int_equal(call->min_ns, 1000);
	assert_int_equal(call->max_ns, 2008);
	assert_int_equal(call->n_errnos, 2);
	assert_int_equal(call->errnos[0].n + call->errnos[1].n, 1009 * 5);
	assert_int_equal(histogram_sum(call), call->calls);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

static void test_fold_by_site(void **state)
{
	struct spoor_counters c = {}, folded;
	uint64_t calls = 0;

	make_primes(&c);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_PROCESS, 1, &folded), 0);
	assert_int_equal(folded.n, 7);
	for (size_t i = 0; i < folded.n; i++) {
		assert_int_equal(folded.tasks[i].pid, 100 + (int)i);
		assert_int_equal(folded.tasks[i].tid, folded.tasks[i].pid);
		assert_int_equal(folded.tasks[i].n_calls, 4); /* getppid, and read at [no stack] and two sites */
		for (size_t k = 0; k < folded.tasks[i].n_calls; k++)
			calls += folded.tasks[i].calls[k].calls;
	}
	assert_int_equal(calls, 1009 * (7919 + 13));
	spoor_counters_done(&folded);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_THREAD, 1, &folded), 0);
	assert_int_equal(folded.n, 1009);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

/* One pid, two processes one after the other; a leader that ended first; threads without their leader. */
static void test_processes(void **state)
{
	struct spoor_counters c = {}, folded;
	struct spoor_task_counters *t;

	t = add_task(&c, 50, 52, 30);
	t->process_start_ns = 10;
	count(t, READ, 0, 2, 5);
	t = add_task(&c, 50, 0, 10); /* the leader, ended and folded with another */
	t->process_start_ns = 10;
	t->threads = 2;
	snprintf(t->comm, sizeof(t->comm), "leader");
	count(t, READ, 0, 3, 5)->in_flight = 1;
	t = add_task(&c, 50, 50, 90);
	t->process_start_ns = 90;
	count(t, READ, 0, 5, 5);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_PROCESS, 0, &folded), 0);
	assert_int_equal(folded.n, 2);
	assert_int_equal(folded.tasks[0].threads, 3);
	assert_int_equal(folded.tasks[0].end_ns, 0);
	assert_string_equal(folded.tasks[0].comm, "leader");
	assert_int_equal(folded.tasks[0].calls[0].calls, 5);
	assert_int_equal(folded.tasks[0].calls[0].in_flight, 0);
	assert_int_equal(folded.tasks[0].calls[0].unreturned, 1);
	assert_int_equal(spoor_call_shown(&folded.tasks[0].calls[0]), 6);
	assert_int_equal(folded.tasks[1].calls[0].calls, 5);
	assert_int_equal(folded.tasks[1].start_ns, 90);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

static void test_ended_processes(void **state)
{
	struct spoor_counters c = {}, folded;
	struct spoor_task_counters *t = add_task(&c, 0, 0, 0);

	t->threads = 4001;
	t->processes = 2003;
	count(t, WRITE, 0, 17, 9);
	count(add_task(&c, 9, 9, 5), WRITE, 0, 19, 9);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_APPLICATION, 0, &folded), 0);
	assert_int_equal(folded.tasks[0].pid, 9);
	assert_int_equal(folded.tasks[0].threads, 4002);
	assert_int_equal(folded.tasks[0].processes, 2004);
	assert_int_equal(folded.tasks[0].calls[0].calls, 36);
	spoor_counters_done(&folded);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_PROCESS, 0, &folded), 0);
	assert_int_equal(folded.n, 2);
	assert_int_equal(folded.tasks[1].pid, 0);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

/* What ended processes left is known by the first of them: it names the application, but is no process itself. */
static void test_first_process(void **state)
{
	struct spoor_counters c = {}, folded;
	struct spoor_task_counters *t = add_task(&c, 0, 0, 10);

	t->first_pid = 7;
	t->processes = 2;
	snprintf(t->comm, sizeof(t->comm), "first");
	count(t, WRITE, 0, 17, 9);
	count(add_task(&c, 9, 9, 15), WRITE, 0, 19, 9);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_APPLICATION, 0, &folded), 0);
	assert_int_equal(folded.tasks[0].pid, 7);
	assert_int_equal(folded.tasks[0].tid, 7);
	assert_int_equal(folded.tasks[0].processes, 3);
	assert_string_equal(folded.tasks[0].comm, "first");
	spoor_counters_done(&folded);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_PROCESS, 0, &folded), 0);
	assert_int_equal(folded.tasks[0].pid, 9);
	assert_int_equal(folded.tasks[1].pid, 0);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

/* ---- folding while filling ---- */

static void pour(const struct spoor_counters *c, enum spoor_stat_level level, struct spoor_counters *ret)
{
	struct spoor_folder *f;

	assert_int_equal(spoor_folder_new(level, &f), 0);
	for (size_t i = 0; i < c->n; i++) {
		assert_int_equal(spoor_folder_task(f, &c->tasks[i]), 0);
		for (size_t k = 0; k < c->tasks[i].n_calls; k++) {
			const struct spoor_call_counters *call = &c->tasks[i].calls[k];

			assert_int_equal(spoor_call_merge(spoor_folder_call(f, call->id, call->stack), call), 0);
		}
	}
	spoor_folder_take(f, ret);
	spoor_folder_free(f);
}

static void assert_same_calls(const struct spoor_task_counters *a, struct spoor_task_counters *b)
{
	assert_int_equal(a->n_calls, b->n_calls);
	for (size_t i = 0; i < a->n_calls; i++) {
		const struct spoor_call_counters *x = &a->calls[i], *y = call_of(b, x->id, x->stack);

		assert_true(x->calls == y->calls && x->errors == y->errors && x->ns == y->ns);
		assert_true(x->min_ns == y->min_ns && x->max_ns == y->max_ns && x->blocked_ns == y->blocked_ns);
		assert_true(x->in_flight == y->in_flight && x->unreturned == y->unreturned);
		assert_memory_equal(x->histogram, y->histogram, sizeof(x->histogram));
		assert_int_equal(x->n_errnos, y->n_errnos);
	}
}

static void assert_same(struct spoor_counters *a, struct spoor_counters *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		struct spoor_task_counters *x = &a->tasks[i], *y = task_of(b, x->pid, x->tid);

		assert_non_null(y);
		assert_string_equal(x->comm, y->comm);
		assert_int_equal(x->threads, y->threads);
		assert_int_equal(x->processes, y->processes);
		assert_int_equal(x->overflow, y->overflow);
		assert_int_equal(!x->end_ns, !y->end_ns);
		assert_same_calls(x, y);
	}
}

/* Threads of 13 processes, some of which have ended ones, and ended processes, in any order. */
static void make_random(struct spoor_counters *c)
{
	for (int i = 0; i < 200; i++) {
		pid_t tid = i < 13 ? 100 + i : 1000 + i;
		struct spoor_task_counters *t = add_task(c, 100 + i % 13, tid, 500 + (uint64_t)i);

		if (i > 180) {
			t->tid = 0;
			t->end_ns = 7000;
			t->threads = (unsigned)(draw() % 9);
		}
		if (i == 199) {
			t->pid = 0;
			t->processes = 5;
			t->first_pid = draw() % 2 ? 40 : 0;
			t->start_ns = 3;
		}
		t->process_start_ns = t->pid ? 500 + (uint64_t)(i % 13) : 0;
		t->overflow = draw() % 3;
		for (int k = 0; k < 30; k++) {
			uint16_t id = (uint16_t)(draw() % 40);
			uint32_t stack = (uint32_t)(draw() % 3);
			struct spoor_call_counters *call = count(t, id, stack, 1 + draw() % 4, draw() % 9999);

			call->errors += draw() % 2;
			spoor_call_add_errno(call, (uint16_t)(1 + draw() % 5), draw() % 2);
			call->in_flight += t->tid ? draw() % 2 : 0;
		}
	}
	for (size_t i = c->n; i-- > 1;) {
		size_t k = draw() % (i + 1);
		struct spoor_task_counters t = c->tasks[i];

		c->tasks[i] = c->tasks[k];
		c->tasks[k] = t;
	}
}

static void test_folder(void **state)
{
	for (int round = 0; round < 40; round++) {
		struct spoor_counters c = {}, poured, folded, again;

		make_random(&c);
		for (enum spoor_stat_level level = SPOOR_STAT_APPLICATION; level <= SPOOR_STAT_TREE; level++) {
			if (level == SPOOR_STAT_THREAD)
				continue;
			assert_int_equal(spoor_counters_fold(&c, level, 1, &folded), 0);
			pour(&c, level, &poured);
			assert_int_equal(spoor_counters_fold(&poured, level, 1, &again), 0);
			assert_same(&folded, &poured);
			assert_same(&folded, &again);
			spoor_counters_done(&folded);
			spoor_counters_done(&poured);
			spoor_counters_done(&again);
		}
		pour(&c, SPOOR_STAT_THREAD, &poured);
		assert_int_equal(poured.n, c.n);
		for (size_t i = 0; i < c.n; i++)
			assert_same_calls(&c.tasks[i], &poured.tasks[i]);
		spoor_counters_done(&poured);
		spoor_counters_done(&c);
	}
}

/* A thread that takes its dead leader's place by execve: of the process the difference is exact all the same. */
static void test_folder_deltas(void **state)
{
	struct spoor_counters a = {}, b = {}, before, now, delta;
	struct spoor_task_counters *t;

	count(add_task(&a, 5, 5, 1), READ, 0, 1000, 100);
	count(add_task(&a, 5, 6, 2), READ, 0, 10, 100);
	count(add_task(&b, 5, 5, 1), READ, 0, 10 + 3, 100); /* was 6 */
	t = add_task(&b, 5, 0, 1);
	count(t, READ, 0, 1000 + 2, 100);
	for (size_t i = 0; i < 2; i++)
		a.tasks[i].process_start_ns = b.tasks[i].process_start_ns = 1;
	pour(&a, SPOOR_STAT_PROCESS, &before);
	pour(&b, SPOOR_STAT_PROCESS, &now);
	assert_int_equal(spoor_counters_delta(&before, &now, &delta), 0);
	assert_int_equal(delta.n, 1);
	assert_int_equal(delta.tasks[0].calls[0].calls, 5);
	spoor_counters_done(&delta);
	spoor_counters_done(&before);
	spoor_counters_done(&now);
	spoor_counters_done(&a);
	spoor_counters_done(&b);
}

static void test_nothing(void **state)
{
	struct spoor_counters c = {}, folded, delta;

	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_APPLICATION, 1, &folded), 0);
	assert_int_equal(folded.n, 0);
	assert_int_equal(spoor_counters_delta(&c, &c, &delta), 0);
	assert_int_equal(delta.n, 0);
	add_task(&c, 1, 1, 1);
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_APPLICATION, 0, &folded), 0);
	assert_int_equal(folded.n, 1);
	assert_int_equal(folded.tasks[0].n_calls, 0);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
	spoor_counters_done(&c);
}

static void test_huge(void **state)
{
	struct spoor_counters c = {}, folded;
	struct spoor_call_counters *call;

	for (int i = 1; i < 4; i++) {
		call = count(add_task(&c, 1, i, (uint64_t)i), READ, 0, 1, UINT64_MAX);
		call->calls = call->histogram[47] = UINT64_MAX - 1;
		call->in_flight = 1;
		call->in_flight_ns = UINT64_MAX;
	}
	assert_int_equal(spoor_counters_fold(&c, SPOOR_STAT_PROCESS, 0, &folded), 0);
	call = &folded.tasks[0].calls[0];
	assert_true(call->calls == UINT64_MAX && call->ns == UINT64_MAX);
	assert_true(spoor_call_shown(call) == UINT64_MAX && spoor_call_shown_ns(call) == UINT64_MAX);
	assert_true(spoor_call_percentile(call, 500) == UINT64_MAX);
	spoor_counters_done(&folded);
	spoor_counters_done(&c);
}

/* ---- differences ---- */

static void test_delta(void **state)
{
	struct spoor_counters a = { .at_ns = 1000 }, b = {}, delta;
	struct spoor_call_counters *call;

	count(add_task(&a, 1, 1, 1), READ, 0, 7, 100)->errors = 2;
	spoor_call_add_errno(call_of(&a.tasks[0], READ, 0), EAGAIN, 2);
	count(add_task(&a, 1, 2, 2), WRITE, 0, 11, 50);
	assert_int_equal(spoor_counters_copy(&a, &b), 0);
	b.at_ns = 2000;
	b.lost_threads = 3;
	count(&b.tasks[0], READ, 0, 5, 70)->errors += 1;
	spoor_call_add_errno(call_of(&b.tasks[0], READ, 0), EINTR, 1);
	count(&b.tasks[0], GETPPID, 0, 13, 67);
	assert_int_equal(spoor_counters_delta(&a, &b, &delta), 0);
	assert_int_equal(delta.at_ns, 2000);
	assert_int_equal(delta.since_ns, 1000);
	assert_int_equal(delta.lost_threads, 3);
	assert_int_equal(delta.n, 1); /* nothing came from thread 2 */
	assert_int_equal(delta.tasks[0].n_calls, 2);
	call = call_of(&delta.tasks[0], READ, 0);
	assert_int_equal(call->calls, 5);
	assert_int_equal(call->errors, 1);
	assert_int_equal(call->ns, 350);
	assert_int_equal(call->n_errnos, 1);
	assert_int_equal(call->errnos[0].number, EINTR);
	assert_int_equal(call->min_ns, 70); /* a new least: exact */
	assert_int_equal(call->min_is_bound, 0);
	assert_int_equal(call->max_ns, 100); /* not more than 127 by its bucket, nor than ever */
	assert_int_equal(call->max_is_bound, 1);
	assert_int_equal(histogram_sum(call), 5);
	assert_int_equal(call_of(&delta.tasks[0], GETPPID, 0)->calls, 13);
	spoor_counters_done(&delta);
	spoor_counters_done(&a);
	spoor_counters_done(&b);
}

/* A thread, its tid used again, and its counters folded: nothing twice, nothing lost. */
static void test_delta_of_ended(void **state)
{
	struct spoor_counters a = {}, b = {}, delta;
	struct spoor_task_counters *t;

	count(add_task(&a, 1, 1, 1), READ, 0, 7, 100);
	count(add_task(&a, 1, 2, 5), WRITE, 0, 11, 50);
	t = add_task(&a, 1, 0, 0);
	t->threads = 3;
	count(t, WRITE, 0, 100, 50);
	count(add_task(&b, 1, 1, 1), READ, 0, 7, 100);
	count(add_task(&b, 1, 2, 9), WRITE, 0, 2, 50);
	t = add_task(&b, 1, 0, 0);
	t->threads = 4;
	count(t, WRITE, 0, 100 + 11 + 3, 50);
	assert_int_equal(spoor_counters_delta(&a, &b, &delta), 0);
	assert_int_equal(delta.n, 2);
	assert_int_equal(task_of(&delta, 1, 2)->calls[0].calls, 2);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].calls, 3);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].ns, 150);
	assert_int_equal(task_of(&delta, 1, 0)->threads, 1);
	spoor_counters_done(&delta);
	spoor_counters_done(&a);
	spoor_counters_done(&b);
}

/* A thread executes a program: it has the leader's tid and start from then on, but is another one. */
static void test_delta_after_exec(void **state)
{
	struct spoor_counters a = {}, b = {}, delta;

	add_task(&a, 1, 1, 1)->serial = 1;
	count(&a.tasks[0], READ, 0, 7, 100);
	add_task(&a, 1, 2, 5)->serial = 2;
	count(&a.tasks[1], READ, 0, 11, 100);
	count(add_task(&a, 1, 0, 0), READ, 0, 3, 100);
	add_task(&b, 1, 1, 1)->serial = 3;
	count(&b.tasks[0], READ, 0, 2, 100);
	count(add_task(&b, 1, 0, 0), READ, 0, 3 + 7 + 11 + 1, 100);
	assert_int_equal(spoor_counters_delta(&a, &b, &delta), 0);
	assert_int_equal(task_of(&delta, 1, 1)->calls[0].calls, 2);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].calls, 1);
	spoor_counters_done(&delta);
	spoor_counters_done(&a);
	spoor_counters_done(&b);
}

static void test_delta_of_ended_process(void **state)
{
	struct spoor_counters a = {}, b = {}, delta;
	struct spoor_task_counters *t;

	count(add_task(&a, 5, 5, 1), READ, 0, 7, 100);
	count(add_task(&a, 5, 6, 2), READ, 0, 7, 100);
	count(add_task(&a, 5, 0, 0), READ, 0, 3, 100);
	t = add_task(&b, 0, 0, 0);
	t->processes = 1;
	t->threads = 3;
	count(t, READ, 0, 17 + 2, 100);
	assert_int_equal(spoor_counters_delta(&a, &b, &delta), 0);
	assert_int_equal(delta.n, 1);
	assert_int_equal(delta.tasks[0].calls[0].calls, 2);
	spoor_counters_done(&delta);
	spoor_counters_done(&a);
	spoor_counters_done(&b);
}

/* A call in flight at each print: its time is divided among the spans, and their sum is the whole. */
static void test_delta_in_flight(void **state)
{
	struct spoor_counters s[4] = {}, delta;
	uint64_t shown = 0, calls = 0;

	for (int i = 0; i < 4; i++) {
		struct spoor_task_counters *t = add_task(&s[i], 1, 1, 1);
		struct spoor_call_counters *c = i < 3 ? call_of(t, READ, 0) : count(t, READ, 0, 1, 3500);

		if (i < 3) {
			c->in_flight = 1;
			c->in_flight_ns = 500 + 1000 * (uint64_t)i;
		}
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(spoor_counters_delta(&s[i], &s[i + 1], &delta), 0);
		assert_int_equal(spoor_call_shown(&delta.tasks[0].calls[0]), 1);
		shown += spoor_call_shown_ns(&delta.tasks[0].calls[0]);
		calls += delta.tasks[0].calls[0].calls;
		spoor_counters_done(&delta);
	}
	assert_int_equal(shown, 3000);
	assert_int_equal(calls, 1);
	for (int i = 0; i < 4; i++)
		spoor_counters_done(&s[i]);
}

/* Whatever threads do, the spans add up to the end. */
static void test_deltas_add_up(void **state)
{
	struct spoor_counters now = {}, before, delta;
	uint64_t expected = 0, sum = 0, ns = 0, expected_ns = 0;
	struct spoor_task_counters *t;

	add_task(&now, 1, 0, 0)->threads = 0;
	for (int round = 0; round < 500; round++) {
		assert_int_equal(spoor_counters_copy(&now, &before), 0);
		for (int i = 0; i < 20; i++) {
			uint64_t n = draw() % 5, took = draw() % 100000;
			size_t who;

			if (draw() % 4 == 0)
				add_task(&now, 1, 1 + (pid_t)(draw() % 8), (uint64_t)round * 100 + (uint64_t)i);
			who = draw() % now.n;
			if (who) {
				count(&now.tasks[who], (uint16_t)(draw() % 3), 0, n, took);
				expected += n;
				expected_ns += n * took;
			}
			if (who && draw() % 3 == 0) { /* it ends: folded into the first */
				for (size_t k = 0; k < now.tasks[who].n_calls; k++) {
					t = &now.tasks[who];
					spoor_call_merge(call_of(&now.tasks[0], t->calls[k].id, 0), &t->calls[k]);
				}
				now.tasks[0].threads++;
				spoor_task_done(&now.tasks[who]);
				now.tasks[who] = now.tasks[--now.n];
			}
		}
		assert_int_equal(spoor_counters_delta(&before, &now, &delta), 0);
		for (size_t i = 0; i < delta.n; i++) {
			for (size_t k = 0; k < delta.tasks[i].n_calls; k++) {
				const struct spoor_call_counters *c = &delta.tasks[i].calls[k];

				assert_int_equal(histogram_sum(c), c->calls);
				assert_true(c->min_ns <= c->max_ns);
				sum += c->calls;
				ns += c->ns;
			}
		}
		spoor_counters_done(&delta);
		spoor_counters_done(&before);
	}
	assert_int_equal(sum, expected);
	assert_int_equal(ns, expected_ns);
	spoor_counters_done(&now);
}

/* ---- order ---- */

static void test_shares(void **state)
{
	uint32_t shares[300];
	uint64_t parts[300] = { 1, 1, 1 };

	assert_int_equal(spoor_shares(parts, 3, shares), 0);
	assert_int_equal(shares[0], 3334);
	assert_int_equal(shares[1], 3333);
	assert_int_equal(shares[2], 3333);
	assert_int_equal(spoor_shares(parts + 3, 5, shares), 0);
	assert_int_equal(shares[0] + shares[4], 0);
	assert_int_equal(spoor_shares(parts, 0, shares), 0);
	for (int round = 0; round < 20000; round++) {
		size_t n = 1 + draw() % 300;
		unsigned shift = draw() % 64;
		uint64_t total = 0, sum = 0, any = 0;

		for (size_t i = 0; i < n; i++) {
			parts[i] = draw() % 3 ? draw() >> shift : 0;
			any |= parts[i];
			total += parts[i] >> 10;
		}
		assert_int_equal(spoor_shares(parts, n, shares), 0);
		for (size_t i = 0; i < n; i++)
			sum += shares[i];
		assert_int_equal(sum, any ? 10000 : 0);
	}
}

static void test_sort(void **state)
{
	struct spoor_counters c = {};
	struct spoor_task_counters *t = add_task(&c, 1, 1, 1);

	count(t, WRITE, 0, 100, 10)->errors = 1;
	count(t, READ, 0, 1, 5000);
	count(t, GETPPID, 0, 1000, 4)->errors = 3;
	spoor_task_sort_calls(t, SPOOR_STAT_BY_TIME);
	assert_int_equal(t->calls[0].id, READ);
	spoor_task_sort_calls(t, SPOOR_STAT_BY_CALLS);
	assert_int_equal(t->calls[0].id, GETPPID);
	assert_int_equal(t->calls[2].id, READ);
	spoor_task_sort_calls(t, SPOOR_STAT_BY_ERRORS);
	assert_int_equal(t->calls[1].id, WRITE);
	spoor_task_sort_calls(t, SPOOR_STAT_BY_MAX);
	assert_int_equal(t->calls[2].id, GETPPID);
	spoor_task_sort_calls(t, SPOOR_STAT_BY_NAME);
	assert_int_equal(t->calls[0].id, GETPPID);
	assert_int_equal(t->calls[1].id, READ);
	count(add_task(&c, 2, 2, 2), READ, 0, 3, 5000);
	spoor_counters_sort_tasks(&c, SPOOR_STAT_BY_TIME);
	assert_int_equal(c.tasks[0].pid, 2);
	spoor_counters_sort_tasks(&c, SPOOR_STAT_BY_CALLS);
	assert_int_equal(c.tasks[0].pid, 1);
	spoor_counters_done(&c);
}

static int ascending(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

/* Within a factor of two of the true one, and in order. */
static void test_percentiles(void **state)
{
	static const unsigned wanted[] = { 0, 10, 500, 990, 999, 1000 };
	struct spoor_counters c = {};
	struct spoor_call_counters *call;
	uint64_t all[997], last = 0;

	call = call_of(add_task(&c, 1, 1, 1), READ, 0);
	assert_int_equal(spoor_call_percentile(call, 500), 0);
	count(&c.tasks[0], WRITE, 0, 1, 12345);
	assert_int_equal(spoor_call_percentile(&c.tasks[0].calls[1], 500), 12345);
	for (int i = 0; i < 997; i++) {
		all[i] = draw() >> (draw() % 50 + 14);
		count(&c.tasks[0], READ, 0, 1, all[i]);
	}
	call = call_of(&c.tasks[0], READ, 0);
	qsort(all, 997, sizeof(*all), ascending);
	for (unsigned i = 0; i < 6; i++) {
		uint64_t p = spoor_call_percentile(call, wanted[i]);
		uint64_t rank = (997 * wanted[i] + 999) / 1000, truth = all[rank ? rank - 1 : 0];

		assert_true(p >= last && p >= call->min_ns && p <= call->max_ns);
		assert_true(spoor_histogram_bucket(truth) == 47 || (p + 1 >= truth / 2 && p / 2 <= truth + 1));
		last = p;
	}
	spoor_counters_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_fold_application),
		cmocka_unit_test(test_fold_by_site),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_ended_processes),
		cmocka_unit_test(test_first_process),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_folder_deltas),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_huge),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_delta_of_ended),
		cmocka_unit_test(test_delta_after_exec),
		cmocka_unit_test(test_delta_of_ended_process),
		cmocka_unit_test(test_delta_in_flight),
		cmocka_unit_test(test_deltas_add_up),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counters_fixture.h"

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
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	struct spoor_call_counters *call;

	make_primes(&c);
	fold(&c, SPOOR_STAT_APPLICATION, 0, &folded);
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
}

static void test_fold_by_site(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	uint64_t calls = 0;

	make_primes(&c);
	fold(&c, SPOOR_STAT_PROCESS, 1, &folded);
	assert_int_equal(folded.n, 7);
	for (size_t i = 0; i < folded.n; i++) {
		assert_int_equal(folded.tasks[i].pid, 100 + (int)i);
		assert_int_equal(folded.tasks[i].tid, folded.tasks[i].pid);
		assert_int_equal(folded.tasks[i].n_calls, 4); /* getppid, and read at [no stack] and two sites */
		for (size_t k = 0; k < folded.tasks[i].n_calls; k++)
			calls += folded.tasks[i].calls[k].calls;
	}
	assert_int_equal(calls, 1009 * (7919 + 13));
	fold(&c, SPOOR_STAT_THREAD, 1, &folded);
	assert_int_equal(folded.n, 1009);
}

/* One pid, two processes one after the other; a leader that ended first; threads without their leader. */
static void test_processes(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	struct spoor_task_counters *t;

	t = add_task(&c, 50, 52, 30);
	t->process_start_ns = 10;
	count(t, READ, 0, 2, 5);
	t = add_ended(&c, 50, 2); /* the leader is one of them */
	t->start_ns = t->process_start_ns = 10;
	snprintf(t->comm, sizeof(t->comm), "leader");
	count(t, READ, 0, 3, 5)->in_flight = 1;
	t = add_task(&c, 50, 50, 90);
	t->process_start_ns = 90;
	count(t, READ, 0, 5, 5);
	fold(&c, SPOOR_STAT_PROCESS, 0, &folded);
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
}

static void test_ended_processes(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	struct spoor_task_counters *t = add_ended(&c, 0, 4001);

	t->processes = 2003;
	count(t, WRITE, 0, 17, 9);
	count(add_task(&c, 9, 9, 5), WRITE, 0, 19, 9);
	fold(&c, SPOOR_STAT_APPLICATION, 0, &folded);
	assert_int_equal(folded.tasks[0].pid, 9);
	assert_int_equal(folded.tasks[0].threads, 4002);
	assert_int_equal(folded.tasks[0].processes, 2004);
	assert_int_equal(folded.tasks[0].calls[0].calls, 36);
	fold(&c, SPOOR_STAT_PROCESS, 0, &folded);
	assert_int_equal(folded.n, 2);
	assert_int_equal(folded.tasks[1].pid, 0);
}

/* What ended processes left is known by the first of them: it names the application, but is no process itself. */
static void test_first_process(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	struct spoor_task_counters *t = add_ended(&c, 0, 1);

	t->start_ns = 10;
	t->first_pid = 7;
	t->processes = 2;
	snprintf(t->comm, sizeof(t->comm), "first");
	count(t, WRITE, 0, 17, 9);
	count(add_task(&c, 9, 9, 15), WRITE, 0, 19, 9);
	fold(&c, SPOOR_STAT_APPLICATION, 0, &folded);
	assert_int_equal(folded.tasks[0].pid, 7);
	assert_int_equal(folded.tasks[0].tid, 7);
	assert_int_equal(folded.tasks[0].processes, 3);
	assert_string_equal(folded.tasks[0].comm, "first");
	fold(&c, SPOOR_STAT_PROCESS, 0, &folded);
	assert_int_equal(folded.tasks[0].pid, 9);
	assert_int_equal(folded.tasks[1].pid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fold_application), cmocka_unit_test(test_fold_by_site),
		cmocka_unit_test(test_processes),        cmocka_unit_test(test_ended_processes),
		cmocka_unit_test(test_first_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

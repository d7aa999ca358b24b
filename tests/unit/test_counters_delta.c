/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counters_fixture.h"

static void test_delta(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = { .at_ns = 1000 }, b = {}, delta = {};
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
	take_delta(&a, &b, &delta);
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
}

/* A thread, its tid used again, and its counters folded: nothing twice, nothing lost. */
static void test_delta_of_ended(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = {}, b = {}, delta = {};

	count(add_task(&a, 1, 1, 1), READ, 0, 7, 100);
	count(add_task(&a, 1, 2, 5), WRITE, 0, 11, 50);
	count(add_ended(&a, 1, 3), WRITE, 0, 100, 50);
	count(add_task(&b, 1, 1, 1), READ, 0, 7, 100);
	count(add_task(&b, 1, 2, 9), WRITE, 0, 2, 50);
	count(add_ended(&b, 1, 4), WRITE, 0, 100 + 11 + 3, 50);
	take_delta(&a, &b, &delta);
	assert_int_equal(delta.n, 2);
	assert_int_equal(task_of(&delta, 1, 2)->calls[0].calls, 2);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].calls, 3);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].ns, 150);
	assert_int_equal(task_of(&delta, 1, 0)->threads, 1);
}

/* A thread executes a program: it has the leader's tid and start from then on, but is another one. */
static void test_delta_after_exec(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = {}, b = {}, delta = {};

	add_task(&a, 1, 1, 1)->serial = 1;
	count(&a.tasks[0], READ, 0, 7, 100);
	add_task(&a, 1, 2, 5)->serial = 2;
	count(&a.tasks[1], READ, 0, 11, 100);
	count(add_ended(&a, 1, 1), READ, 0, 3, 100);
	add_task(&b, 1, 1, 1)->serial = 3;
	count(&b.tasks[0], READ, 0, 2, 100);
	count(add_ended(&b, 1, 1), READ, 0, 3 + 7 + 11 + 1, 100);
	take_delta(&a, &b, &delta);
	assert_int_equal(task_of(&delta, 1, 1)->calls[0].calls, 2);
	assert_int_equal(task_of(&delta, 1, 0)->calls[0].calls, 1);
}

/* In the midst of its execve: it has the leader's ids, and is the same one still. */
static void test_delta_in_exec(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = {}, b = {}, delta = {};

	add_task(&a, 1, 1, 1)->serial = 1;
	count(&a.tasks[0], READ, 0, 7, 100);
	add_task(&a, 1, 2, 5)->serial = 2;
	count(&a.tasks[1], READ, 0, 11, 100);
	add_task(&b, 1, 1, 1)->serial = 2;
	count(&b.tasks[0], READ, 0, 13, 100);
	count(add_ended(&b, 1, 1), READ, 0, 7, 100);
	take_delta(&a, &b, &delta);
	assert_int_equal(delta.n, 1);
	assert_int_equal(task_of(&delta, 1, 1)->calls[0].calls, 2);
}

static void test_delta_of_ended_process(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = {}, b = {}, delta = {};

	count(add_task(&a, 5, 5, 1), READ, 0, 7, 100);
	count(add_task(&a, 5, 6, 2), READ, 0, 7, 100);
	count(add_ended(&a, 5, 1), READ, 0, 3, 100);
	count(add_ended(&b, 0, 3), READ, 0, 17 + 2, 100);
	take_delta(&a, &b, &delta);
	assert_int_equal(delta.n, 1);
	assert_int_equal(delta.tasks[0].calls[0].calls, 2);
}

/* A call in flight at each print: its time is divided among the spans, and their sum is the whole. */
static void test_delta_in_flight(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters delta = {};
	struct spoor_counters s[4] = {};
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
		take_delta(&s[i], &s[i + 1], &delta);
		assert_int_equal(spoor_call_shown(&delta.tasks[0].calls[0]), 1);
		shown += spoor_call_shown_ns(&delta.tasks[0].calls[0]);
		calls += delta.tasks[0].calls[0].calls;
	}
	assert_int_equal(shown, 3000);
	assert_int_equal(calls, 1);
	for (int i = 0; i < 4; i++)
		spoor_counters_done(&s[i]);
}

/* What it counted goes to the first task. */
static void end_thread(struct spoor_counters *c, size_t who)
{
	struct spoor_task_counters *t = &c->tasks[who];

	for (size_t i = 0; i < t->n_calls; i++)
		spoor_call_merge(call_of(&c->tasks[0], t->calls[i].id, 0), &t->calls[i]);
	c->tasks[0].threads++;
	spoor_task_done(t);
	*t = c->tasks[--c->n];
}

static void add_up(const struct spoor_task_counters *t, uint64_t *calls, uint64_t *ns)
{
	for (size_t i = 0; i < t->n_calls; i++) {
		assert_int_equal(histogram_sum(&t->calls[i]), t->calls[i].calls);
		assert_true(t->calls[i].min_ns <= t->calls[i].max_ns);
		*calls += t->calls[i].calls;
		*ns += t->calls[i].ns;
	}
}

/* Whatever threads do, the spans add up to the end. */
static void test_deltas_add_up(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters now = {};
	uint64_t expected = 0, sum = 0, ns = 0, expected_ns = 0;

	add_ended(&now, 1, 0);
	for (int round = 0; round < 500; round++) {
		_cleanup_(spoor_counters_done) struct spoor_counters before = {}, delta = {};

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
			if (who && draw() % 3 == 0)
				end_thread(&now, who);
		}
		take_delta(&before, &now, &delta);
		for (size_t i = 0; i < delta.n; i++)
			add_up(&delta.tasks[i], &sum, &ns);
	}
	assert_int_equal(sum, expected);
	assert_int_equal(ns, expected_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_delta_of_ended),
		cmocka_unit_test(test_delta_after_exec),
		cmocka_unit_test(test_delta_in_exec),
		cmocka_unit_test(test_delta_of_ended_process),
		cmocka_unit_test(test_delta_in_flight),
		cmocka_unit_test(test_deltas_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

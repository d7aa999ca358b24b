/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counters_fixture.h"

/* What was in *ret is released. */
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
	spoor_counters_done(ret);
	spoor_folder_take(f, ret);
	spoor_folder_free(f);
}

static void assert_same_errnos(const struct spoor_call_counters *a, const struct spoor_call_counters *b)
{
	assert_int_equal(a->n_errnos, b->n_errnos);
	for (size_t i = 0; i < a->n_errnos; i++) {
		size_t k = 0;

		while (k < b->n_errnos && b->errnos[k].number != a->errnos[i].number)
			k++;
		assert_true(k < b->n_errnos && b->errnos[k].n == a->errnos[i].n);
	}
}

static void assert_same_calls(const struct spoor_task_counters *a, struct spoor_task_counters *b)
{
	assert_int_equal(a->n_calls, b->n_calls);
	for (size_t i = 0; i < a->n_calls; i++) {
		const struct spoor_call_counters *x = &a->calls[i], *y = call_of(b, x->id, x->stack);

		assert_true(x->calls == y->calls && x->errors == y->errors && x->ns == y->ns);
		assert_true(x->min_ns == y->min_ns && x->max_ns == y->max_ns && x->blocked_ns == y->blocked_ns);
		assert_true(x->in_flight == y->in_flight && x->in_flight_ns == y->in_flight_ns);
		assert_true(x->unreturned == y->unreturned && x->unreturned_ns == y->unreturned_ns);
		assert_memory_equal(x->histogram, y->histogram, sizeof(x->histogram));
		assert_same_errnos(x, y);
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
			if (t->tid && draw() % 2) {
				call->in_flight++;
				call->in_flight_ns += draw() % 9999;
			}
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
		_cleanup_(spoor_counters_done) struct spoor_counters c = {}, poured = {}, folded = {}, again = {};

		make_random(&c);
		for (enum spoor_stat_level level = SPOOR_STAT_APPLICATION; level <= SPOOR_STAT_TREE; level++) {
			if (level == SPOOR_STAT_THREAD)
				continue;
			fold(&c, level, 1, &folded);
			pour(&c, level, &poured);
			fold(&poured, level, 1, &again);
			assert_same(&folded, &poured);
			assert_same(&folded, &again);
		}
		pour(&c, SPOOR_STAT_THREAD, &poured);
		assert_int_equal(poured.n, c.n);
		for (size_t i = 0; i < c.n; i++)
			assert_same_calls(&c.tasks[i], &poured.tasks[i]);
	}
}

/* A thread that takes its dead leader's place by execve: of the process the difference is exact all the same. */
static void test_folder_deltas(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters a = {}, b = {}, before = {}, now = {}, delta = {};
	struct spoor_task_counters *t;

	count(add_task(&a, 5, 5, 1), READ, 0, 1000, 100);
	count(add_task(&a, 5, 6, 2), READ, 0, 10, 100);
	count(add_task(&b, 5, 5, 1), READ, 0, 10 + 3, 100); /* was 6 */
	t = add_ended(&b, 5, 1);
	t->start_ns = 1;
	count(t, READ, 0, 1000 + 2, 100);
	for (size_t i = 0; i < 2; i++)
		a.tasks[i].process_start_ns = b.tasks[i].process_start_ns = 1;
	pour(&a, SPOOR_STAT_PROCESS, &before);
	pour(&b, SPOOR_STAT_PROCESS, &now);
	take_delta(&before, &now, &delta);
	assert_int_equal(delta.n, 1);
	assert_int_equal(delta.tasks[0].calls[0].calls, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_folder_deltas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counters_fixture.h"

/* They add up, and each is less than a hundredth of a per cent from the truth. */
static void assert_fair(const uint64_t *parts, size_t n, const uint32_t *shares)
{
	unsigned __int128 total = 0;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		total += parts[i];
		sum += shares[i];
	}
	assert_int_equal(sum, total ? 10000 : 0);
	for (size_t i = 0; i < n && total; i++) {
		unsigned __int128 exact = (unsigned __int128)parts[i] * 10000;

		assert_true(shares[i] * total < exact + total && exact < (shares[i] + 1) * total);
	}
}

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

		for (size_t i = 0; i < n; i++)
			parts[i] = draw() % 3 ? draw() >> shift : 0;
		assert_int_equal(spoor_shares(parts, n, shares), 0);
		assert_fair(parts, n, shares);
	}
}

static void test_sort(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
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
}

static int ascending(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

/* In the bucket of the true one, and in order. */
static void test_percentiles(void **state)
{
	static const unsigned wanted[] = { 0, 10, 500, 990, 999, 1000 };
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
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
		assert_int_equal(spoor_histogram_bucket(p), spoor_histogram_bucket(truth));
		last = p;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

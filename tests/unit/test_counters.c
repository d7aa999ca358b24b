/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counters_fixture.h"

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
	assert_string_equal(name, "syscall_511");
	spoor_call_counters_name(SPOOR_EV_SYSCALL_OTHER, name, sizeof(name));
	assert_string_equal(name, "(unknown number)");
}

static void test_nothing(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {}, delta = {};

	fold(&c, SPOOR_STAT_APPLICATION, 1, &folded);
	assert_int_equal(folded.n, 0);
	take_delta(&c, &c, &delta);
	assert_int_equal(delta.n, 0);
	add_task(&c, 1, 1, 1);
	fold(&c, SPOOR_STAT_APPLICATION, 0, &folded);
	assert_int_equal(folded.n, 1);
	assert_int_equal(folded.tasks[0].n_calls, 0);
	spoor_counters_done(&c); /* and a second time at the end */
}

static void test_huge(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {}, folded = {};
	struct spoor_call_counters *call;

	for (int i = 1; i < 4; i++) {
		call = count(add_task(&c, 1, i, (uint64_t)i), READ, 0, 1, UINT64_MAX);
		call->calls = call->histogram[47] = UINT64_MAX - 1;
		call->in_flight = 1;
		call->in_flight_ns = UINT64_MAX;
	}
	fold(&c, SPOOR_STAT_PROCESS, 0, &folded);
	call = &folded.tasks[0].calls[0];
	assert_true(call->calls == UINT64_MAX && call->ns == UINT64_MAX);
	assert_true(spoor_call_shown(call) == UINT64_MAX && spoor_call_shown_ns(call) == UINT64_MAX);
	assert_true(spoor_call_percentile(call, 500) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_huge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

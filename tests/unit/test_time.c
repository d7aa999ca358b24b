/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/time.h"

static void expect_duration(uint64_t ns, const char *expected)
{
	char buf[32];

	spoor_format_duration(ns, buf, sizeof(buf));
	assert_string_equal(buf, expected);
}

static void test_duration(void **state)
{
	expect_duration(0, "0 ns");
	expect_duration(999, "999 ns");
	expect_duration(1000, "1.00 us");
	expect_duration(1239, "1.24 us");
	expect_duration(9994, "9.99 us");
	expect_duration(9996, "10.0 us");
	expect_duration(99960, "100 us");
	expect_duration(999499, "999 us");
	expect_duration(999600, "1.00 ms");
	expect_duration(52100000, "52.1 ms");
	expect_duration(3070000000, "3.07 s");
	expect_duration(59900000000, "59.9 s");
	expect_duration(725000000000, "12m 05s");
	expect_duration(11220000000000, "3h 07m");
	expect_duration(UINT64_MAX, "5124095h 34m");
}

static void test_dates(void **state)
{
	char buf[64];

	setenv("TZ", "UTC", 1);
	tzset();
	spoor_format_epoch(1763722987000000042, buf, sizeof(buf));
	assert_string_equal(buf, "1763722987.000000042");
	spoor_format_clock(1763722987000000042, buf, sizeof(buf));
	assert_string_equal(buf, "11:03:07.000000042");
	spoor_format_date(1763722987000000042, buf, sizeof(buf));
	assert_string_equal(buf, "20251121-110307");
	spoor_format_date(UINT64_MAX, buf, sizeof(buf));
}

static void test_clocks(void **state)
{
	uint64_t a = spoor_now_monotonic(), b = spoor_now_monotonic();

	assert_true(a && a <= b);
	assert_true(spoor_now_realtime() > 1700000000 * SPOOR_NS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

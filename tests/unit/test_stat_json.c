/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stat_fixture.h"

#include <jansson.h>

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *j = json_loads(text, 0, &error);

	if (!j)
		fail_msg("%s at %d in %s", error.text, error.column, text);
	return j;
}

/* The nth call of the first task. */
static json_t *call_at(const json_t *j, size_t n)
{
	return json_array_get(json_object_get(json_array_get(json_object_get(j, "tasks"), 0), "syscalls"), n);
}

static const char *string(const json_t *j, const char *member)
{
	return json_string_value(json_object_get(j, member));
}

static double real(const json_t *j, const char *member)
{
	assert_true(json_is_real(json_object_get(j, member)));
	return json_real_value(json_object_get(j, member));
}

static json_int_t number(const json_t *j, const char *member)
{
	assert_true(json_is_integer(json_object_get(j, member)));
	return json_integer_value(json_object_get(j, member));
}

static json_int_t sum_of(const json_t *histogram)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(histogram); i++)
		sum += json_integer_value(json_array_get(histogram, i));
	return sum;
}

static void test_json(void **state)
{
	struct spoor_stat_view v = { .json = 1, .level = SPOOR_STAT_THREAD, .blocked = 1, .delta = 1 };
	_cleanup_(spoor_counters_done) struct spoor_counters c = { .since_ns = 5, .at_ns = 7 };
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *j, *task, *call;

	make_simple(&c);
	count(&c.tasks[0], SPOOR_SYSCALL_I386 + 20, 0, 3, 7)->in_flight = 1;
	text = print(&c, &v);
	assert_int_equal(strcspn(text, "\n"), strlen(text) - 1); /* one line */
	j = parse(text);
	task = json_array_get(json_object_get(j, "tasks"), 0);
	assert_int_equal(number(task, "pid"), 20);
	assert_int_equal(number(task, "threads"), 46);
	assert_string_equal(string(task, "comm"), "lego");
	call = call_at(j, 0);
	assert_string_equal(string(call, "name"), "read");
	assert_int_equal(number(call, "calls"), 13);
	assert_int_equal(number(call, "errors"), 7);
	assert_int_equal(number(call, "min_ns"), 1000003);
	assert_int_equal(number(call, "max_ns"), 1000003);
	assert_int_equal(sum_of(json_object_get(call, "histogram")), 13);
	assert_int_equal(number(json_object_get(call, "errnos"), "EAGAIN"), 4);
	assert_int_equal(number(json_object_get(call, "errnos"), "others"), 1);
	assert_int_equal(number(call, "entered"), 13);
	assert_true(real(call, "seconds") == 0.013000039);
	assert_true(real(call, "blocked_seconds") == 0.00325);
	assert_true(real(call, "on_cpu_seconds") == 0.009750039);
	call = call_at(j, 3);
	assert_string_equal(string(call, "abi"), "i386");
	assert_int_equal(number(json_object_get(call, "in_flight"), "calls"), 1);
	assert_int_equal(number(call, "calls"), 3);
	assert_int_equal(number(call, "entered"), 4);
	json_decref(j);
}

static void test_json_sites(void **state)
{
	struct spoor_stat_view v = { .json = 1, .by_site = 1, .site = site, .site_json = site_json };
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *j, *call, *sites;

	make_sites(&c);
	text = print(&c, &v);
	j = parse(text);
	call = call_at(j, 0);
	assert_int_equal(number(call, "calls"), 30);
	sites = json_object_get(call, "sites");
	assert_int_equal(json_array_size(sites), 3);
	assert_string_equal(string(json_array_get(sites, 0), "site"), "main x.c:5");
	assert_int_equal(number(json_array_get(sites, 0), "calls"), 16);
	assert_int_equal(json_array_size(json_object_get(json_array_get(sites, 0), "stack")), 1);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stat_fixture.h"

#include "present/stat_screen.h"

static void test_screen_changes(void **state)
{
	_cleanup_(spoor_freep) char *all = NULL, *some = NULL, *none = NULL;
	struct spoor_screen empty = {}, a, b;
	size_t len;

	assert_int_equal(spoor_screen_new(3, 20, &a), 0);
	assert_int_equal(spoor_screen_new(3, 20, &b), 0);
	spoor_screen_set(&a, 0, SPOOR_LOOK_BOLD, "title");
	spoor_screen_set(&a, 1, SPOOR_LOOK_PLAIN, "12.00 seconds of it, and what is too long");
	spoor_screen_set(&b, 0, SPOOR_LOOK_BOLD, "title");
	spoor_screen_set(&b, 1, SPOOR_LOOK_PLAIN, "12.34 seconds of it, cut as well");
	spoor_screen_set(&b, 7, SPOOR_LOOK_PLAIN, "not there");
	assert_int_equal(strlen(a.lines[1]), 20);
	all = spoor_screen_change(&empty, &a, 1, &len);
	assert_string_equal(all, "\030\033[0m\033[2J\033[1;1H\033[1mtitle\033[0m\033[2;1H12.00 seconds of it,");
	some = spoor_screen_change(&a, &b, 1, &len);
	assert_string_equal(some, "\033[2;4H34");
	spoor_screen_set(&b, 1, SPOOR_LOOK_PLAIN, "12.3");
	none = spoor_screen_change(&b, &b, 1, &len);
	assert_int_equal(len, 0);
	free(some);
	some = spoor_screen_change(&a, &b, 1, &len);
	assert_string_equal(some, "\033[2;4H3\033[K");
	spoor_screen_done(&a);
	spoor_screen_done(&b);
}

static void test_screen_of_hostile(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = { .at_ns = 9 };

	make_hostile(&c);
	for (unsigned form = 0; form < 600; form++) {
		struct spoor_stat_view v = { .level = draw() % 3,
					     .by_site = draw() & 1,
					     .utf8 = draw() & 1,
					     .blocked = draw() & 1,
					     .sort = draw() % 5,
					     .site = hostile_site };
		struct spoor_screen_state s = { .scroll = draw() % 2 ? draw() % 200 : SIZE_MAX / 2 };
		struct spoor_screen screen;

		assert_int_equal(spoor_screen_new(1 + draw() % 40, 1 + draw() % 200, &screen), 0);
		assert_int_equal(spoor_screen_fill(&screen, &c, &v, &s), 0);
		for (unsigned i = 0; i < screen.rows; i++) {
			assert_clean(screen.lines[i] ?: "", v.utf8);
			assert_false(screen.lines[i] && strchr(screen.lines[i], '\n'));
		}
		spoor_screen_done(&screen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_screen_changes),
		cmocka_unit_test(test_screen_of_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each user may have of a recorder's places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/user/shares.h"

#define PLACES 1000

/* As many as he gets of those that are free. */
static size_t take_all(struct spoor_shares *s, uid_t uid, size_t unused)
{
	size_t n = 0;

	while (n < unused && spoor_shares_take(s, uid, unused - n))
		n++;
	return n;
}

static uid_t another(unsigned i)
{
	return geteuid() + 1 + i;
}

static void test_halves(void **state)
{
	struct spoor_shares s = {};

	assert_int_equal(take_all(&s, another(0), PLACES), PLACES / 2);
	assert_false(spoor_shares_take(&s, another(0), PLACES / 2));
	assert_int_equal(take_all(&s, another(1), PLACES / 2), PLACES / 4);
	assert_int_equal(take_all(&s, another(2), PLACES / 4), PLACES / 8);
	assert_int_equal(take_all(&s, geteuid(), PLACES / 8), PLACES / 8);
	assert_true(spoor_shares_take(&s, 0, 0));
	spoor_shares_done(&s);
}

static void test_given_back(void **state)
{
	struct spoor_shares s = {};
	size_t n = take_all(&s, another(0), PLACES);

	assert_true(spoor_shares_say(&s, another(0)));
	assert_false(spoor_shares_say(&s, another(0)));
	assert_true(spoor_shares_take(&s, another(1), PLACES - n));
	spoor_shares_give_back(&s, another(1));
	while (n--)
		spoor_shares_give_back(&s, another(0));
	assert_int_equal(s.n, 0);
	spoor_shares_give_back(&s, 0);
	assert_true(spoor_shares_take(&s, another(0), 1));
	assert_true(spoor_shares_say(&s, another(0)));
	spoor_shares_done(&s);
}

static void test_many_users(void **state)
{
	struct spoor_shares s = {};

	for (unsigned i = 0; i < 100; i++)
		assert_true(spoor_shares_take(&s, another(i), PLACES - i));
	for (unsigned i = 0; i < 100; i += 2)
		spoor_shares_give_back(&s, another(i));
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(spoor_shares_take(&s, another(i), 1), i % 2 == 0);
	spoor_shares_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_many_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patterns for names, matched as the kernel side does it: as fnmatch(3) does. */
#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect/kernel/kernel.h"

static int matches(const char *pattern, const char *name)
{
	struct spoor_names names = { 0 };
	struct spoor_name_match m = { 0 };
	struct spoor_error e = { "" };

	if (spoor_names_add(&names, pattern, &e))
		fail_msg("%s: %s", pattern, e.text);
	for (unsigned i = 0; i < SPOOR_NAME_MAX * SPOOR_NAME_MATCHED; i++) {
		int r = spoor_name_step(&names, 0, &m, name[m.s]);

		if (r)
			return r == 2;
	}
	fail_msg("%s, %s: no end", pattern, name);
	return 0;
}

static void same(const char *pattern, const char *name)
{
	if (matches(pattern, name) != !fnmatch(pattern, name, 0))
		fail_msg("'%s' and '%s': %d", pattern, name, matches(pattern, name));
}

static void test_as_fnmatch(void **state)
{
	static const char *const patterns[] = {
		"ls",
		"l?",
		"*",
		"**",
		"?*",
		"a*b*c",
		"*.so*",
		"[ab]*",
		"[!ab]*",
		"[^ab]*",
		"[a-c]?",
		"[]a]",
		"[!]a]",
		"[a-]",
		"[[:alpha:]]*",
		"[[:digit:][:upper:]]",
		"[",
		"[a",
		"a[",
		"[]",
		"[!]",
		"\\*",
		"\\a",
		"[\\]]",
		"[a\\-c]",
		"x[[:x]",
		"[[.a.]]",
		"[z-a]",
		"*[0-9]",
		"python3.[0-9]*",
		"?[?]",
		"[*]",
		"",
		"\xc3?",
		"[\xc3]*",
	};
	static const char *const names[] = {
		"",          "a", "b", "c",  "ls", "l",  "abc", "aXbYc", "libc.so.6", "]",
		"[",         "!", "-", "*",  "\\", "[a", "a[",  "[]",    "[!]",       "python3.11",
		"python3.x", "9", "Z", "x[", "x:", "a?", "ab",  "ba",    "\xc3\xa4",
	};

	for (unsigned p = 0; p < sizeof(patterns) / sizeof(*patterns); p++)
		for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
			same(patterns[p], names[n]);
}

/* What letters can make at random, of those that mean something (of a set without an end, fnmatch(3) makes less). */
static void test_random(void **state)
{
	static const char letters[] = "ab[]!*?\\";
	unsigned seed = 4711;

	for (unsigned i = 0; i < 200000; i++) {
		char pattern[10] = "", name[8] = "";
		unsigned lp = rand_r(&seed) % sizeof(pattern), ln = rand_r(&seed) % sizeof(name);

		for (unsigned k = 0; k < lp; k++)
			pattern[k] = letters[rand_r(&seed) % (sizeof(letters) - 1)];
		for (unsigned k = 0; k < ln; k++)
			name[k] = letters[rand_r(&seed) % (sizeof(letters) - 1)];
		if (lp && pattern[lp - 1] == '\\')
			continue;
		same(pattern, name);
	}
}

/* The longest of both, at its worst. */
static void test_lengths(void **state)
{
	char pattern[SPOOR_NAME_MAX + 1], name[SPOOR_NAME_MATCHED];
	struct spoor_names names = { 0 };
	struct spoor_error e = { "" };

	memset(pattern, 'a', sizeof(pattern));
	memset(name, 'a', sizeof(name));
	pattern[SPOOR_NAME_MAX] = name[SPOOR_NAME_MATCHED - 1] = 0;
	assert_int_equal(spoor_names_add(&names, pattern, &e), -ENAMETOOLONG);
	pattern[SPOOR_NAME_MAX - 1] = 0;
	assert_false(matches(pattern, name));
	pattern[0] = '*';
	assert_true(matches(pattern, name));
	pattern[SPOOR_NAME_MAX - 2] = 'b';
	assert_false(matches(pattern, name));
	name[SPOOR_NAME_MAX - 1] = 0;
	assert_false(matches(pattern, name));
}

static void test_limits(void **state)
{
	struct spoor_names names = { 0 };
	struct spoor_error e = { "" };
	char set[] = "[ ]";

	assert_int_equal(spoor_names_add(&names, "a\\", &e), -EINVAL);
	for (unsigned i = 0; i < SPOOR_MAX_NAMES; i++)
		assert_int_equal(spoor_names_add(&names, "[a-z][a-z]", &e), 0);
	assert_int_equal(spoor_names_add(&names, "x", &e), -E2BIG);
	assert_int_equal(names.n_sets, 1);
	names.n = 0;
	for (unsigned i = 1; i < SPOOR_NAME_SETS; i++, names.n = 0) {
		set[1] = '!' + i + 1;
		if (set[1] != '[' && set[1] != ']')
			assert_int_equal(spoor_names_add(&names, set, &e), 0);
	}
	assert_in_range(names.n_sets, SPOOR_NAME_SETS - 4, SPOOR_NAME_SETS);
	assert_int_equal(spoor_names_add(&names, "[A][B][C][D][aA][aB][aC][aD][aE]", &e), -E2BIG);
	assert_int_equal(names.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_fnmatch),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/scope.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define LIBSSL "/usr/lib/x86_64-linux-gnu/libssl.so.3"
#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define APACHE "/usr/sbin/apache2"

static void set_scope(struct spoor_scope *s, const char *list)
{
	struct spoor_error e = { "" };

	if (spoor_scope_parse(s, list, &e))
		fail_msg("%s: %s", list, e.text);
}

static void test_first_match_wins(void **state)
{
	struct spoor_scope s = { 0 };

	set_scope(&s, "main=3,libssl*=1,libc*=0,*=2");
	assert_int_equal(spoor_scope_limit(&s, APACHE, true), 3);
	assert_int_equal(spoor_scope_limit(&s, LIBSSL, false), 1);
	assert_int_equal(spoor_scope_limit(&s, LIBC, false), 0);
	assert_int_equal(spoor_scope_limit(&s, APACHE, false), 2);
	assert_int_equal(spoor_scope_limit(&s, "", false), 2);
	/* A library that is called main is not the executable. */
	assert_int_equal(spoor_scope_limit(&s, "/opt/main", false), 2);
	spoor_scope_done(&s);
	set_scope(&s, "*=1,main=3");
	assert_int_equal(spoor_scope_limit(&s, APACHE, true), 1);
	spoor_scope_done(&s);
}

static void test_no_rule_means_none(void **state)
{
	struct spoor_scope s = { 0 };

	assert_int_equal(spoor_scope_limit(&s, APACHE, true), 0);
	set_scope(&s, "libssl*=1");
	set_scope(&s, "main=512");
	assert_int_equal(spoor_scope_limit(&s, LIBSSL, false), 1);
	assert_int_equal(spoor_scope_limit(&s, APACHE, true), 512);
	assert_int_equal(spoor_scope_limit(&s, LIBC, false), 0);
	spoor_scope_done(&s);
}

static void test_paths(void **state)
{
	struct spoor_scope s = { 0 };

	set_scope(&s, "/usr/lib/*=4, /usr/sbin/apache2 = 5 ,a=b=7,[vdso]=6,lib[cm].*=8");
	assert_int_equal(spoor_scope_limit(&s, LIBC, false), 4);
	assert_int_equal(spoor_scope_limit(&s, "/opt/usr/lib/libc.so.6", false), 8);
	assert_int_equal(spoor_scope_limit(&s, APACHE, false), 5);
	assert_int_equal(spoor_scope_limit(&s, "/x/a=b", false), 7);
	assert_int_equal(spoor_scope_limit(&s, "[vdso]", false), 6);
	assert_int_equal(spoor_scope_limit(&s, "/opt/libmath", false), 0);
	spoor_scope_done(&s);
}

static void test_app(void **state)
{
	struct spoor_scope s = { 0 };

	assert_int_equal(spoor_app_match(&s, APACHE, true), 1);
	assert_int_equal(spoor_app_match(&s, LIBC, false), 0);
	assert_int_equal(spoor_app_parse(&s, "apache2,mod_*.so", NULL), 0);
	assert_int_equal(spoor_app_match(&s, APACHE, true), 1);
	assert_int_equal(spoor_app_match(&s, "/usr/lib/apache2/modules/mod_ssl.so", false), 1);
	assert_int_equal(spoor_app_match(&s, "/usr/bin/python3", true), 0);
	assert_int_equal(spoor_app_match(&s, LIBC, false), 0);
	assert_int_equal(spoor_app_parse(&s, "main", NULL), 0);
	assert_int_equal(spoor_app_match(&s, "/usr/bin/python3", true), 1);
	spoor_scope_done(&s);
	spoor_scope_done(&s);
	spoor_scope_done(NULL);
}

static void refuse(bool app, const char *list, const char *why)
{
	struct spoor_error e = { "" };
	struct spoor_scope s = { 0 };
	int err;

	set_scope(&s, "main=3");
	err = app ? spoor_app_parse(&s, list, &e) : spoor_scope_parse(&s, list, &e);
	assert_int_equal(err, -EINVAL);
	assert_int_equal(s.n, 1);
	assert_int_equal(spoor_scope_limit(&s, APACHE, true), 3);
	if (!strstr(e.text, why))
		fail_msg("'%s': '%s' does not say '%s'", list, e.text, why);
	spoor_scope_done(&s);
}

static void test_errors(void **state)
{
	char text[400];

	refuse(false, "", "PATTERN=NUMBER");
	refuse(false, "libc*", "'libc*': write PATTERN=NUMBER");
	refuse(false, "libc*=1,", "PATTERN=NUMBER");
	refuse(false, "=1", "empty pattern");
	refuse(false, "libc*=", "'' is not a number from 0 to 512");
	refuse(false, "libc*=-1", "'-1' is not a number");
	refuse(false, "libc*=1x", "'1x' is not a number");
	refuse(false, "libc*=513", "'513' is not a number from 0 to 512");
	refuse(false, "libc*=99999999999999999999", "is not a number from 0 to 512");
	refuse(true, "", "--app: empty pattern");
	refuse(true, "apache2,,mod_*", "empty pattern");
	refuse(true, "apache2, ", "empty pattern");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	refuse(true, text, "at most 255 characters");
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? ',' : 'x';
	text[sizeof(text) - 2] = '\0';
	refuse(true, text, "more than 64 patterns");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_match_wins),
		cmocka_unit_test(test_no_rule_means_none),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_app),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

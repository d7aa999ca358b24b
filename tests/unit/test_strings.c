/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strings.h"

typedef size_t escape_fn(const char *s, size_t len, char *buf, size_t size);

static void expect(escape_fn *escape, const char *s, size_t len, const char *expected)
{
	char buf[256];

	assert_int_equal(escape(s, len, buf, sizeof(buf)), strlen(expected));
	assert_string_equal(buf, expected);
}

#define EXPECT(escape, s, expected) expect(escape, s, sizeof(s) - 1, expected)

static void test_terminal(void **state)
{
	EXPECT(spoor_escape_terminal, "plain /etc/passwd", "plain /etc/passwd");
	EXPECT(spoor_escape_terminal, "a\nb\tc\"d\\e", "a\\nb\\tc\\\"d\\\\e");
	EXPECT(spoor_escape_terminal, "\033[31mred\033]0;title\a", "\\x1b[31mred\\x1b]0;title\\x07");
	EXPECT(spoor_escape_terminal, "nul\0!", "nul\\x00!");
	EXPECT(spoor_escape_terminal, "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\xbe",
	       "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\xbe");
	/* C1 CSI, right-to-left override, zero width space, byte order mark */
	EXPECT(spoor_escape_terminal, "\xc2\x9b" "31m", "\\xc2\\x9b31m");
	EXPECT(spoor_escape_terminal, "\xe2\x80\xae", "\\xe2\\x80\\xae");
	EXPECT(spoor_escape_terminal, "\xe2\x80\x8b", "\\xe2\\x80\\x8b");
	EXPECT(spoor_escape_terminal, "\xef\xbb\xbf", "\\xef\\xbb\\xbf");
}

static void test_line(void **state)
{
	EXPECT(spoor_escape_line, "what == \"a\\\"b\" && n < 3", "what == \"a\\\"b\" && n < 3");
	EXPECT(spoor_escape_line, "a\nb\tc\rd\0", "a\\nb\\tc\\rd\\x00");
	EXPECT(spoor_escape_line, "\033[31mred\xc2\x9b\xe2\x80\xae\xff", "\\x1b[31mred\\xc2\\x9b\\xe2\\x80\\xae\\xff");
}

static void test_file_name(void **state)
{
	char buf[8];

	EXPECT(spoor_escape_file_name, "na\xc3\xafve-1.5_x", "na\xc3\xafve-1.5_x");
	EXPECT(spoor_escape_file_name, "a b/c*?[]\\", "a_b_c_____");
	EXPECT(spoor_escape_file_name, "\033[31m\n\xff\xe2\x80\xae\0!", "__31m____!");
	assert_int_equal(spoor_escape_file_name("123456\xc3\xaf", 8, buf, sizeof(buf)), 8);
	assert_string_equal(buf, "123456");
}

static void test_shell_words(void **state)
{
	char *words[] = { "sh", "-c", "echo \"$1\" 'x'", "", "a\xff", "e=%net,-./:@+_9" };
	char buf[64];
	size_t n = spoor_shell_words(words, 6, buf, sizeof(buf));

	assert_string_equal(buf, "sh -c 'echo \"$1\" '\\''x'\\''' '' 'a\xff' e=%net,-./:@+_9");
	assert_int_equal(n, strlen(buf));
	assert_int_equal(spoor_shell_words(words, 6, buf, 6), n);
	assert_string_equal(buf, "sh -c");
}

static void test_not_utf8(void **state)
{
	EXPECT(spoor_escape_terminal, "\xff", "\\xff");
	EXPECT(spoor_escape_terminal, "\xc0\xaf", "\\xc0\\xaf");             /* overlong '/' */
	EXPECT(spoor_escape_terminal, "\xe0\x80\xaf", "\\xe0\\x80\\xaf");    /* overlong '/' */
	EXPECT(spoor_escape_terminal, "\xed\xa0\x80", "\\xed\\xa0\\x80");    /* surrogate */
	EXPECT(spoor_escape_terminal, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond U+10FFFF */
	EXPECT(spoor_escape_terminal, "\xe2\x82", "\\xe2\\x82");             /* cut short */
	EXPECT(spoor_escape_terminal, "\xe2" "a", "\\xe2" "a");
}

static void test_json(void **state)
{
	EXPECT(spoor_escape_json, "a\"b\\c/d\n\001\x7f", "a\\\"b\\\\c/d\\n\\u0001\\u007f");
	EXPECT(spoor_escape_json, "\xff\xe2\x82\xac\xe2\x82", "\\udcff\xe2\x82\xac\\udce2\\udc82");
	EXPECT(spoor_escape_json, "", "");
	EXPECT(spoor_escape_json, "\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\xc3\xa9",
	       "\\u009b\\u202e\\udb40\\udc41\xc3\xa9");
}

static void test_cut(void **state)
{
	char buf[8];

	memset(buf, 'x', sizeof(buf));
	assert_int_equal(spoor_escape_terminal("ab\nc", 4, buf, 5), 5);
	assert_string_equal(buf, "ab\\n");
	assert_int_equal(buf[5], 'x');
	/* An escape that does not fit is left out whole, and so is what follows. */
	assert_int_equal(spoor_escape_terminal("ab\nc", 4, buf, 4), 5);
	assert_string_equal(buf, "ab");
	assert_int_equal(spoor_escape_terminal("abc", 3, buf, 0), 3);
	assert_int_equal(spoor_escape_terminal("abc", 3, NULL, 0), 3);
}

static void test_globs(void **state)
{
	struct spoor_globs g = {};

	assert_int_equal(spoor_globs_add(&g, "apache2,mod_*.so"), 0);
	assert_int_equal(g.n, 2);
	assert_true(spoor_globs_match(&g, "apache2"));
	assert_true(spoor_globs_match(&g, "mod_ssl.so"));
	assert_false(spoor_globs_match(&g, "xapache2"));
	assert_false(spoor_globs_match(&g, "/usr/sbin/apache2"));
	assert_int_equal(spoor_globs_add(&g, "a,,b"), -EINVAL);
	assert_int_equal(spoor_globs_add(&g, ""), -EINVAL);
	assert_int_equal(spoor_globs_add(&g, "a,"), -EINVAL);
	assert_int_equal(g.n, 2);
	assert_int_equal(spoor_globs_add(&g, "nginx"), 0);
	assert_true(spoor_globs_match(&g, "nginx"));
	spoor_globs_done(&g);
	assert_int_equal(g.n, 0);
	assert_false(spoor_globs_match(&g, "nginx"));
	spoor_globs_done(&g);
}

static void test_deleted(void **state)
{
	char path[] = "/usr/sbin/a (deleted)", twice[] = "a (deleted) (deleted)", other[] = "a (deleted)x";
	char nothing[] = " (deleted)", empty[] = "";

	spoor_cut_deleted(path);
	assert_string_equal(path, "/usr/sbin/a");
	spoor_cut_deleted(twice);
	assert_string_equal(twice, "a (deleted)");
	spoor_cut_deleted(other);
	assert_string_equal(other, "a (deleted)x");
	spoor_cut_deleted(nothing);
	assert_string_equal(nothing, " (deleted)");
	spoor_cut_deleted(empty);
	assert_string_equal(empty, "");
}

static void test_nearest(void **state)
{
	const char *const verbs[] = { "record", "report", "check", "pack", "help" };

	assert_string_equal(spoor_nearest("recrod", verbs, 5), "record");
	assert_string_equal(spoor_nearest("repotr", verbs, 5), "report");
	assert_string_equal(spoor_nearest("chek", verbs, 5), "check");
	assert_null(spoor_nearest("frobnicate", verbs, 5));
	assert_null(spoor_nearest("", verbs, 5));
	assert_null(spoor_nearest("x", verbs, 0));
	char longer[1000];
	memset(longer, 'r', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	assert_null(spoor_nearest(longer, verbs, 5));
}

typedef int parse_fn(const char *s, uint64_t *ret);

/* bad ends with NULL. */
static void refuse(parse_fn *parse, const char *const *bad)
{
	uint64_t v = 7;

	for (; *bad; bad++)
		assert_int_equal(parse(*bad, &v), -EINVAL);
	assert_int_equal(v, 7);
}

static void test_size(void **state)
{
	uint64_t v = 7;

	assert_int_equal(spoor_parse_size("0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(spoor_parse_size("4k", &v), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(spoor_parse_size("3G", &v), 0);
	assert_int_equal(v, 3ULL << 30);
	v = 7;
	refuse(spoor_parse_size, (const char *const[]){ "", "k", "-1", " 1", "1x", "1kk", "1 ", "0x10", NULL });
	assert_int_equal(spoor_parse_size("99999999999999999999", &v), -ERANGE);
	assert_int_equal(spoor_parse_size("18446744073709551615k", &v), -ERANGE);
	assert_int_equal(v, 7);
}

static int parse_1_to_512(const char *s, uint64_t *ret)
{
	return spoor_parse_number(s, 1, 512, ret);
}

static void test_number(void **state)
{
	uint64_t v = 7;

	refuse(parse_1_to_512, (const char *const[]){ "", " 1", "+1", "-1", "1x", "1 ", "0x10", "1.0", NULL });
	assert_int_equal(parse_1_to_512("0", &v), -ERANGE);
	assert_int_equal(parse_1_to_512("513", &v), -ERANGE);
	assert_int_equal(parse_1_to_512("18446744073709551617", &v), -ERANGE); /* 1 in 64 bits */
	assert_int_equal(v, 7);
	assert_int_equal(parse_1_to_512("512", &v), 0);
	assert_int_equal(v, 512);
}

static void test_duration(void **state)
{
	uint64_t v = 7;

	assert_int_equal(spoor_parse_duration("1.5s", &v), 0);
	assert_int_equal(v, 1500000000);
	assert_int_equal(spoor_parse_duration("10", &v), 0);
	assert_int_equal(v, 10000000000);
	assert_int_equal(spoor_parse_duration(".25ms", &v), 0);
	assert_int_equal(v, 250000);
	assert_int_equal(spoor_parse_duration("2m", &v), 0);
	assert_int_equal(v, 120000000000);
	assert_int_equal(spoor_parse_duration("9223372036s", &v), 0);
	assert_int_equal(v, 9223372036000000000);
	v = 7;
	refuse(spoor_parse_duration,
	       (const char *const[]){ "", ".", "-1s", "1.2.3", "1 s", "1d", "inf", "nan", "0x1p3", "1e3", NULL });
	assert_int_equal(spoor_parse_duration("99999999999999h", &v), -ERANGE);
	assert_int_equal(spoor_parse_duration("9223372037s", &v), -ERANGE);
	assert_int_equal(v, 7);
}

static void test_plural(void **state)
{
	assert_string_equal(spoor_plural(0, "call", "calls"), "calls");
	assert_string_equal(spoor_plural(1, "call", "calls"), "call");
	assert_string_equal(spoor_plural(UINT64_MAX, "call", "calls"), "calls");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plural),   cmocka_unit_test(test_deleted),  cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_line),     cmocka_unit_test(test_not_utf8), cmocka_unit_test(test_json),
		cmocka_unit_test(test_file_name), cmocka_unit_test(test_shell_words),
		cmocka_unit_test(test_cut),      cmocka_unit_test(test_globs),    cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_size),     cmocka_unit_test(test_duration), cmocka_unit_test(test_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

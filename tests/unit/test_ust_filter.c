/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The language of filters, and what expressions say of an event with the fields n (s64), u (u8), s, f (double). */
#include "agent/ust/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "agent/core/process.h"
#include "agent/ust/filter_core.h"

static char fields[512];
static size_t n_fields;

static void add_field(const char *name, unsigned type, unsigned bytes, unsigned flags)
{
	struct spoor_def_field f = { .type = (uint8_t)type, .bytes = (uint8_t)bytes, .flags = (uint8_t)flags };

	f.size = (uint32_t)(sizeof(f) + ((strlen(name) + 8) & ~(size_t)7));
	memcpy(fields + n_fields, &f, sizeof(f));
	strcpy(fields + n_fields + sizeof(f), name);
	n_fields += f.size;
}

static int set_up(void **state)
{
	(void)state;
	add_field("n", SPOOR_DEF_INT, 8, SPOOR_DEF_SIGNED);
	add_field("u", SPOOR_DEF_INT, 1, 0);
	add_field("s", SPOOR_DEF_STRING, 1, 0);
	add_field("f", SPOOR_DEF_FLOAT, 8, 0);
	return process_init();
}

static struct filter parsed;

static bool keeps(const char *expression, int64_t n, uint8_t u, const char *s, double f)
{
	struct class c = { .fields = fields, .fields_size = (uint32_t)n_fields };
	const char *at, *wrong = filter_parse(expression, &parsed, &at);
	static char body[1 << 17];
	size_t len = strlen(s) + 1;

	if (wrong)
		fail_msg("%s: %s at '%s'", expression, wrong, at);
	memcpy(body, &n, 8);
	body[8] = (char)u;
	memcpy(body + 9, s, len);
	memcpy(body + 9 + len, &f, 8);
	return filter_keeps(&parsed, &c, body, body + 17 + len, 0x1234);
}

static void test_comparisons(void **state)
{
	static const struct {
		const char *expression;
		bool kept;
	} all[] = {
		{ "n == -7", true },
		{ "n != -7", false },
		{ "n < -6", true },
		{ "n <= -7", true },
		{ "n > -7", false },
		{ "n >= -7", true },
		{ "-7 == n", true },
		{ "u == 200", true },
		{ "u == 0xc8", true },
		{ "u == 0310", true },
		{ "u > n", true },
		{ "u", true },
		{ "!u", false },
		{ "n < 18446744073709551615", true },
		{ "f == 1.5", true },
		{ "f > 1", true },
		{ "f < 1.6e0", true },
		{ "f == 15e-1", true },
		{ "n == -7.0", true },
		{ "absent == 1", false },
		{ "absent != 1", false },
		{ "!(absent == 1)", true },
		{ "!absent", true },
		{ "n == \"x\"", false },
		{ "s == 1", false },
		{ "s", true },
		{ "ip == 0x1234", true },
		{ "vpid > 1 && vtid > 1", true },
		{ "procname == \"test*\"", true },
		{ "cpu < 100000", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (keeps(all[i].expression, -7, 200, "/etc/passwd", 1.5) != all[i].kept)
			fail_msg("%s", all[i].expression);
}

static void test_strings(void **state)
{
	(void)state;
	assert_true(keeps("s == \"/etc/*\"", 0, 0, "/etc/passwd", 0));
	assert_true(keeps("\"/etc/*\" == s", 0, 0, "/etc/passwd", 0));
	assert_false(keeps("s == \"/etc/\"", 0, 0, "/etc/passwd", 0));
	assert_true(keeps("s != \"*.png\"", 0, 0, "/etc/passwd", 0));
	assert_true(keeps("s == \"?etc*w?\"", 0, 0, "/etc/passwd", 0));
	assert_true(keeps("s < \"0\" && s > \"/a\"", 0, 0, "/etc", 0));
	assert_true(keeps("s == \"\"", 0, 0, "", 0));
	assert_false(keeps("s", 0, 0, "", 0));
	assert_true(keeps("s == \"a\\*b\"", 0, 0, "a*b", 0));
	assert_false(keeps("s == \"a\\*b\"", 0, 0, "axb", 0));
	assert_true(keeps("s == \"say \\\"x\\\"\"", 0, 0, "say \"x\"", 0));
	assert_true(keeps("s <= \"a*b\"", 0, 0, "a*b", 0)); /* in an order `*` is itself */
}

static void test_order_of_operators(void **state)
{
	(void)state;
	assert_true(keeps("n == 1 || n == 2 && u == 9", 1, 0, "", 0));
	assert_false(keeps("(n == 1 || n == 2) && u == 9", 1, 0, "", 0));
	assert_true(keeps("!n == 0 || n == 3", 3, 0, "", 0));
	assert_true(keeps("!(n == 1 && (u == 1 || !(u == 2)))", 1, 2, "", 0));
	for (int64_t n = 0; n < 4; n++)
		for (unsigned u = 0; u < 4; u++)
			assert_int_equal(
				keeps("!(n == 1 || u == 2) && (n > 2 || u < 3) || n == u", n, (uint8_t)u, "", 0),
				(!(n == 1 || u == 2) && (n > 2 || u < 3)) || n == u);
}

static void test_long_chains(void **state)
{
	char text[500] = "n == 0";

	(void)state;
	for (int i = 1; i < 28; i++)
		sprintf(text + strlen(text), " || n == %d", i);
	assert_true(keeps(text, 27, 0, "", 0));
	assert_false(keeps(text, 28, 0, "", 0));
}

/* Its pattern would be looked for at each of many places: it is kept in the end, and soon. */
static void test_hostile_string(void **state)
{
	static char s[60001];

	(void)state;
	memset(s, 'a', sizeof(s) - 1);
	assert_true(keeps("s == \"*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", 0, 0, s, 0));
	s[100] = '\0';
	assert_false(keeps("s == \"*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", 0, 0, s, 0));
}

/* Arrays and sequences of numbers: are there any? */
static void test_lists(void **state)
{
	struct {
		struct spoor_def_field f;
		char name[8];
	} q = { { .size = sizeof(q), .type = SPOOR_DEF_INT, .shape = SPOOR_DEF_SEQUENCE, .bytes = 2 }, "q" };
	const struct class c = { .fields = (char *)&q, .fields_size = sizeof(q) };
	static const char *const expressions[] = { "q", "!q", "q == 1", "q != 1", "q == \"\"" };
	static const bool full[] = { true, false, false, false, false }, none[] = { false, true, false, false, false };
	const uint16_t two[] = { 2, 1, 0 }, empty = 0;
	const char *at;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		assert_null(filter_parse(expressions[i], &parsed, &at));
		q.f.shape = SPOOR_DEF_SEQUENCE;
		assert_int_equal(filter_keeps(&parsed, &c, (char *)two, (char *)(two + 3), 0), full[i]);
		assert_int_equal(filter_keeps(&parsed, &c, (char *)&empty, (char *)(&empty + 1), 0), none[i]);
		q.f.shape = SPOOR_DEF_ARRAY;
		q.f.count = 3;
		assert_int_equal(filter_keeps(&parsed, &c, (char *)two, (char *)(two + 3), 0), full[i]);
	}
}

static void test_wrong(void **state)
{
	static const char *const all[] = { "",         " ",        "n ==",    "n = 3", "(n == 3",
					   "n == 3)",  "n == \"x", "n == 3x", "&& n",  "n &&",
					   "!",        "n == 08",  "n == 0x", "1e",    "n == 99999999999999999999",
					   "n == 3 n", "\"\\",     "n == '3'" };
	char deep[200], many[2000] = "n";
	const char *at;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!filter_parse(all[i], &parsed, &at))
			fail_msg("'%s' is taken", all[i]);
	assert_string_equal(filter_parse("n & 1", &parsed, &at),
			    "there are no operators on bits, and no elements of arrays");
	assert_string_equal(filter_parse("n > -5ms", &parsed, &at), "this is no number of at most 64 bits");
	assert_string_equal(at, "-5ms"); /* all of it, and not where it stops to be one */
	memset(deep, '(', sizeof(deep));
	deep[sizeof(deep) - 1] = '\0';
	assert_string_equal(filter_parse(deep, &parsed, &at), "it is nested too deeply");
	for (int i = 0; i < 200; i++)
		strcat(many, "||n");
	assert_string_equal(filter_parse(many, &parsed, &at), "it is too long");
}

static void test_fields_that_are_missing(void **state)
{
	struct class c = { .fields = fields, .fields_size = (uint32_t)n_fields };
	const char *at;
	unsigned from = 0;

	(void)state;
	assert_null(filter_parse("n == 1 && fd == 3 || vpid && path", &parsed, &at));
	assert_string_equal(filter_field_missing(&parsed, &c, &from), "fd");
	from++;
	assert_string_equal(filter_field_missing(&parsed, &c, &from), "path");
	from++;
	assert_null(filter_field_missing(&parsed, &c, &from));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_order_of_operators),
		cmocka_unit_test(test_long_chains),
		cmocka_unit_test(test_hostile_string),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_fields_that_are_missing),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

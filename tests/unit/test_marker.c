/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Formats of markers, and the globs that name events: what the library inside programs makes of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/ust/glob.h"
#include "agent/ust/marker_plan.h"

struct expected {
	const char *name;
	unsigned type, shape, bytes, base, flags;
};

static void check(const char *format, int n_arguments, const struct expected *fields, int n)
{
	struct marker_plan plan;
	char room[4096], *end, *at = room;

	assert_int_equal(marker_parse(format, &plan, room, room + sizeof(room), &end), n);
	assert_int_equal(plan.n, n_arguments);
	for (int i = 0; i < n; i++) {
		const struct spoor_def_field *f = (const void *)at;

		assert_string_equal(at + sizeof(*f), fields[i].name);
		assert_int_equal(f->type, fields[i].type);
		assert_int_equal(f->shape, fields[i].shape);
		assert_int_equal(f->bytes, fields[i].bytes);
		assert_int_equal(f->base, fields[i].base);
		assert_int_equal(f->flags, fields[i].flags);
		assert_int_equal(f->size % 8, 0);
		at += f->size;
	}
	assert_ptr_equal(at, end);
}

static void formats(void **state)
{
	static const struct expected two[] = { { "myint", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
					       { "mystring", SPOOR_DEF_STRING, 0, 1, 10, 0 } };
	static const struct expected sizes[] = {
		{ "a", SPOOR_DEF_INT, 0, 1, 10, SPOOR_DEF_SIGNED },
		{ "b", SPOOR_DEF_INT, 0, 2, 10, 0 },
		{ "c", SPOOR_DEF_INT, 0, 8, 16, 0 },
		{ "d", SPOOR_DEF_INT, 0, 8, 8, 0 },
		{ "e", SPOOR_DEF_POINTER, 0, 8, 16, 0 },
		{ "f", SPOOR_DEF_FLOAT, 0, 8, 10, SPOOR_DEF_SIGNED },
	};
	static const struct expected hints[] = { { "size", SPOOR_DEF_INT, 0, 1, 10, 0 },
						 { "port", SPOOR_DEF_INT, 0, 2, 10, SPOOR_DEF_BIG },
						 { "id", SPOOR_DEF_INT, 0, 4, 16, 0 } };
	static const struct expected names[] = { { "arg1", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
						 { "x", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
						 { "x_3", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
						 { "arg4", SPOOR_DEF_STRING, 0, 1, 10, 0 } };

	static const struct expected bits[] = {
		{ "a", SPOOR_DEF_INT, 0, 4, 2, 0 },
		{ "b", SPOOR_DEF_INT, 0, 8, 2, 0 },
		{ "c", SPOOR_DEF_INT, 0, 1, 10, SPOOR_DEF_SIGNED },
		{ "d", SPOOR_DEF_INT, 0, 2, 16, 0 },
		{ "e", SPOOR_DEF_INT, 0, 4, 10, 0 },
		{ "f", SPOOR_DEF_INT, 0, 8, 10, SPOOR_DEF_SIGNED },
		{ "g", SPOOR_DEF_INT, 0, 1, 10, 0 },
		{ "h", SPOOR_DEF_INT, 0, 8, 10, SPOOR_DEF_SIGNED },
	};

	static const struct expected others[] = {
		{ "open", SPOOR_DEF_STRING, 0, 1, 10, 0 },
		{ "errno", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
		{ "errno_3", SPOOR_DEF_INT, 0, 4, 10, SPOOR_DEF_SIGNED },
		{ "arg4", SPOOR_DEF_INT, 0, 4, 16, 0 },
		{ "last", SPOOR_DEF_INT, 0, 4, 16, 0 },
	};

	(void)state;
	check("myint %d mystring %s", 2, two, 2);
	check("a %hhd b=%hu, c: %lx d %zo e %p f %.3f", 6, sizes, 6);
	check("size #1u%zu port #n2u%u id #4x%lx", 3, hints, 3);
	check("%d x %d x %d %*.*s", 6, names, 4);
	check("a %#b b %lB c %w8d d %w16x e %w32u f %w64i g %wf8u h %wf16d", 8, bits, 8);
	check("100%% of it", 0, NULL, 0);
	check("cannot open %s: %m, error %*.*m, %lc, last %lc", 7, others, 5);
	check("", 0, NULL, 0);
}

/* A wide string is an address, so its precision must not bound the next one. */
static void precisions(void **state)
{
	struct marker_plan plan;
	char room[1024], *end;

	(void)state;
	assert_int_equal(marker_parse("%.*ls %.*s", &plan, room, room + sizeof(room), &end), 2);
	assert_int_equal(plan.arguments[0].pass, PASS_SKIPPED);
	assert_int_equal(plan.arguments[2].pass, PASS_PRECISION);
}

static void wrong_formats(void **state)
{
	static const char *const wrong[] = { "%",    "%y",     "n %n", "%1$d", "x %l", "%-",     "%w",
					     "%w3d", "%w128d", "%w8",  "%w8f", "%wfd", "%w32ld", "%Hf" };
	char room[1024], *end, *many = calloc(1, 1024);
	struct marker_plan plan;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(marker_parse(wrong[i], &plan, room, room + sizeof(room), &end), -EINVAL);
	for (int i = 0; i < 200; i++)
		strcat(many, "%d ");
	assert_int_equal(marker_parse(many, &plan, room, room + sizeof(room), &end), -E2BIG);
	free(many);
}

static void globs(void **state)
{
	(void)state;
	assert_true(globs_match("*", "server:request"));
	assert_true(globs_match("server:*", "server:request"));
	assert_true(globs_match("x,server:re?uest", "server:request"));
	assert_true(globs_match("*a*b*c", "xaxbxbxc"));
	assert_false(globs_match("*a*b*c", "xaxbxbxcd"));
	assert_false(globs_match("server", "server:request"));
	assert_false(globs_match("", "server:request"));
	assert_false(globs_match(",,", "a"));
	/* A pattern that makes a careless matcher take for ever. */
	assert_false(globs_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
				 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats),
		cmocka_unit_test(precisions),
		cmocka_unit_test(wrong_formats),
		cmocka_unit_test(globs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The definitions of an object, which its sites name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/user/sites_internal.h"

#define MANY 100000
#define PATIENCE 30 /* seconds, for what takes some milliseconds; each by each it is minutes */

/* "zoo", "eN", "int n" */
static uint16_t names_of(unsigned n, char *to, size_t room)
{
	return snprintf(to, room, "zoo%ce%u%cint n", 0, n, 0) + 1;
}

static void add(struct site_definitions *to, unsigned n, uint8_t level, const char *fields)
{
	struct site_definition *d;
	char names[64];

	if (!(to->n & (to->n - 1))) { /* each doubling */
		to->list = reallocarray(to->list, to->n ? 2 * to->n : 1, sizeof(*to->list));
		assert_non_null(to->list);
	}
	d = &to->list[to->n];
	*d = (struct site_definition){ .level = level, .fields = strdup(fields), .order = to->n };
	d->size = names_of(n, names, sizeof(names));
	d->names = malloc(d->size);
	memcpy(d->names, names, d->size);
	to->n++;
	to->sorted = false;
}

static void check(struct site_definitions *all, unsigned n, uint8_t level, const char *fields)
{
	char names[64], found[64];
	uint16_t size = names_of(n, names, sizeof(names));
	uint8_t at;

	spoor_site_definition_find(all, names, size, &at, found, sizeof(found));
	assert_int_equal(at, level);
	assert_string_equal(found, fields);
}

/* Of those that are called the same it is the first one; of what is not there the arguments are known. */
static void test_found(void **state)
{
	struct site_definitions all = {};

	check(&all, 1, UINT8_MAX, "int n");
	add(&all, 7, 3, "s32 first");
	add(&all, 5, 4, "s32 other");
	add(&all, 7, 5, "s32 second");
	add(&all, 1000, 6, "s32 longer");
	check(&all, 7, 3, "s32 first");
	check(&all, 5, 4, "s32 other");
	check(&all, 1000, 6, "s32 longer");
	check(&all, 6, UINT8_MAX, "int n");
	add(&all, 6, 7, "s32 late");
	check(&all, 6, 7, "s32 late");
	check(&all, 7, 3, "s32 first");
	spoor_site_definitions_done(&all);
}

/* As many as a file may have, and sites of all of them. */
static void test_many(void **state)
{
	struct site_definitions all = {};

	for (unsigned i = 0; i < MANY; i++)
		add(&all, i, i % 15, "s32 n");
	alarm(PATIENCE);
	for (unsigned i = 0; i < 2 * MANY; i++)
		check(&all, i, i < MANY ? i % 15 : UINT8_MAX, i < MANY ? "s32 n" : "int n");
	alarm(0);
	spoor_site_definitions_done(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

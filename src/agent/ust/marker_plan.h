/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* What the arguments of a marker are, in their order, and how each is stored. */
#include "agent/core/arena.h"
#include "agent/core/sys.h"

#define MARKER_MAX_FIELDS 64

enum marker_pass { /* how it is passed */
	PASS_INT,
	PASS_LONG, /* long, long long, size_t, intmax_t, ptrdiff_t, pointers: 8 bytes */
	PASS_DOUBLE,
	PASS_LONG_DOUBLE,
	PASS_STRING,
	PASS_PRECISION, /* an int that bounds the string that follows; not stored */
	PASS_SKIPPED,   /* an int that is only about looks */
	PASS_ERRNO,     /* not at all: it is the thread's */
};

struct marker_argument {
	uint8_t pass;  /* enum marker_pass */
	uint8_t passed, is_signed; /* of integers: bytes that the conversion speaks of */
	uint8_t bytes; /* stored */
	uint8_t swap;  /* in network order */
	int32_t precision; /* of a string: at most so many bytes; -1: no bound */
};

struct marker_plan {
	uint32_t n;
	struct marker_argument arguments[MARKER_MAX_FIELDS];
};

/*
 * Fields are named by the word before their conversion ("myint %d"), or argN; `#` hints say how an integer is stored:
 * "#1u%zu" in one byte, "#n2u%u" two bytes in network order. Writes definitions of fields to `at`.
 * The number of fields or -EINVAL, -E2BIG.
 */
int marker_parse(const char *format, struct marker_plan *ret, char *at, const char *end, char **ret_end);

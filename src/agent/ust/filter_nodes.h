/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* A compiled filter: a tree in an array. */
#include <stdint.h>

#define FILTER_MAX_NODES 128
#define FILTER_MAX_DEPTH 32

enum filter_op {
	FILTER_OR,
	FILTER_AND,
	FILTER_NOT,
	FILTER_EQ,
	FILTER_NE,
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	FILTER_FIELD,   /* text: its name */
	FILTER_INTEGER,
	FILTER_REAL,
	FILTER_STRING,
};

struct filter_node {
	uint8_t op; /* enum filter_op */
	uint8_t left, right;
	uint16_t text; /* where in the filter's text */
	__int128 integer;
	double real;
};

struct filter {
	uint8_t root;
	unsigned n, n_text;
	struct filter_node nodes[FILTER_MAX_NODES];
	char text[1024];
};

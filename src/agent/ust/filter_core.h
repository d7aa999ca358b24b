/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Filters: which events are kept, by their fields. This is the one definition of the language (docs/ust.md tells it to
 * users) and its one parser: the library compiles filters with it, and recorders refuse with it what is none.
 *
 *	or:          and { "||" and }
 *	and:         not { "&&" not }
 *	not:         "!" not | "(" or ")" | comparison
 *	comparison:  operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") operand ]     alone: not 0, not empty
 *	operand:     field | number | "string"        field: letters, digits, _       number: 3  -1  0x10  017  1.5  1e3
 *
 * In a string left or right of == and != `*` and `?` stand for any characters; \ takes a character as it is.
 *
 * Compiled, a filter is its comparisons, each with the one that is next if it holds and if it does not: no stack is
 * needed to run it, and none is looked at twice.
 *
 *	a == 1 && (b == 2 || c == 3)        [a == 1] --yes--> [b == 2] --no--> [c == 3] --no--> FILTER_NO
 *	                                        |no               |yes             |yes
 *	                                        v                 v                v
 *	                                    FILTER_NO         FILTER_YES       FILTER_YES
 *
 * Nothing here allocates or calls what a signal handler may not.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FILTER_MAX_NODES 120
#define FILTER_MAX_DEPTH 32
#define FILTER_MAX_TEXT 1024
#define FILTER_YES 254 /* in place of a node's number: the event is kept, or not */
#define FILTER_NO 255
#define FILTER_ANY '\1' /* what wildcards are in a filter's text */
#define FILTER_ONE '\2'

enum filter_op {
	FILTER_OR,
	FILTER_AND,
	FILTER_NOT,
	FILTER_TRUE, /* left alone */
	FILTER_EQ,
	FILTER_NE,
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	FILTER_FIELD, /* text: its name */
	FILTER_INTEGER,
	FILTER_REAL,
	FILTER_STRING,
};

struct filter_node {
	uint8_t op;            /* enum filter_op */
	uint8_t left, right;   /* operands */
	uint8_t yes, no;       /* of comparisons: the next */
	uint16_t text, length; /* where in the filter's text */
	union {
		__int128 integer;
		double real;
	};
};

struct filter {
	uint8_t first; /* comparison */
	uint16_t n, n_text;
	struct filter_node nodes[FILTER_MAX_NODES];
	char text[FILTER_MAX_TEXT];
};

struct filter_parser {
	const char *at;
	const char *wrong; /* what, once something was */
	struct filter *f;
	unsigned depth;
};

static inline int filter_parse_or_(struct filter_parser *p);

static inline int filter_fail_(struct filter_parser *p, const char *what)
{
	if (!p->wrong)
		p->wrong = what;
	return -1;
}

static inline int filter_add_(struct filter_parser *p, struct filter_node n)
{
	if (p->f->n >= FILTER_MAX_NODES)
		return filter_fail_(p, "it is too long");
	p->f->nodes[p->f->n] = n;
	return p->f->n++;
}

static inline bool filter_is_digit_(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool filter_is_word_(char c)
{
	return filter_is_digit_(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline void filter_space_(struct filter_parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
		p->at++;
}

static inline bool filter_accept_(struct filter_parser *p, const char *token)
{
	filter_space_(p);
	if (strncmp(p->at, token, strlen(token)))
		return false;
	p->at += strlen(token);
	return true;
}

static inline bool filter_put_(struct filter_parser *p, char c)
{
	if (p->f->n_text >= FILTER_MAX_TEXT)
		return filter_fail_(p, "it is too long") >= 0;
	p->f->text[p->f->n_text++] = c;
	return true;
}

static inline int filter_parse_string_(struct filter_parser *p)
{
	struct filter_node n = { .op = FILTER_STRING, .text = p->f->n_text };

	for (p->at++; *p->at != '"'; p->at++) {
		char c = *p->at;

		if (c == '\\' && p->at[1])
			c = *++p->at;
		else if (c == '*' || c == '?')
			c = c == '*' ? FILTER_ANY : FILTER_ONE;
		if (!c)
			return filter_fail_(p, "a string does not end");
		if (!filter_put_(p, c))
			return -1;
	}
	p->at++;
	n.length = (uint16_t)(p->f->n_text - n.text);
	return filter_put_(p, 0) ? filter_add_(p, n) : -1;
}

static inline int filter_digit_(char c, int base)
{
	int d = filter_is_digit_(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 16;

	return d < base ? d : -1;
}

/* 10 to the power of n; what is beyond a double's range becomes 0 or infinity. */
static inline long double filter_scale_(long double value, int n)
{
	for (; n > 0 && value <= 1e4900L; n--)
		value *= 10;
	for (; n < 0 && value != 0; n++)
		value /= 10;
	return value;
}

/* Behind a decimal's digits: its fraction and exponent. */
static inline bool filter_parse_real_(struct filter_parser *p, const char *from, double *ret)
{
	long double value = 0, scale = 1;
	const char *at = from;
	int exponent = 0;

	for (; filter_is_digit_(*at); at++)
		value = value * 10 + (*at - '0');
	if (*at == '.' && filter_is_digit_(at[1]))
		for (at++; filter_is_digit_(*at); at++, scale *= 10)
			value = value * 10 + (*at - '0');
	if ((*at | 32) == 'e') {
		bool down = at[1] == '-';

		at += 1 + (at[1] == '-' || at[1] == '+');
		if (!filter_is_digit_(*at))
			return false;
		for (; filter_is_digit_(*at); at++)
			exponent = exponent < 10000 ? exponent * 10 + (*at - '0') : exponent;
		exponent = down ? -exponent : exponent;
	}
	*ret = (double)filter_scale_(value / scale, exponent);
	p->at = at;
	return true;
}

static inline bool filter_parse_integer_(struct filter_parser *p, uint64_t *ret)
{
	int base = 10;

	if (*p->at == '0' && (p->at[1] | 32) == 'x') {
		base = 16;
		p->at += 2;
	} else if (*p->at == '0') {
		base = 8;
	}
	if (filter_digit_(*p->at, base) < 0)
		return false;
	for (*ret = 0; filter_digit_(*p->at, base) >= 0; p->at++)
		if (__builtin_mul_overflow(*ret, (uint64_t)base, ret) ||
		    __builtin_add_overflow(*ret, (uint64_t)filter_digit_(*p->at, base), ret))
			return false;
	return true;
}

static inline bool filter_is_real_(const char *at)
{
	while (filter_is_digit_(*at))
		at++;
	return (*at == '.' && filter_is_digit_(at[1])) || (*at | 32) == 'e';
}

static inline int filter_parse_number_(struct filter_parser *p)
{
	struct filter_node n = { .op = FILTER_INTEGER };
	const char *from = p->at;
	bool negative = *from == '-', good;
	uint64_t integer = 0;
	double real = 0;

	p->at += negative;
	if (filter_is_real_(p->at)) {
		good = filter_parse_real_(p, p->at, &real);
		n.op = FILTER_REAL;
		n.real = negative ? -real : real;
	} else {
		good = filter_parse_integer_(p, &integer);
		n.integer = negative ? -(__int128)integer : (__int128)integer;
	}
	if (!good || filter_is_word_(*p->at)) {
		p->at = from;
		return filter_fail_(p, "this is no number of at most 64 bits");
	}
	return filter_add_(p, n);
}

static inline int filter_parse_operand_(struct filter_parser *p)
{
	struct filter_node n = { .op = FILTER_FIELD, .text = p->f->n_text };

	filter_space_(p);
	if (*p->at == '"')
		return filter_parse_string_(p);
	if (filter_is_digit_(*p->at) || *p->at == '-')
		return filter_parse_number_(p);
	for (; filter_is_word_(*p->at); p->at++)
		if (!filter_put_(p, *p->at))
			return -1;
	n.length = (uint16_t)(p->f->n_text - n.text);
	if (!n.length)
		return filter_fail_(p, *p->at ? "a field, number or string is expected" : "it ends too early");
	return filter_put_(p, 0) ? filter_add_(p, n) : -1;
}

static inline int filter_parse_comparison_(struct filter_parser *p)
{
	static const struct {
		char token[3];
		uint8_t op;
	} all[] = { { "==", FILTER_EQ }, { "!=", FILTER_NE }, { "<=", FILTER_LE },
		    { ">=", FILTER_GE }, { "<", FILTER_LT },  { ">", FILTER_GT } };
	int left = filter_parse_operand_(p), right;
	unsigned i;

	for (i = 0; left >= 0 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (!filter_accept_(p, all[i].token))
			continue;
		right = filter_parse_operand_(p);
		if (right < 0)
			return -1;
		return filter_add_(
			p, (struct filter_node){ .op = all[i].op, .left = (uint8_t)left, .right = (uint8_t)right });
	}
	return left < 0 ? -1 : filter_add_(p, (struct filter_node){ .op = FILTER_TRUE, .left = (uint8_t)left });
}

static inline int filter_parse_not_(struct filter_parser *p)
{
	int inner;

	if (p->depth > FILTER_MAX_DEPTH)
		return filter_fail_(p, "it is nested too deeply");
	p->depth++;
	filter_space_(p);
	if (*p->at == '!' && p->at[1] != '=') {
		p->at++;
		inner = filter_parse_not_(p);
		if (inner >= 0)
			inner = filter_add_(p, (struct filter_node){ .op = FILTER_NOT, .left = (uint8_t)inner });
	} else if (filter_accept_(p, "(")) {
		inner = filter_parse_or_(p);
		if (inner >= 0 && !filter_accept_(p, ")"))
			inner = filter_fail_(p, "a parenthesis is missing");
	} else {
		inner = filter_parse_comparison_(p);
	}
	p->depth--;
	return inner;
}

static inline int filter_parse_chain_(struct filter_parser *p, const char *token, enum filter_op op,
				      int (*part)(struct filter_parser *p))
{
	int left = part(p);

	while (left >= 0 && filter_accept_(p, token)) {
		int right = part(p);

		if (right < 0)
			return -1;
		left = filter_add_(
			p, (struct filter_node){ .op = (uint8_t)op, .left = (uint8_t)left, .right = (uint8_t)right });
	}
	return left;
}

static inline int filter_parse_and_(struct filter_parser *p)
{
	return filter_parse_chain_(p, "&&", FILTER_AND, filter_parse_not_);
}

static inline int filter_parse_or_(struct filter_parser *p)
{
	return filter_parse_chain_(p, "||", FILTER_OR, filter_parse_and_);
}

/* Tells the comparisons below a node where to go on; returns the first of them. As deep as there are nodes. */
static inline uint8_t filter_link_(struct filter *f, uint8_t i, uint8_t yes, uint8_t no)
{
	struct filter_node *n = &f->nodes[i];

	switch (n->op) {
	case FILTER_OR:
		return filter_link_(f, n->left, yes, filter_link_(f, n->right, yes, no));
	case FILTER_AND:
		return filter_link_(f, n->left, filter_link_(f, n->right, yes, no), no);
	case FILTER_NOT:
		return filter_link_(f, n->left, no, yes);
	default:
		n->yes = yes;
		n->no = no;
		return i;
	}
}

/* NULL, or what is wrong; then *ret_at is where. */
static inline const char *filter_parse(const char *expression, struct filter *ret, const char **ret_at)
{
	struct filter_parser p = { .at = expression, .f = ret };
	int root;

	ret->n = ret->n_text = 0;
	root = filter_parse_or_(&p);
	filter_space_(&p);
	*ret_at = p.at;
	if (root >= 0 && *p.at)
		return strchr("&|^[", *p.at) ? "there are no operators on bits, and no elements of arrays" :
					       "there is more than an expression";
	if (root < 0)
		return p.wrong;
	ret->first = filter_link_(ret, (uint8_t)root, FILTER_YES, FILTER_NO);
	return NULL;
}

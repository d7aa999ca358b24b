/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ust/filter.h"
#include "agent/ust/filter_nodes.h"

struct parser {
	const char *at;
	const char *wrong; /* what, once something was */
	struct filter *f;
	unsigned depth;
};

static int parse_or(struct parser *p);

static int add(struct parser *p, struct filter_node n)
{
	if (p->f->n >= FILTER_MAX_NODES) {
		p->wrong = "it is too long";
		return -1;
	}
	p->f->nodes[p->f->n] = n;
	return (int)p->f->n++;
}

static void space(struct parser *p)
{
	p->at += strspn(p->at, " \t\n");
}

static bool accept(struct parser *p, const char *token)
{
	space(p);
	if (strncmp(p->at, token, strlen(token)))
		return false;
	p->at += strlen(token);
	return true;
}

/* Texts are kept in the filter: a name, or a string without its quotes and with escapes undone. */
static int add_text(struct parser *p, enum filter_op op, const char *from, size_t n)
{
	struct filter *f = p->f;
	struct filter_node node = { .op = op, .text = (uint16_t)f->n_text };
	size_t i;

	if (n + 1 > sizeof(f->text) - f->n_text) {
		p->wrong = "it is too long";
		return -1;
	}
	for (i = 0; i < n; i++) {
		if (op == FILTER_STRING && from[i] == '\\' && i + 1 < n)
			i++;
		f->text[f->n_text++] = from[i];
	}
	f->text[f->n_text++] = 0;
	return add(p, node);
}

static int parse_string(struct parser *p)
{
	const char *from = ++p->at;

	while (*p->at && *p->at != '"')
		p->at += *p->at == '\\' && p->at[1] ? 2 : 1;
	if (!*p->at) {
		p->wrong = "a string does not end";
		return -1;
	}
	return add_text(p, FILTER_STRING, from, (size_t)(p->at++ - from));
}

static int parse_number(struct parser *p)
{
	struct filter_node n = { .op = FILTER_INTEGER };
	char *end, *real_end;
	double real = strtod(p->at, &real_end);
	bool negative = *p->at == '-';

	errno = 0;
	n.integer = (__int128)strtoull(p->at + negative, &end, 0);
	if (negative)
		n.integer = -n.integer;
	if (errno || end == p->at + negative) {
		p->wrong = "a number is none";
		return -1;
	}
	if (real_end > end) { /* 1.5, 1e3 */
		n.op = FILTER_REAL;
		n.real = real;
		end = real_end;
	}
	p->at = end;
	return add(p, n);
}

static int parse_operand(struct parser *p)
{
	const char *from;

	space(p);
	from = p->at;
	if (*from == '"')
		return parse_string(p);
	if (isdigit((unsigned char)*from) || *from == '-')
		return parse_number(p);
	while (isalnum((unsigned char)*p->at) || *p->at == '_')
		p->at++;
	if (p->at == from) {
		p->wrong = *from ? "a field, number or string is expected" : "it ends too early";
		return -1;
	}
	return add_text(p, FILTER_FIELD, from, (size_t)(p->at - from));
}

static int parse_comparison(struct parser *p)
{
	static const struct {
		const char *token;
		enum filter_op op;
	} all[] = { { "==", FILTER_EQ }, { "!=", FILTER_NE }, { "<=", FILTER_LE },
		    { ">=", FILTER_GE }, { "<", FILTER_LT },  { ">", FILTER_GT } };
	int left = parse_operand(p), right;
	unsigned i;

	for (i = 0; left >= 0 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (!accept(p, all[i].token))
			continue;
		right = parse_operand(p);
		if (right < 0)
			return -1;
		return add(p, (struct filter_node){ .op = all[i].op, .left = (uint8_t)left, .right = (uint8_t)right });
	}
	return left; /* alone: not 0, not empty */
}

static int parse_not(struct parser *p)
{
	int inner;

	if (p->depth > FILTER_MAX_DEPTH) {
		p->wrong = "it is nested too deeply";
		return -1;
	}
	p->depth++;
	space(p);
	if (*p->at == '!' && p->at[1] != '=') {
		p->at++;
		inner = parse_not(p);
		if (inner >= 0)
			inner = add(p, (struct filter_node){ .op = FILTER_NOT, .left = (uint8_t)inner });
	} else if (accept(p, "(")) {
		inner = parse_or(p);
		if (inner >= 0 && !accept(p, ")")) {
			p->wrong = "a parenthesis is missing";
			inner = -1;
		}
	} else {
		inner = parse_comparison(p);
	}
	p->depth--;
	return inner;
}

static int parse_chain(struct parser *p, const char *token, enum filter_op op, int (*part)(struct parser *p))
{
	int left = part(p);

	while (left >= 0 && accept(p, token)) {
		int right = part(p);

		if (right < 0)
			return -1;
		left = add(p, (struct filter_node){ .op = op, .left = (uint8_t)left, .right = (uint8_t)right });
	}
	return left;
}

static int parse_and(struct parser *p)
{
	return parse_chain(p, "&&", FILTER_AND, parse_not);
}

static int parse_or(struct parser *p)
{
	return parse_chain(p, "||", FILTER_OR, parse_and);
}

int filter_compile(const char *expression, const struct filter **ret, char *text, unsigned size)
{
	struct filter *f = keep(sizeof(*f));
	struct parser p = { .at = expression, .f = f };
	int root;

	if (!f)
		return -ENOMEM;
	root = parse_or(&p);
	space(&p);
	if (root >= 0 && *p.at) {
		p.wrong = "there is more than an expression";
		root = -1;
	}
	if (root >= 0) {
		f->root = (uint8_t)root;
		*ret = f;
		return 0;
	}
	if (size) {
		strncpy(text, p.wrong ?: "it is not understood", size - 1);
		text[size - 1] = 0;
	}
	return -EINVAL;
}

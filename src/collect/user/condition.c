/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/condition.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES 64
#define DEEPEST 16
#define MOST_TEXT 128

enum node_kind { NODE_AND, NODE_OR, NODE_NOT, NODE_NUMBER, NODE_STRING };
enum comparison { IS_EQUAL, IS_NOT, IS_LESS, IS_AT_MOST, IS_GREATER, IS_AT_LEAST };

struct node {
	enum node_kind kind;
	int left, right; /* AND, OR; NOT: left */
	enum comparison how;
	char field[64];
	char text[MOST_TEXT];
	double number;
	int64_t integer;
	bool is_integer;
	const struct spoor_event_class *class; /* for which `index` is the field's */
	int index;
};

struct spoor_condition {
	struct node nodes[MOST_NODES];
	int n, root;
};

/* ---- parsing: recursive descent ---- */

struct parser {
	struct spoor_condition *c;
	const char *at, *all;
	int depth;
	struct spoor_error *e;
};

static int parse_or(struct parser *p);

static int fail(struct parser *p, const char *what)
{
	return spoor_fail(p->e, EINVAL, "--filter: %s at '%.40s'", what, *p->at ? p->at : "the end");
}

static void skip(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool take(struct parser *p, const char *word)
{
	size_t n = strlen(word);

	skip(p);
	if (strncmp(p->at, word, n))
		return false;
	p->at += n;
	return true;
}

static int new_node(struct parser *p, enum node_kind kind, int left, int right)
{
	if (p->c->n == MOST_NODES)
		return fail(p, "too many comparisons");
	p->c->nodes[p->c->n] = (struct node){ .kind = kind, .left = left, .right = right };
	return p->c->n++;
}

static int parse_field(struct parser *p, char *to, size_t size)
{
	size_t n = 0;

	skip(p);
	while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
		n++;
	if (!n || isdigit((unsigned char)*p->at) || n >= size)
		return fail(p, "a field's name is expected");
	memcpy(to, p->at, n);
	to[n] = '\0';
	p->at += n;
	return 0;
}

static int parse_string(struct parser *p, struct node *node)
{
	size_t n = 0;

	for (p->at++; *p->at && *p->at != '"'; p->at++) {
		if (*p->at == '\\' && p->at[1])
			node->text[n++] = *p->at++;
		if (n >= sizeof(node->text) - 2)
			return fail(p, "a string that is too long");
		node->text[n++] = *p->at;
	}
	if (*p->at != '"')
		return fail(p, "a string without end");
	p->at++;
	node->kind = NODE_STRING;
	return node->how == IS_EQUAL || node->how == IS_NOT ? 0 : fail(p, "strings are compared by == and != only");
}

static int parse_number(struct parser *p, struct node *node)
{
	char *integer_end, *end;

	errno = 0;
	node->integer = *p->at == '-' ? strtoll(p->at, &integer_end, 0) : (int64_t)strtoull(p->at, &integer_end, 0);
	node->is_integer = !errno;
	node->number = strtod(p->at, &end);
	if (end == p->at)
		return fail(p, "a number or a \"string\" is expected");
	if (end > integer_end)
		node->is_integer = false;
	p->at = end;
	return isalnum((unsigned char)*p->at) ? fail(p, "a number that is none") : 0;
}

static int parse_comparison(struct parser *p)
{
	static const struct {
		const char *word;
		enum comparison how;
	} words[] = { { "==", IS_EQUAL },   { "!=", IS_NOT },       { "<=", IS_AT_MOST },
		      { ">=", IS_AT_LEAST }, { "<", IS_LESS },       { ">", IS_GREATER } };
	int n = new_node(p, NODE_NUMBER, -1, -1), r;
	unsigned i = 0;
	struct node *node;

	if (n < 0)
		return n;
	node = &p->c->nodes[n];
	r = parse_field(p, node->field, sizeof(node->field));
	if (r)
		return r;
	while (i < 6 && !take(p, words[i].word))
		i++;
	if (i == 6)
		return fail(p, "==, !=, <, <=, > or >= is expected");
	node->how = words[i].how;
	skip(p);
	r = *p->at == '"' ? parse_string(p, node) : parse_number(p, node);
	return r ? r : n;
}

static int parse_unary(struct parser *p)
{
	int n;

	if (p->depth == DEEPEST)
		return fail(p, "too many parentheses");
	p->depth++;
	skip(p);
	if (*p->at == '!' && p->at[1] != '=') {
		p->at++;
		n = parse_unary(p);
		n = n < 0 ? n : new_node(p, NODE_NOT, n, -1);
	} else if (take(p, "(")) {
		n = parse_or(p);
		if (n >= 0 && !take(p, ")"))
			n = fail(p, "a parenthesis is not closed");
	} else {
		n = parse_comparison(p);
	}
	p->depth--;
	return n;
}

static int parse_and(struct parser *p)
{
	int n = parse_unary(p);

	while (n >= 0 && take(p, "&&")) {
		int right = parse_unary(p);

		n = right < 0 ? right : new_node(p, NODE_AND, n, right);
	}
	return n;
}

static int parse_or(struct parser *p)
{
	int n = parse_and(p);

	while (n >= 0 && take(p, "||")) {
		int right = parse_and(p);

		n = right < 0 ? right : new_node(p, NODE_OR, n, right);
	}
	return n;
}

int spoor_condition_parse(const char *text, struct spoor_condition **ret, struct spoor_error *e)
{
	struct spoor_condition *c = calloc(1, sizeof(*c));
	struct parser p = { .c = c, .at = text, .all = text, .e = e };

	if (!c)
		return spoor_fail(e, ENOMEM, "out of memory");
	c->root = parse_or(&p);
	skip(&p);
	if (c->root >= 0 && *p.at)
		c->root = fail(&p, "nothing more is expected");
	if (c->root < 0) {
		free(c);
		return -EINVAL;
	}
	*ret = c;
	return 0;
}

void spoor_condition_free(struct spoor_condition *c)
{
	free(c);
}

/* ---- evaluating ---- */

static bool decide(enum comparison how, int order)
{
	switch (how) {
	case IS_EQUAL:
		return !order;
	case IS_NOT:
		return order;
	case IS_LESS:
		return order < 0;
	case IS_AT_MOST:
		return order <= 0;
	case IS_GREATER:
		return order > 0;
	case IS_AT_LEAST:
		return order >= 0;
	}
	return false;
}

static bool compare_number(const struct node *n, const struct spoor_value *v)
{
	const struct spoor_class_field *f = v->field;
	uint64_t u;
	int64_t s;
	double d;

	if (f->shape != SPOOR_SHAPE_SCALAR || f->type == SPOOR_VALUE_STRING || f->type == SPOOR_VALUE_TEXT)
		return false;
	u = spoor_value_integer(v, 0);
	s = u;
	if (f->type == SPOOR_VALUE_FLOAT || !n->is_integer) {
		d = f->type == SPOOR_VALUE_FLOAT ? spoor_value_double(v, 0) : f->type == SPOOR_VALUE_SIGNED ? s : u;
		return d == d && decide(n->how, d < n->number ? -1 : d > n->number);
	}
	if (f->type == SPOOR_VALUE_SIGNED)
		return decide(n->how, s < n->integer ? -1 : s > n->integer);
	if (n->number < 0)
		return decide(n->how, 1);
	return decide(n->how, u < (uint64_t)n->integer ? -1 : u > (uint64_t)n->integer);
}

static bool compare_string(const struct node *n, const struct spoor_value *v)
{
	char text[4096];
	const char *label = v->field->n_values ? spoor_value_label(v) : NULL;
	size_t len = v->n < sizeof(text) - 1 ? v->n : sizeof(text) - 1;
	bool is_text = v->field->type == SPOOR_VALUE_STRING ||
		       (v->field->type == SPOOR_VALUE_TEXT && v->field->shape != SPOOR_SHAPE_SCALAR);

	if (!label && !is_text)
		return false;
	if (!label) {
		memcpy(text, v->bytes, len);
		text[len] = '\0';
	}
	return decide(n->how, fnmatch(n->text, label ? label : text, 0));
}

static bool compare(struct node *n, const struct spoor_event_class *class, const struct spoor_value *values)
{
	if (n->class != class) {
		n->index = spoor_class_find(class, n->field, 0);
		if (n->index < 0)
			n->index = spoor_class_find(class, n->field, 1);
		n->class = class;
	}
	if (n->index < 0)
		return false;
	return n->kind == NODE_STRING ? compare_string(n, &values[n->index]) : compare_number(n, &values[n->index]);
}

static bool holds(struct spoor_condition *c, int i, const struct spoor_event_class *class,
		  const struct spoor_value *values)
{
	struct node *n = &c->nodes[i];

	switch (n->kind) {
	case NODE_AND:
		return holds(c, n->left, class, values) && holds(c, n->right, class, values);
	case NODE_OR:
		return holds(c, n->left, class, values) || holds(c, n->right, class, values);
	case NODE_NOT:
		return !holds(c, n->left, class, values);
	default:
		return compare(n, class, values);
	}
}

bool spoor_condition_holds(struct spoor_condition *c, const struct spoor_event_class *class,
			   const struct spoor_event_header *h)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];

	spoor_class_values(class, h, values);
	return holds(c, c->root, class, values);
}

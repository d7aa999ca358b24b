/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "agent/core/clock.h"
#include "agent/core/reserve.h"
#include "agent/ust/callstack.h"
#include "agent/ust/context.h"
#include "agent/ust/filter.h"
#include "agent/ust/filter_nodes.h"
#include "agent/ust/glob.h"
#include <spoor/record.h>

enum value_kind { NONE, INTEGER, REAL, STRING };
struct value {
	enum value_kind kind;
	__int128 integer;
	double real;
	const char *string; /* ends with a NUL */
};

struct event {
	const struct filter *f;
	const char *fields; /* definitions: the channel's, then the class's */
	const char *more;
	size_t n_fields, n_more; /* bytes */
	const char *body, *end;
};

static struct value number(const struct spoor_def_field *f, const char *at)
{
	struct value v = { .kind = INTEGER };
	uint64_t bits = 0;
	float small;

	memcpy(&bits, at, f->bytes);
	if (f->type == SPOOR_DEF_FLOAT) {
		v.kind = REAL;
		memcpy(&small, at, sizeof(small));
		memcpy(&v.real, &bits, sizeof(v.real));
		if (f->bytes == 4)
			v.real = (double)small;
		return v;
	}
	if (f->flags & SPOOR_DEF_BIG)
		bits = __builtin_bswap64(bits) >> (64 - 8 * f->bytes);
	v.integer = bits;
	if (f->flags & SPOOR_DEF_SIGNED)
		v.integer = (int64_t)(bits << (64 - 8 * f->bytes)) >> (64 - 8 * f->bytes);
	return v;
}

/* Bytes of a field that stands at `at`. */
static size_t length(const struct spoor_def_field *f, const char *at, const char *end)
{
	uint16_t n;

	if (f->type == SPOOR_DEF_STRING)
		return strnlen(at, (size_t)(end - at)) + 1;
	if (f->shape == SPOOR_DEF_ARRAY)
		return (size_t)f->count * f->bytes;
	if (f->shape != SPOOR_DEF_SEQUENCE)
		return f->bytes;
	memcpy(&n, at, sizeof(n));
	return sizeof(n) + (size_t)n * f->bytes;
}

/* Looks in one list of definitions; *at goes along the body. */
static struct value look_up(const char *fields, size_t size, const char *name, const char **at, const char *end)
{
	const char *stop = fields + size;

	while (fields < stop && *at < end) {
		struct spoor_def_field f;

		memcpy(&f, fields, sizeof(f));
		if (!strcmp(fields + sizeof(f), name)) {
			if (f.type == SPOOR_DEF_STRING)
				return (struct value){ .kind = STRING, .string = *at };
			return f.shape ? (struct value){ .kind = NONE } : number(&f, *at);
		}
		*at += length(&f, *at, end);
		fields += f.size;
	}
	return (struct value){ .kind = NONE };
}

static struct value value_of(const struct event *e, const struct filter_node *n)
{
	const char *text = e->f->text + n->text, *at = e->body;
	struct value v;

	switch (n->op) {
	case FILTER_INTEGER:
		return (struct value){ .kind = INTEGER, .integer = n->integer };
	case FILTER_REAL:
		return (struct value){ .kind = REAL, .real = n->real };
	case FILTER_STRING:
		return (struct value){ .kind = STRING, .string = text };
	default:
		v = look_up(e->fields, e->n_fields, text, &at, e->end);
		return v.kind ? v : look_up(e->more, e->n_more, text, &at, e->end);
	}
}

static bool holds(unsigned op, int order)
{
	switch (op) {
	case FILTER_EQ:
		return order == 0;
	case FILTER_NE:
		return order != 0;
	case FILTER_LT:
		return order < 0;
	case FILTER_LE:
		return order <= 0;
	case FILTER_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

static bool compare(unsigned op, const struct value *a, const struct value *b)
{
	double x, y;

	if (!a->kind || !b->kind || (a->kind == STRING) != (b->kind == STRING))
		return false;
	if (a->kind == STRING) {
		if (op == FILTER_EQ || op == FILTER_NE)
			return glob_matches(b->string, strlen(b->string), a->string) == (op == FILTER_EQ);
		return holds(op, strcmp(a->string, b->string));
	}
	if (a->kind == INTEGER && b->kind == INTEGER)
		return holds(op, (a->integer > b->integer) - (a->integer < b->integer));
	x = a->kind == REAL ? a->real : (double)a->integer;
	y = b->kind == REAL ? b->real : (double)b->integer;
	if (x != x || y != y)
		return op == FILTER_NE; /* not a number */
	return holds(op, (x > y) - (x < y));
}

static bool is_true(const struct value *v)
{
	switch (v->kind) {
	case INTEGER:
		return v->integer != 0;
	case REAL:
		return v->real != 0;
	case STRING:
		return *v->string != 0;
	default:
		return false;
	}
}

/* As deep as FILTER_MAX_DEPTH and chains allow; the parser made it, so it ends. */
static bool evaluate(const struct event *e, unsigned node)
{
	const struct filter_node *n = &e->f->nodes[node];
	struct value a, b;

	switch (n->op) {
	case FILTER_OR:
		return evaluate(e, n->left) || evaluate(e, n->right);
	case FILTER_AND:
		return evaluate(e, n->left) && evaluate(e, n->right);
	case FILTER_NOT:
		return !evaluate(e, n->left);
	case FILTER_FIELD:
	case FILTER_INTEGER:
	case FILTER_REAL:
	case FILTER_STRING:
		a = value_of(e, n);
		return is_true(&a);
	default:
		a = value_of(e, &e->f->nodes[n->left]);
		b = value_of(e, &e->f->nodes[n->right]);
		return compare(n->op, &a, &b);
	}
}

bool filter_keeps(const struct filter *f, uint32_t contexts, const struct class *c, const char *body, const char *end)
{
	char fields[CONTEXT_FIELDS_SIZE], *stop;
	unsigned n;
	struct event e = {
		.f = f, .fields = fields, .more = c->fields, .n_more = c->fields_size, .body = body, .end = end
	};

	stop = context_fields(contexts, fields, fields + sizeof(fields), &n);
	e.n_fields = stop ? (size_t)(stop - fields) : 0;
	return evaluate(&e, f->root);
}

struct spoor_handle reserve_filtered(struct spoor_tracepoint *tp, size_t size)
{
	struct caller caller = CALLER_();
	struct spoor_handle h;

	if (slots[tp_slot(tp)].channel->contexts)
		h = reserve_with_contexts_from(tp, size, &caller);
	else
		h = clock_kind() == SPOOR_ARENA_TSC ? reserve_tsc(tp, size) : reserve_monotonic(tp, size);
	h.producer = NULL; /* so that committing asks us */
	return h;
}

void commit_filtered(struct spoor_tracepoint *tp, char *at, size_t size)
{
	const struct class *c = tp->agent;
	const struct filter *f = c->filter;
	char *begin = reserved_from(tp, at);

	if (!begin)
		return; /* taken back meanwhile, or of the process that this one was forked from */
	reserved_done(
		tp, at, size,
		!f || filter_keeps(f, slots[tp_slot(tp)].channel->contexts, c, begin + SPOOR_RECORD_HEAD_, at + size));
}

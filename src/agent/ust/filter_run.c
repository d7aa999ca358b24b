/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Running a filter: no recursion, no call of libc, and an end, whatever the event's strings are. */
#include <string.h>
#include <sys/prctl.h>

#include "agent/core/process.h"
#include "agent/ust/context.h"
#include "agent/ust/filter.h"
#include "agent/ust/filter_core.h"
#include "agent/ust/filter_run.h"

#define MOST_STEPS 65536 /* some 50 us */

enum value_kind { NONE, INTEGER, REAL, STRING, LIST }; /* LIST: of numbers: is there any? */
struct value {
	enum value_kind kind;
	bool literal;
	__int128 integer;
	double real;
	const char *string;
	size_t length;
	const struct spoor_def_field *labels; /* of an enumeration */
};

struct event {
	const struct filter *f;
	const char *fields, *fields_end; /* definitions */
	const char *body, *end;
	uintptr_t ip;
	char procname[16];
	unsigned steps; /* left */
};

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static size_t bounded_length(const char *s, size_t most)
{
	size_t n = 0;

	while (n < most && s[n])
		n++;
	return n;
}

/* ---- fields ---- */

static struct value number(const struct spoor_def_field *f, const char *at)
{
	struct value v = { .kind = INTEGER };
	unsigned i, above = 64 - 8U * f->bytes;
	uint64_t bits = 0;

	if (!f->bytes || f->bytes > 8)
		return (struct value){ .kind = NONE };
	for (i = 0; i < f->bytes; i++)
		bits |= (uint64_t)(uint8_t)at[i] << 8 * i;
	if (f->type == SPOOR_DEF_FLOAT) {
		union {
			uint64_t bits;
			double large;
			float small;
		} real = { .bits = bits };

		v.kind = REAL;
		v.real = f->bytes == 4 ? (double)real.small : real.large;
		return v;
	}
	if (f->flags & SPOOR_DEF_BIG)
		bits = __builtin_bswap64(bits) >> above;
	v.integer = bits;
	if (f->flags & SPOOR_DEF_SIGNED)
		v.integer = (int64_t)(bits << above) >> above;
	v.labels = f->type == SPOOR_DEF_ENUM && f->n_labels ? f : NULL;
	return v;
}

static uint16_t count_at(const char *at, const char *end)
{
	return end - at < 2 ? 0 : (uint16_t)((uint8_t)at[0] | (uint8_t)at[1] << 8);
}

/* Bytes of a field that stands at `at`; more than there are, if it does not fit. */
static size_t length(const struct spoor_def_field *f, const char *at, const char *end)
{
	if (f->type == SPOOR_DEF_STRING)
		return bounded_length(at, (size_t)(end - at)) + 1;
	if (f->shape == SPOOR_DEF_ARRAY)
		return (size_t)f->count * f->bytes;
	if (f->shape != SPOOR_DEF_SEQUENCE)
		return f->bytes;
	return 2 + (size_t)count_at(at, end) * f->bytes;
}

static struct value text(const char *at, size_t most)
{
	return (struct value){ .kind = STRING, .string = at, .length = bounded_length(at, most) };
}

static struct value field(const struct spoor_def_field *f, const char *at, const char *end)
{
	size_t room = (size_t)(end - at), size = length(f, at, end);

	if (f->type == SPOOR_DEF_STRING)
		return text(at, room);
	if (size > room)
		return (struct value){ .kind = NONE };
	if (f->shape && f->flags & SPOOR_DEF_TEXT)
		return f->shape == SPOOR_DEF_ARRAY ? text(at, size) : text(at + 2, size - 2);
	if (f->shape) /* of numbers */
		return (struct value){ .kind = LIST,
				       .length = f->shape == SPOOR_DEF_ARRAY ? f->count : count_at(at, end) };
	return number(f, at);
}

static bool look_up(const struct event *e, const char *name, struct value *ret)
{
	const char *at = e->body, *def;

	for (def = e->fields; def < e->fields_end && at < e->end;) {
		const struct spoor_def_field *f = (const void *)def; /* definitions are aligned to 8 */

		if (same(def + sizeof(*f), name)) {
			*ret = field(f, at, e->end);
			return true;
		}
		at += length(f, at, e->end);
		def += f->size;
	}
	return false;
}

/* ---- what is no field ---- */

static const char *const contexts[] = { "vpid", "vtid", "cpu", "ip", "procname" };

bool filter_is_context(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(contexts) / sizeof(*contexts); i++)
		if (same(contexts[i], name))
			return true;
	return false;
}

static struct value context(struct event *e, const char *name)
{
	struct value v = { .kind = INTEGER };

	if (same(name, "vpid")) {
		v.integer = process->pid;
	} else if (same(name, "vtid")) {
		v.integer = sys_tid();
	} else if (same(name, "cpu")) {
		v.integer = (__int128)context_cpu();
	} else if (same(name, "ip")) {
		v.integer = e->ip;
	} else if (same(name, "procname")) {
		sys6(SYS_prctl, PR_GET_NAME, (long)e->procname, 0, 0, 0, 0);
		return text(e->procname, sizeof(e->procname));
	} else {
		v.kind = NONE;
	}
	return v;
}

static struct value value_of(struct event *e, const struct filter_node *n)
{
	const char *at = e->f->text + n->text;
	struct value v = { .kind = NONE };

	switch (n->op) {
	case FILTER_INTEGER:
		return (struct value){ .kind = INTEGER, .integer = n->integer, .literal = true };
	case FILTER_REAL:
		return (struct value){ .kind = REAL, .real = n->real, .literal = true };
	case FILTER_STRING:
		return (struct value){ .kind = STRING, .string = at, .length = n->length, .literal = true };
	default:
		return look_up(e, at, &v) ? v : context(e, at);
	}
}

/* ---- comparing ---- */

/* Only the last wildcard for many is ever returned to. Steps are counted: hostile strings make it quadratic. */
static bool matches(struct event *e, const struct value *pattern, const char *s, size_t n)
{
	const char *p = pattern->string, *p_end = p + pattern->length, *end = s + n, *star = NULL, *from = NULL;

	for (; s < end && e->steps; e->steps--) {
		if (p < p_end && *p == FILTER_ANY) {
			star = ++p;
			from = s;
		} else if (p < p_end && (*p == FILTER_ONE || *p == *s)) {
			p++;
			s++;
		} else if (star) {
			p = star;
			s = ++from;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == FILTER_ANY)
		p++;
	return p == p_end;
}

/* From low to high, as the enumeration's type would have them: traces show the same. */
static bool is_between(const struct spoor_def_field *f, uint64_t value, uint64_t low, uint64_t high)
{
	unsigned above = 64 - 8U * f->bytes;

	low <<= above;
	high <<= above;
	value <<= above;
	if (f->flags & SPOOR_DEF_SIGNED)
		return (int64_t)value >= (int64_t)low && (int64_t)value <= (int64_t)high;
	return value >= low && value <= high;
}

/* A name that the enumeration has for its value, that the pattern fits. */
static bool has_label(struct event *e, const struct value *v, const struct value *pattern)
{
	const char *def = (const char *)v->labels, *at = def + sizeof(struct spoor_def_field);
	unsigned i;

	at += (bounded_length(at, v->labels->size) + 8) & ~(size_t)7;
	for (i = 0; i < v->labels->n_labels; i++) {
		const struct spoor_def_label *l = (const void *)at;

		if (is_between(v->labels, (uint64_t)v->integer, (uint64_t)l->low, (uint64_t)l->high) &&
		    matches(e, pattern, l->name, bounded_length(l->name, l->size)))
			return true;
		at += l->size;
	}
	return false;
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

/* In the order of a string wildcards are what they were written as. */
static uint8_t plain(const struct value *v, size_t i)
{
	char c = v->string[i];

	return (uint8_t)(!v->literal ? c : c == FILTER_ANY ? '*' : c == FILTER_ONE ? '?' : c);
}

static int order_of(struct event *e, const struct value *a, const struct value *b)
{
	size_t i;

	for (i = 0; i < a->length && i < b->length && e->steps; i++, e->steps--)
		if (plain(a, i) != plain(b, i))
			return plain(a, i) < plain(b, i) ? -1 : 1;
	return (a->length > b->length) - (a->length < b->length);
}

static bool compare_strings(struct event *e, unsigned op, const struct value *a, const struct value *b)
{
	const struct value *pattern = b->literal ? b : a, *other = b->literal ? a : b;

	if ((op != FILTER_EQ && op != FILTER_NE) || a->literal == b->literal)
		return holds(op, order_of(e, a, b));
	return matches(e, pattern, other->string, other->length) == (op == FILTER_EQ);
}

static bool compare_labels(struct event *e, unsigned op, const struct value *a, const struct value *b)
{
	const struct value *v = a->kind == STRING ? b : a, *pattern = a->kind == STRING ? a : b;

	if (!v->labels || !pattern->literal || (op != FILTER_EQ && op != FILTER_NE))
		return false;
	return has_label(e, v, pattern) == (op == FILTER_EQ);
}

static bool compare(struct event *e, unsigned op, const struct value *a, const struct value *b)
{
	double x, y;

	if (!a->kind || !b->kind || a->kind == LIST || b->kind == LIST)
		return false;
	if (a->kind == STRING && b->kind == STRING)
		return compare_strings(e, op, a, b);
	if (a->kind == STRING || b->kind == STRING)
		return compare_labels(e, op, a, b);
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
	case LIST:
		return v->length != 0;
	default:
		return false;
	}
}

bool filter_keeps(const struct filter *f, const struct class *c, const char *body, const char *end, uintptr_t ip)
{
	const char *fields = c->fields;
	struct event e = {
		.f = f,
		.fields = fields,
		.fields_end = fields + c->fields_size,
		.body = body,
		.end = end,
		.ip = ip,
		.steps = MOST_STEPS,
	};
	unsigned i = f->first;

	while (i < FILTER_YES) {
		const struct filter_node *n = &f->nodes[i];
		struct value a = value_of(&e, &f->nodes[n->left]), b = {};
		bool so;

		if (n->op == FILTER_TRUE) {
			so = is_true(&a);
		} else {
			b = value_of(&e, &f->nodes[n->right]);
			so = compare(&e, n->op, &a, &b);
		}
		if (!e.steps)
			return true;
		i = so ? n->yes : n->no;
	}
	return i == FILTER_YES;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Classes of user events: to their definition and back. */
#include "trace/class.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_EVENT (8191 * 8)

/* ---- what can be ---- */

static int is_integer(unsigned type)
{
	return type >= SPOOR_VALUE_UNSIGNED && type <= SPOOR_VALUE_POINTER;
}

static int size_fits(const struct spoor_class_field *f)
{
	switch (f->type) {
	case SPOOR_VALUE_STRING:
		return f->size == 0 && f->shape == SPOOR_SHAPE_SCALAR;
	case SPOOR_VALUE_TEXT:
		return f->size == 1;
	case SPOOR_VALUE_STACK:
		return f->size == 4 && f->shape == SPOOR_SHAPE_SCALAR;
	case SPOOR_VALUE_FLOAT:
	case SPOOR_VALUE_POINTER:
		return f->size == 4 || f->size == 8;
	default:
		return f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8;
	}
}

static int shape_fits(const struct spoor_class_field *f)
{
	int length = f->length_size == 1 || f->length_size == 2 || f->length_size == 4 || f->length_size == 8;

	if ((f->shape == SPOOR_SHAPE_SEQUENCE) != length || (!length && f->length_size))
		return 0;
	return (f->shape == SPOOR_SHAPE_ARRAY) == (f->count != 0);
}

static int field_fits(const struct spoor_class_field *f)
{
	if (!f->type || f->type >= SPOOR_VALUE_TYPE_MAX || f->shape >= SPOOR_SHAPE_MAX || !f->name[0])
		return 0;
	if (f->flags & ~(SPOOR_VALUE_CONTEXT | SPOOR_VALUE_BIG_ENDIAN | SPOOR_VALUE_IN_HEX))
		return 0;
	if (f->flags & SPOOR_VALUE_IN_HEX && f->type != SPOOR_VALUE_SIGNED)
		return 0;
	if (f->flags & SPOOR_VALUE_BIG_ENDIAN && !is_integer(f->type) && f->type != SPOOR_VALUE_FLOAT)
		return 0;
	if (f->n_values &&
	    (f->shape || (f->type != SPOOR_VALUE_UNSIGNED && f->type != SPOOR_VALUE_SIGNED)))
		return 0;
	return size_fits(f) && shape_fits(f);
}

/* A value that the field can have. */
static int in_range(const struct spoor_class_field *f, uint64_t v)
{
	unsigned bits = f->size * 8;

	if (bits == 64)
		return 1;
	if (f->type == SPOOR_VALUE_SIGNED)
		return (int64_t)v >= -(1LL << (bits - 1)) && (int64_t)v < 1LL << (bits - 1);
	return v < 1ULL << bits;
}

static int value_fits(const struct spoor_class_field *f, const struct spoor_class_value *v)
{
	if (!in_range(f, v->first) || !in_range(f, v->last))
		return 0;
	return f->type == SPOOR_VALUE_SIGNED ? (int64_t)v->first <= (int64_t)v->last : v->first <= v->last;
}

/* ---- to a definition ---- */

struct out {
	uint8_t *at, *end;
	int full; /* there was more than has room */
};

static void put(struct out *o, const void *p, size_t n)
{
	o->full |= n > (size_t)(o->end - o->at);
	if (o->full)
		return;
	memcpy(o->at, p, n);
	o->at += n;
}

static void put_text(struct out *o, const char *s)
{
	put(o, s, strlen(s) + 1);
}

static int put_field(struct out *o, const struct spoor_class_field *f)
{
	struct spoor_class_field_def def = {
		.type = f->type,
		.size = f->size,
		.shape = f->shape,
		.flags = f->flags,
		.length_size = f->length_size,
		.count = f->count,
		.n_values = f->n_values,
	};

	if (!f->name || !field_fits(f))
		return -EINVAL;
	put(o, &def, sizeof(def));
	put_text(o, f->name);
	for (unsigned i = 0; i < f->n_values; i++) {
		const struct spoor_class_value *v = &f->values[i];

		if (!v->label || !value_fits(f, v))
			return -EINVAL;
		put(o, (const uint64_t[]){ v->first, v->last }, 16);
		put_text(o, v->label);
	}
	return 0;
}

static int contexts_first(const struct spoor_class_field *f, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		if (f[i].flags & SPOOR_VALUE_CONTEXT && !(f[i - 1].flags & SPOOR_VALUE_CONTEXT))
			return 0;
	return 1;
}

int spoor_class_encode(const struct spoor_event_class *c, struct spoor_class **ret)
{
	_cleanup_(spoor_freep) struct spoor_event_class *check = NULL;
	_cleanup_(spoor_freep) struct spoor_class *def = calloc(1, MAX_EVENT);
	struct out o = {};
	uint8_t *end;
	size_t size;
	int r;

	if (!def)
		return -ENOMEM;
	o = (struct out){ def->data, (uint8_t *)def + MAX_EVENT, 0 };
	if (c->n_fields > SPOOR_MAX_CLASS_FIELDS)
		return -E2BIG;
	if (!c->name || !c->name[0] || !contexts_first(c->fields, c->n_fields))
		return -EINVAL;
	put_text(&o, c->name);
	put_text(&o, c->file ?: "");
	for (unsigned i = 0; i < c->n_fields; i++) {
		r = put_field(&o, &c->fields[i]);
		if (r < 0)
			return r;
	}
	if (o.full)
		return -E2BIG;
	end = o.at;
	if (c->format)
		put_text(&o, c->format);
	if (o.full)
		o.at = end; /* the events are worth more */
	size = SPOOR_EVENT_ROUND(o.at - (uint8_t *)def);
	def->h = (struct spoor_event_header){ .id = SPOOR_EV_CLASS, .size4 = SPOOR_SIZE4(size) };
	def->event = c->id;
	def->kind = c->kind;
	def->level = c->level;
	def->line = c->line;
	def->n_fields = c->n_fields;
	def->len = o.at - def->data;
	r = spoor_class_decode(def, &check);
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	*ret = realloc(def, size) ?: def;
	def = NULL;
	return 0;
}

/* ---- and back ---- */

struct in {
	const uint8_t *at, *end;
};

/* NULL: there are not so many bytes. */
static const void *take(struct in *in, size_t n)
{
	const uint8_t *p = in->at;

	if (n > (size_t)(in->end - p))
		return NULL;
	in->at += n;
	return p;
}

static const char *take_text(struct in *in)
{
	const uint8_t *nul = memchr(in->at, 0, in->end - in->at);
	const char *text = (const char *)in->at;

	if (!nul)
		return NULL;
	in->at = nul + 1;
	return text;
}

static int take_values(struct in *in, const struct spoor_class_field *f, struct spoor_class_value *ret)
{
	for (unsigned i = 0; i < f->n_values; i++) {
		const uint8_t *range = take(in, 16);
		struct spoor_class_value v = {};

		if (!range)
			return -EBADMSG;
		memcpy(&v.first, range, 8);
		memcpy(&v.last, range + 8, 8);
		v.label = take_text(in);
		if (!v.label || !value_fits(f, &v))
			return -EBADMSG;
		if (ret)
			ret[i] = v;
	}
	return 0;
}

static int take_field(struct in *in, struct spoor_class_field *ret, struct spoor_class_value *values)
{
	const uint8_t *p = take(in, sizeof(struct spoor_class_field_def));
	struct spoor_class_field_def def;

	if (!p)
		return -EBADMSG;
	memcpy(&def, p, sizeof(def));
	*ret = (struct spoor_class_field){
		.name = take_text(in),
		.type = def.type,
		.size = def.size,
		.shape = def.shape,
		.flags = def.flags,
		.length_size = def.length_size,
		.count = def.count,
		.n_values = def.n_values,
		.values = values,
	};
	if (!ret->name || !field_fits(ret))
		return -EBADMSG;
	return take_values(in, ret, values);
}

/* Everything of it once, to see that it makes sense. Returns how many values it names, or -EBADMSG. */
static int check_data(const struct spoor_class *def)
{
	struct in in = { def->data, def->data + def->len };
	const char *name = take_text(&in);
	int n = 0, contexts = 1;

	if (!name || !name[0] || !take_text(&in))
		return -EBADMSG;
	for (unsigned i = 0; i < def->n_fields; i++) {
		struct spoor_class_field f;

		if (take_field(&in, &f, NULL) < 0 || (f.flags & SPOOR_VALUE_CONTEXT && !contexts))
			return -EBADMSG;
		contexts = f.flags & SPOOR_VALUE_CONTEXT;
		n += f.n_values;
	}
	if (in.at < in.end && !take_text(&in))
		return -EBADMSG;
	return in.at == in.end ? n : -EBADMSG;
}

/* Bytes of an event's fields, if they are the same in all. */
static size_t fixed_size(const struct spoor_event_class *c)
{
	size_t size = sizeof(struct spoor_event_header);

	for (unsigned i = 0; i < c->n_fields; i++) {
		const struct spoor_class_field *f = &c->fields[i];

		if (f->type == SPOOR_VALUE_STRING || f->shape == SPOOR_SHAPE_SEQUENCE)
			return 0;
		size += (size_t)f->size * (f->shape == SPOOR_SHAPE_ARRAY ? f->count : 1);
	}
	return size;
}

int spoor_class_decode(const struct spoor_class *def, struct spoor_event_class **ret)
{
	_cleanup_(spoor_freep) struct spoor_event_class *c = NULL;
	struct in in = { def->data, def->data + def->len };
	struct spoor_class_field *fields;
	struct spoor_class_value *values;
	size_t size;
	int n;

	if (def->event < SPOOR_EV_USER || def->event >= SPOOR_EV_USER_MAX || def->n_fields > SPOOR_MAX_CLASS_FIELDS)
		return -EBADMSG;
	n = check_data(def);
	if (n < 0)
		return n;
	c = calloc(1, sizeof(*c) + def->n_fields * sizeof(*fields) + n * sizeof(*values));
	if (!c)
		return -ENOMEM;
	fields = (void *)(c + 1);
	values = (void *)(fields + def->n_fields);
	*c = (struct spoor_event_class){ .id = def->event, .kind = def->kind, .level = def->level, .line = def->line };
	c->name = take_text(&in);
	c->file = take_text(&in);
	c->n_fields = def->n_fields;
	c->fields = fields;
	for (unsigned i = 0; i < c->n_fields; i++) {
		take_field(&in, &fields[i], values);
		values += fields[i].n_values;
	}
	c->format = in.at < in.end ? take_text(&in) : NULL;
	size = fixed_size(c);
	if (size > MAX_EVENT)
		return -EBADMSG;
	c->fixed_size = size;
	*ret = TAKE_PTR(c);
	return 0;
}

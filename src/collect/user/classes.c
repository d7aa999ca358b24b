/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/classes.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/core/arena.h"
#include "base/cleanup.h"

#define MAX_LABELS 65535 /* of a class: no more fit into an event */

/* ---- from the arena's form to the trace's ---- */

struct parser {
	const uint8_t *at, *end;
	struct spoor_class_value *values; /* of all fields */
	size_t n_values;
};

/* A string that ends before `end`; *at is moved behind it. NULL: it does not. */
static const char *text(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *s = *at, *nul = memchr(s, 0, end - s);

	if (!nul)
		return NULL;
	*at = nul + 1;
	return (const char *)s;
}

static int type_of(const struct spoor_def_field *f)
{
	bool is_signed = f->flags & SPOOR_DEF_SIGNED;

	if (f->flags & SPOOR_DEF_STACK)
		return SPOOR_VALUE_STACK;

	switch (f->type) {
	case SPOOR_DEF_INT:
		if (f->flags & SPOOR_DEF_TEXT && f->bytes == 1 && f->shape != SPOOR_DEF_SCALAR)
			return SPOOR_VALUE_TEXT;
		if (is_signed)
			return SPOOR_VALUE_SIGNED;
		return f->base == 16 ? SPOOR_VALUE_HEX : f->base == 8 ? SPOOR_VALUE_OCTAL : SPOOR_VALUE_UNSIGNED;
	case SPOOR_DEF_ENUM:
		return is_signed ? SPOOR_VALUE_SIGNED : SPOOR_VALUE_UNSIGNED;
	case SPOOR_DEF_FLOAT:
		return SPOOR_VALUE_FLOAT;
	case SPOOR_DEF_POINTER:
		return SPOOR_VALUE_POINTER;
	case SPOOR_DEF_STRING:
		return SPOOR_VALUE_STRING;
	}
	return -EBADMSG;
}

/* A bound as the field would have it: programs call 255 of a byte -1, as a cast would make it. */
static uint64_t in_field(const struct spoor_def_field *f, uint64_t v)
{
	unsigned above = 64 - 8 * f->bytes;

	return f->flags & SPOOR_DEF_SIGNED ? (uint64_t)((int64_t)(v << above) >> above) : v << above >> above;
}

static bool is_empty(const struct spoor_def_field *f, const struct spoor_class_value *v)
{
	return f->flags & SPOOR_DEF_SIGNED ? (int64_t)v->first > (int64_t)v->last : v->first > v->last;
}

/* Names of values behind the field's own name; but for those of no value. */
static int take_labels(struct parser *p, const struct spoor_def_field *f, const uint8_t *at, const uint8_t *end,
		       struct spoor_class_field *ret)
{
	struct spoor_class_value *values = p->values + p->n_values;
	unsigned n = 0;

	if (!f->n_labels)
		return 0;
	if (f->type != SPOOR_DEF_ENUM || f->shape != SPOOR_DEF_SCALAR || !f->bytes || f->bytes > 8 ||
	    p->n_values + f->n_labels > MAX_LABELS)
		return -EBADMSG;
	for (unsigned i = 0; i < f->n_labels; i++) {
		const struct spoor_def_label *l = (const void *)at;
		struct spoor_class_value *v = &values[n];
		const uint8_t *name;

		if ((size_t)(end - at) < sizeof(*l) || l->size < sizeof(*l) || l->size > end - at || l->size % 8)
			return -EBADMSG;
		name = at + offsetof(struct spoor_def_label, name);
		v->label = text(&name, at + l->size);
		if (!v->label)
			return -EBADMSG;
		v->first = in_field(f, l->low);
		v->last = in_field(f, l->high);
		n += !is_empty(f, v);
		at += l->size;
	}
	p->n_values += n;
	ret->values = n ? values : NULL;
	ret->n_values = n;
	return 0;
}

/* Addresses become an id: in place of their number and of the padding before that. */
static void take_stack(struct spoor_class_field *f)
{
	f->size = 4;
	f->shape = SPOOR_SHAPE_SCALAR;
	f->length_size = 0;
	f->flags = SPOOR_VALUE_CONTEXT;
}

static bool is_padding(const struct spoor_def_field *f)
{
	return f->flags & SPOOR_DEF_PADDING && f->flags & SPOOR_DEF_CONTEXT && f->type == SPOOR_DEF_INT &&
	       f->shape == SPOOR_DEF_SCALAR && f->bytes == 2;
}

/* A call stack has its padding before it, and padding has a call stack behind it. */
static int check_stack(const struct spoor_def_field *before, const struct spoor_def_field *f)
{
	bool padded = before && is_padding(before);

	if (f->flags & SPOOR_DEF_PADDING && !is_padding(f))
		return -EBADMSG;
	if (!(f->flags & SPOOR_DEF_STACK))
		return padded ? -EBADMSG : 0;
	return padded && f->flags & SPOOR_DEF_CONTEXT && f->type == SPOOR_DEF_POINTER && f->bytes == 8 &&
			       f->shape == SPOOR_DEF_SEQUENCE ?
		       0 :
		       -EBADMSG;
}

static int take_field(struct parser *p, struct spoor_class_field *ret)
{
	const struct spoor_def_field *f = (const void *)p->at;
	const uint8_t *at, *end;
	int type;

	if ((size_t)(p->end - p->at) < sizeof(*f) || f->size < sizeof(*f) || f->size > p->end - p->at || f->size % 8)
		return -EBADMSG;
	at = p->at + sizeof(*f);
	end = p->at + f->size;
	type = type_of(f);
	if (type < 0 || f->shape > SPOOR_DEF_SEQUENCE)
		return -EBADMSG;
	*ret = (struct spoor_class_field){
		.name = text(&at, end),
		.type = type,
		.size = type == SPOOR_VALUE_STRING ? 0 : f->bytes,
		.shape = f->shape == SPOOR_DEF_ARRAY    ? SPOOR_SHAPE_ARRAY :
			 f->shape == SPOOR_DEF_SEQUENCE ? SPOOR_SHAPE_SEQUENCE :
							  SPOOR_SHAPE_SCALAR,
		.flags = (f->flags & SPOOR_DEF_CONTEXT ? SPOOR_VALUE_CONTEXT : 0) |
			 (f->flags & SPOOR_DEF_BIG && f->bytes > 1 ? SPOOR_VALUE_BIG_ENDIAN : 0) |
			 (type == SPOOR_VALUE_SIGNED && f->base == 16 ? SPOOR_VALUE_IN_HEX : 0),
		.length_size = f->shape == SPOOR_DEF_SEQUENCE ? 2 : 0,
		.count = f->shape == SPOOR_DEF_ARRAY ? f->count : 0,
	};
	if (!ret->name)
		return -EBADMSG;
	if (type == SPOOR_VALUE_STACK)
		take_stack(ret);
	at = p->at + (((size_t)(at - p->at) + 7) & ~7UL);
	if (at > end)
		return -EBADMSG;
	p->at = end;
	return take_labels(p, f, at, end, ret);
}

/* How many labels there are at most: so much memory, and no more, is needed for them. */
static size_t count_labels(const uint8_t *at, const uint8_t *end, unsigned n_fields)
{
	size_t n = 0;

	for (unsigned i = 0; i < n_fields && (size_t)(end - at) >= sizeof(struct spoor_def_field); i++) {
		const struct spoor_def_field *f = (const void *)at;

		if (f->size < sizeof(*f) || f->size > end - at || f->size % 8)
			break;
		n += f->n_labels;
		at += f->size;
	}
	return n < MAX_LABELS ? n : MAX_LABELS;
}

/*
 * Where in events the id of the call stack is; 0: there is none. -EBADMSG: what comes before has no fixed size, or
 * there are two.
 */
static int find_stack(const struct spoor_event_class *c)
{
	size_t at = sizeof(struct spoor_event_header), found = 0;
	bool fixed = true;

	for (unsigned i = 0; i < c->n_fields; i++) {
		const struct spoor_class_field *f = &c->fields[i];

		if (f->type == SPOOR_VALUE_STACK) {
			if (found || !fixed || at > UINT16_MAX)
				return -EBADMSG;
			found = at;
		}
		fixed &= f->size && f->shape != SPOOR_SHAPE_SEQUENCE;
		at += f->size * (f->shape == SPOOR_SHAPE_ARRAY ? f->count : 1);
	}
	return (int)found;
}

static int parse(const uint8_t *def, size_t size, struct spoor_class **ret)
{
	const struct spoor_def_class *d = (const void *)def;
	_cleanup_(spoor_freep) struct spoor_class_field *fields = NULL;
	_cleanup_(spoor_freep) struct spoor_class_value *values = NULL;
	_cleanup_(spoor_freep) char *full = NULL;
	struct parser p = { .at = def + sizeof(*d), .end = def + size };
	const char *provider, *name, *file, *format = NULL;
	const struct spoor_def_field *before = NULL;
	struct spoor_event_class c = {};
	const uint8_t *texts = p.at;
	unsigned n = 0; /* fields of the trace's class */
	int r;

	if (size < sizeof(*d) || d->text_size % 8 || d->text_size > size - sizeof(*d) ||
	    d->n_fields > SPOOR_MAX_CLASS_FIELDS || d->kind > SPOOR_DEF_LOG)
		return -EBADMSG;
	p.at += d->text_size;
	provider = text(&texts, p.at);
	name = provider ? text(&texts, p.at) : NULL;
	file = name ? text(&texts, p.at) : NULL;
	if (!file)
		return -EBADMSG;
	if (d->kind == SPOOR_DEF_LOG && text(&texts, p.at))
		format = text(&texts, p.at);
	if (asprintf(&full, "%s:%s", provider, name) < 0) {
		full = NULL;
		return -ENOMEM;
	}
	fields = calloc(d->n_fields ? d->n_fields : 1, sizeof(*fields));
	values = calloc(count_labels(p.at, p.end, d->n_fields) + 1, sizeof(*values));
	if (!fields || !values)
		return -ENOMEM;
	p.values = values;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const struct spoor_def_field *f = (const void *)p.at;

		r = take_field(&p, &fields[n]);
		if (!r)
			r = check_stack(before, f);
		if (r)
			return r;
		n += !is_padding(f);
		before = f;
	}
	if (before && is_padding(before))
		return -EBADMSG;
	c = (struct spoor_event_class){
		.id = SPOOR_EV_USER,
		.kind = SPOOR_CLASS_TRACEPOINT + d->kind,
		.level = d->level <= 14 ? d->level : SPOOR_LEVEL_NONE,
		.line = d->line,
		.name = full,
		.file = file,
		.format = format,
		.n_fields = n,
		.fields = fields,
	};
	if (find_stack(&c) < 0)
		return -EBADMSG;
	return spoor_class_encode(&c, ret);
}

/* ---- the registry ---- */

const struct spoor_user_class spoor_user_undescribed;

static void free_class(struct spoor_user_class *c)
{
	if (!c)
		return;
	free(c->c);
	free(c->def);
	free(c);
}

static void free_classp(struct spoor_user_class **c)
{
	free_class(*c);
}

void spoor_user_classes_done(struct spoor_user_classes *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_class(r->all[i]);
	free(r->all);
	spoor_shares_done(&r->shares);
	*r = (struct spoor_user_classes){};
}

static const struct spoor_user_class *find(const struct spoor_user_classes *r, const struct spoor_user_class *c)
{
	size_t bytes = spoor_event_size(c->def);

	for (size_t i = 0; i < r->n; i++)
		if (r->all[i]->hash == c->hash && r->all[i]->def->h.size4 == c->def->h.size4 &&
		    !memcmp(r->all[i]->def, c->def, bytes))
			return r->all[i];
	return NULL;
}

static int make_room(struct spoor_user_classes *r)
{
	size_t room = r->room ? r->room * 2 : 64;
	void *grown;

	if (r->n < r->room)
		return 0;
	grown = reallocarray(r->all, room, sizeof(*r->all));
	if (!grown)
		return -ENOMEM;
	r->all = grown;
	r->room = room;
	return 0;
}

/* What is asked of each event. */
static void note_layout(struct spoor_user_class *c)
{
	int at = find_stack(c->c);

	c->stack_at = at > 0 ? at : 0;
	c->length = c->c->fixed_size;
}

/* A class of the trace, in the form in which those of arenas are compared: all under one id. */
static int add_known(struct spoor_user_classes *r, const struct spoor_class *def, uint16_t id)
{
	_cleanup_(free_classp) struct spoor_user_class *c = calloc(1, sizeof(*c));
	size_t size = spoor_event_size(def);
	int err;

	if (!c || !(c->def = malloc(size)) || make_room(r))
		return -ENOMEM;
	memcpy(c->def, def, size);
	c->def->h.ts = 0;
	c->def->h.tid = 0;
	c->def->event = SPOOR_EV_USER;
	c->id = id;
	c->hash = XXH3_64bits(c->def, size);
	err = spoor_class_decode(c->def, &c->c);
	if (!err) {
		note_layout(c);
		r->all[r->n++] = TAKE_PTR(c);
	}
	return err == -ENOMEM ? err : 0;
}

int spoor_user_classes_resume(struct spoor_user_classes *r)
{
	const struct spoor_class *def;
	int err = 0;

	for (unsigned i = 0; !err && (def = spoor_writer_known_class(r->w, i)); i++)
		err = add_known(r, def, SPOOR_EV_USER + i);
	return err;
}

static size_t unused(const struct spoor_user_classes *r)
{
	const size_t most = SPOOR_EV_USER_MAX - SPOOR_EV_USER;

	return r->n < most ? most - r->n : 0;
}

int spoor_user_classes_take(struct spoor_user_classes *r, const uint8_t *def, size_t size,
			    const struct spoor_user_class **ret)
{
	_cleanup_(free_classp) struct spoor_user_class *c = calloc(1, sizeof(*c));
	struct spoor_event_class asked;
	int err;

	if (!c)
		return -ENOMEM;
	err = parse(def, size, &c->def);
	if (err == -EINVAL)
		err = -EBADMSG;
	if (err)
		return err;
	c->hash = XXH3_64bits(c->def, spoor_event_size(c->def));
	*ret = find(r, c);
	if (*ret)
		return 0;
	err = spoor_class_decode(c->def, &c->c);
	if (!err)
		err = make_room(r);
	if (err)
		return err;
	if (!spoor_shares_take(&r->shares, r->uid, unused(r)))
		return -EDQUOT;
	note_layout(c);
	asked = *c->c;
	asked.id = 0;
	c->id = SPOOR_EV_USER + r->n;
	if (r->w)
		err = spoor_writer_class(r->w, &asked, r->now, &c->id, NULL);
	if (err) {
		spoor_shares_give_back(&r->shares, r->uid);
		return err;
	}
	*ret = r->all[r->n++] = TAKE_PTR(c);
	return 0;
}

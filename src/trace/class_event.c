/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fields of a user event, found by its class. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "trace/class.h"

static uint64_t load(const uint8_t *p, unsigned size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

/* Where the field that begins at offset `at` ends; 0: beyond `size`. */
static size_t behind(const struct spoor_class_field *f, const uint8_t *event, size_t at, size_t size)
{
	const uint8_t *nul;
	uint64_t n = 1;

	if (f->type == SPOOR_VALUE_STRING) {
		nul = memchr(event + at, 0, size - at);
		return nul ? nul + 1 - event : 0;
	}
	if (f->shape == SPOOR_SHAPE_ARRAY)
		n = f->count;
	if (f->shape == SPOOR_SHAPE_SEQUENCE) {
		if (f->length_size > size - at)
			return 0;
		n = load(event + at, f->length_size);
		at += f->length_size;
	}
	return n <= (size - at) / f->size ? at + n * f->size : 0;
}

size_t spoor_class_length(const struct spoor_event_class *c, const struct spoor_event_header *h)
{
	size_t at = sizeof(*h), size = spoor_event_size(h);

	if (c->fixed_size)
		return c->fixed_size <= size ? c->fixed_size : 0;
	for (unsigned i = 0; i < c->n_fields && at; i++)
		at = behind(&c->fields[i], (const uint8_t *)h, at, size);
	return at;
}

void spoor_class_values(const struct spoor_event_class *c, const struct spoor_event_header *h, struct spoor_value *ret)
{
	const uint8_t *event = (const uint8_t *)h;
	size_t at = sizeof(*h), end;

	for (unsigned i = 0; i < c->n_fields; i++, at = end) {
		const struct spoor_class_field *f = &c->fields[i];
		const uint8_t *p = event + at + f->length_size;

		end = behind(f, event, at, spoor_event_size(h));
		ret[i] = (struct spoor_value){ f, p, 1 };
		if (f->type == SPOOR_VALUE_STRING)
			ret[i].n = end - at - 1;
		else if (f->shape != SPOOR_SHAPE_SCALAR)
			ret[i].n = (event + end - p) / f->size;
		if (f->type == SPOOR_VALUE_TEXT && f->shape != SPOOR_SHAPE_SCALAR)
			ret[i].n = strnlen((const char *)p, ret[i].n);
	}
}

uint64_t spoor_value_integer(const struct spoor_value *v, uint32_t i)
{
	unsigned bits = v->field->size * 8;
	uint64_t x = load(v->bytes + (size_t)i * v->field->size, v->field->size);

	if (v->field->flags & SPOOR_VALUE_BIG_ENDIAN)
		x = htobe64(x) >> (64 - bits);
	if (v->field->type == SPOOR_VALUE_SIGNED && bits < 64)
		x = (uint64_t)((int64_t)(x << (64 - bits)) >> (64 - bits));
	return x;
}

double spoor_value_double(const struct spoor_value *v, uint32_t i)
{
	uint64_t bits = spoor_value_integer(v, i);
	uint32_t low = (uint32_t)bits;
	double d;
	float f;

	if (v->field->size == 4) {
		memcpy(&f, &low, sizeof(f));
		return f;
	}
	memcpy(&d, &bits, sizeof(d));
	return d;
}

const char *spoor_value_label(const struct spoor_value *v)
{
	const struct spoor_class_field *f = v->field;
	uint64_t x;

	if (!f->n_values)
		return NULL;
	x = spoor_value_integer(v, 0);
	for (unsigned i = 0; i < f->n_values; i++) {
		const struct spoor_class_value *known = &f->values[i];

		if (f->type == SPOOR_VALUE_SIGNED ?
			    (int64_t)x >= (int64_t)known->first && (int64_t)x <= (int64_t)known->last :
			    x >= known->first && x <= known->last)
			return known->label;
	}
	return NULL;
}

int spoor_class_find(const struct spoor_event_class *c, const char *name, int context)
{
	for (unsigned i = 0; i < c->n_fields; i++)
		if (!!(c->fields[i].flags & SPOOR_VALUE_CONTEXT) == !!context && !strcmp(c->fields[i].name, name))
			return (int)i;
	return -ENOENT;
}

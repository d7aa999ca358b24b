/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Classes of user events. The input: u16 fields, u16 bytes of data, the data of a class's definition, and the rest is
 * the body of an event of it. What is taken as a class must come out again as it is, and have text for CTF; what is
 * taken as an event must have all fields within itself.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/class.h"

static volatile uint64_t sum;

static void must(int ok)
{
	if (!ok)
		abort();
}

/* A copy that ends where it ends, so that a step beyond is seen. */
static void *copy(const void *p, size_t used, size_t size)
{
	void *c = calloc(1, size);

	must(c != NULL);
	memcpy(c, p, used);
	return c;
}

static void touch(const struct spoor_value *v, const struct spoor_event_header *h)
{
	const uint8_t *end = (const uint8_t *)h + spoor_event_size(h);
	unsigned size = v->field->size ? v->field->size : 1;

	must(v->bytes > (const uint8_t *)h && v->bytes <= end && v->n <= (size_t)(end - v->bytes) / size);
	for (uint32_t i = 0; i < v->n; i++)
		sum += v->field->type == SPOOR_VALUE_STRING ? v->bytes[i] : spoor_value_integer(v, i);
	if (v->field->type == SPOOR_VALUE_FLOAT && v->n)
		sum += spoor_value_double(v, 0) > 1;
	if (v->field->type == SPOOR_VALUE_STRING)
		must(strlen((const char *)v->bytes) == v->n);
	sum += spoor_value_label(v) != NULL;
}

static void try_event(const struct spoor_event_class *c, const uint8_t *body, size_t size)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];
	size_t whole = (sizeof(struct spoor_event_header) + size) & ~3UL, length;
	struct spoor_event_header *h;

	if (whole > 8191 * 8)
		return;
	h = copy(&(struct spoor_event_header){ .id = c->id, .size4 = whole / 4 }, sizeof(*h), whole);
	memcpy(h + 1, body, whole - sizeof(*h));
	length = spoor_class_length(c, h);
	must(length <= whole && (!length || length >= sizeof(*h)));
	if (length) {
		spoor_class_values(c, h, values);
		for (unsigned i = 0; i < c->n_fields; i++)
			touch(&values[i], h);
	}
	free(h);
}

static void try_class(const struct spoor_class *def, const uint8_t *body, size_t size)
{
	struct spoor_event_class *c, *again;
	struct spoor_class *encoded;
	char *text;
	size_t len;

	if (spoor_class_decode(def, &c) < 0)
		return;
	must(c->n_fields == def->n_fields && c->name[0]);
	if (spoor_class_encode(c, &encoded) == 0) {
		must(spoor_class_decode(encoded, &again) == 0 && again->fixed_size == c->fixed_size);
		must(encoded->len == def->len || (c->format && !again->format)); /* no room for it */
		must(!strcmp(again->name, c->name) && again->n_fields == c->n_fields);
		free(again);
		free(encoded);
	}
	must(spoor_class_metadata(c, &text, &len) == 0 && strlen(text) == len);
	free(text);
	try_event(c, body, size);
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spoor_class *def;
	uint16_t head[2];

	if (size < sizeof(head))
		return 0;
	memcpy(head, data, sizeof(head));
	data += sizeof(head);
	size -= sizeof(head);
	if (head[1] > size)
		head[1] = (uint16_t)size;
	def = copy(&(struct spoor_class){ .h = { .id = SPOOR_EV_CLASS }, .event = SPOOR_EV_USER, .n_fields = head[0],
					  .len = head[1] },
		   sizeof(*def), sizeof(*def) + head[1]);
	memcpy(def->data, data, head[1]);
	try_class(def, data + head[1], size - head[1]);
	free(def);
	return 0;
}

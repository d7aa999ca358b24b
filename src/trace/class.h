/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Classes of user events (struct spoor_class of record.h) taken apart: what writers hand in and readers get.
 * Everything that comes out of spoor_class_decode() has been checked.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

struct spoor_class_value { /* a name of one value, or of all from first to last */
	const char *label;
	uint64_t first, last; /* sign-extended if the field is signed */
};

struct spoor_class_field { /* members as in struct spoor_class_field_def */
	const char *name;
	uint8_t type, size, shape, flags, length_size;
	uint16_t count, n_values;
	const struct spoor_class_value *values;
};

struct spoor_event_class {
	uint16_t id;
	uint8_t kind, level;
	uint32_t line;
	const char *name; /* "provider:event" */
	const char *file; /* "": unknown */
	const char *format; /* of a log line: its words, with its conversions; NULL: none */
	unsigned n_fields;
	const struct spoor_class_field *fields; /* contexts first */
	uint16_t fixed_size; /* set by decode: bytes of an event without its padding; 0: they vary */
};

/* The definition event, ts and tid 0. free() *ret. -EINVAL: no such class can be; -E2BIG: more than an event holds. */
int spoor_class_encode(const struct spoor_event_class *c, struct spoor_class **ret);
/*
 * One allocation; strings are borrowed from def, whose `len` bytes of data are there. free() *ret. -EBADMSG: it makes
 * no sense; -ENOMEM.
 */
int spoor_class_decode(const struct spoor_class *def, struct spoor_event_class **ret);

/* Bytes of the event from its begin to the end of its fields; 0: they do not fit in it, all of which is readable. */
size_t spoor_class_length(const struct spoor_event_class *c, const struct spoor_event_header *h);

/* A field of an event, borrowed from it. */
struct spoor_value {
	const struct spoor_class_field *field;
	const uint8_t *bytes; /* of its first element; of a string: text with a NUL */
	uint32_t n;           /* elements; of a string and of text: bytes before the NUL */
};
/* Fills ret[0 .. c->n_fields). The event was checked: the reader has done that. */
void spoor_class_values(const struct spoor_event_class *c, const struct spoor_event_header *h, struct spoor_value *ret);
/* The i-th element of an integer, sign-extended if signed; the bits of a float as a double's. */
uint64_t spoor_value_integer(const struct spoor_value *v, uint32_t i);
double spoor_value_double(const struct spoor_value *v, uint32_t i);
/* The enumeration's name of the value; NULL: it has none. */
const char *spoor_value_label(const struct spoor_value *v);
/* The field's number, or -ENOENT. */
int spoor_class_find(const struct spoor_event_class *c, const char *name, int context);

/* The class as CTF 1.8 text. free() *ret. */
int spoor_class_metadata(const struct spoor_event_class *c, char **ret, size_t *ret_len);

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A class of user events as CTF 1.8 text. Names come from programs: those that CTF could not take, or that occur twice,
 * are changed here, and only here. Field names begin with an underscore, which readers strip.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/class.h"
#include "trace/schema.h"

#define MAX_LOG_LEVEL 14

/* Identifiers of one class so far, without their underscore: contexts and fields apart, for they are apart in CTF. */
struct names {
	char **list;
	unsigned n;
};

static void names_done(struct names *names)
{
	for (unsigned i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static int is_taken(const struct names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++)
		if (!strcmp(names->list[i], name))
			return 1;
	return 0;
}

static int add_name(struct names *names, char *name)
{
	char **list = reallocarray(names->list, names->n + 1, sizeof(*list));

	if (!list) {
		free(name);
		return -ENOMEM;
	}
	list[names->n++] = name;
	names->list = list;
	return 0;
}

static int is_plain(char c)
{
	return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

/* An identifier like name, and if it is a sequence's with room for NAME_length. NULL: out of memory. */
static const char *choose(struct names *names, const char *name, int with_length)
{
	_cleanup_(spoor_freep) char *plain = NULL;

	/* babeltrace2 2.0.4 takes names for one another that differ in how many underscores they begin with. */
	while (*name && !is_plain(*name))
		name++;
	plain = strdup(*name ? name : "field");
	for (char *p = plain; p && *p; p++)
		if (!is_plain(*p))
			*p = '_';
	for (unsigned i = 1; plain; i++) {
		char *text = NULL, *length = NULL;
		int r = i == 1 ? asprintf(&text, "%s", plain) : asprintf(&text, "%s_%u", plain, i);

		if (r < 0)
			return NULL;
		if (asprintf(&length, "%s_length", text) < 0) {
			free(text);
			return NULL;
		}
		if (is_taken(names, text) || (with_length && is_taken(names, length))) {
			free(text);
			free(length);
			continue;
		}
		if (!with_length)
			free(length);
		else if (add_name(names, length) < 0)
			return free(text), NULL;
		return add_name(names, text) < 0 ? NULL : text;
	}
	return NULL;
}

static void put_comment(FILE *f, const struct spoor_event_class *c)
{
	if (!c->file || !c->file[0])
		return;
	fputs("/* ", f);
	for (const char *p = c->file; *p; p++)
		fputc(*p < ' ' || *p > '~' || *p == '*' ? '?' : *p, f);
	fprintf(f, ":%" PRIu32 " */\n", c->line);
}

static void put_integer(FILE *f, const struct spoor_class_field *field)
{
	int base = 10;

	if (field->type == SPOOR_VALUE_OCTAL)
		base = 8;
	if (field->type == SPOOR_VALUE_HEX || field->type == SPOOR_VALUE_POINTER || field->flags & SPOOR_VALUE_IN_HEX)
		base = 16;
	fprintf(f, "integer { size = %u; align = 8; signed = %s; base = %d; byte_order = %s; }", field->size * 8,
		field->type == SPOOR_VALUE_SIGNED ? "true" : "false", base,
		field->flags & SPOOR_VALUE_BIG_ENDIAN ? "be" : "le");
}

static void put_number(FILE *f, const struct spoor_class_field *field, uint64_t v)
{
	if (field->type == SPOOR_VALUE_SIGNED)
		fprintf(f, "%" PRId64, (int64_t)v);
	else
		fprintf(f, "%" PRIu64, v);
}

/* One name may stand for several ranges: readers want them one after another, which they need not be. That is fine. */
static void put_enumeration(FILE *f, const struct spoor_class_field *field)
{
	fputs("enum : ", f);
	put_integer(f, field);
	fputs(" {", f);
	for (unsigned i = 0; i < field->n_values; i++) {
		const struct spoor_class_value *v = &field->values[i];

		fputs(i ? ", " : " ", f);
		spoor_put_literal(f, v->label);
		fputs(" = ", f);
		put_number(f, field, v->first);
		if (v->last != v->first) {
			fputs(" ... ", f);
			put_number(f, field, v->last);
		}
	}
	fputs(" }", f);
}

static void put_type(FILE *f, const struct spoor_class_field *field)
{
	switch (field->type) {
	case SPOOR_VALUE_STRING:
		fputs("string", f);
		break;
	case SPOOR_VALUE_TEXT:
		fputs("text", f);
		break;
	case SPOOR_VALUE_STACK:
		fputs("u32", f);
		break;
	case SPOOR_VALUE_FLOAT:
		fprintf(f, "floating_point { exp_dig = %d; mant_dig = %d; align = 8; byte_order = %s; }",
			field->size == 4 ? 8 : 11, field->size == 4 ? 24 : 53,
			field->flags & SPOOR_VALUE_BIG_ENDIAN ? "be" : "le");
		break;
	default:
		if (field->n_values)
			put_enumeration(f, field);
		else
			put_integer(f, field);
	}
}

static int put_field(FILE *f, const struct spoor_class_field *field, struct names *names)
{
	int sequence = field->shape == SPOOR_SHAPE_SEQUENCE;
	const char *name = choose(names, field->name, sequence);

	if (!name)
		return -ENOMEM;
	if (sequence)
		fprintf(f, "\t\tu%u _%s_length;\n", field->length_size * 8, name);
	fputs("\t\t", f);
	put_type(f, field);
	fprintf(f, " _%s", name);
	if (sequence)
		fprintf(f, "[_%s_length]", name);
	else if (field->shape == SPOOR_SHAPE_ARRAY)
		fprintf(f, "[%u]", field->count);
	fputs(";\n", f);
	return 0;
}

static int put_fields(FILE *f, const struct spoor_event_class *c, int context, struct names *names)
{
	int r = 0;

	for (unsigned i = 0; i < c->n_fields && r >= 0; i++)
		if (!!(c->fields[i].flags & SPOOR_VALUE_CONTEXT) == context)
			r = put_field(f, &c->fields[i], names);
	return r;
}

static int has_contexts(const struct spoor_event_class *c)
{
	return c->n_fields && c->fields[0].flags & SPOOR_VALUE_CONTEXT;
}

/*
 * babeltrace2 2.0.4 ends in an assertion where an event's own context holds a sequence: all contexts are then a
 * structure at the begin of the fields.
 */
static int contexts_are_fields(const struct spoor_event_class *c)
{
	for (unsigned i = 0; i < c->n_fields; i++)
		if (c->fields[i].flags & SPOOR_VALUE_CONTEXT && c->fields[i].shape == SPOOR_SHAPE_SEQUENCE)
			return 1;
	return 0;
}

static int reserve(struct names *names, const char *name)
{
	char *copy = strdup(name);

	return copy ? add_name(names, copy) : -ENOMEM;
}

static int put_class(FILE *f, const struct spoor_event_class *c)
{
	struct names contexts = {}, fields = {};
	int r = reserve(&fields, "padding"), inside = contexts_are_fields(c);

	if (r >= 0 && inside)
		r = reserve(&fields, "context");
	put_comment(f, c);
	fputs("event {\n\tname = ", f);
	spoor_put_literal(f, c->name);
	fprintf(f, ";\n\tid = %u;\n\tstream_id = %u;\n", c->id, SPOOR_STREAM_UST);
	if (c->level <= MAX_LOG_LEVEL)
		fprintf(f, "\tloglevel = %u;\n", c->level);
	fputs(inside ? "\tfields := struct {\n\t\tstruct {\n" : has_contexts(c) ? "\tcontext := struct {\n" : "", f);
	r = r < 0 ? r : put_fields(f, c, 1, &contexts);
	fputs(inside ? "\t\t} _context;\n" : has_contexts(c) ? "\t};\n" : "", f);
	fputs(inside ? "" : "\tfields := struct {\n", f);
	r = r < 0 ? r : put_fields(f, c, 0, &fields);
	fputs("\t\tstruct { } align(32) _padding;\n\t};\n};\n\n", f);
	names_done(&contexts);
	names_done(&fields);
	return r;
}

int spoor_class_metadata(const struct spoor_event_class *c, char **ret, size_t *ret_len)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	int r;

	if (!f)
		return -ENOMEM;
	r = put_class(f, c);
	if (fclose(f))
		r = -ENOMEM;
	if (r < 0) {
		free(text);
		return r;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/user.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "present/text.h"
#include "trace/class.h"

static int is_text(const struct spoor_value *v)
{
	return v->field->type == SPOOR_VALUE_STRING ||
	       (v->field->type == SPOOR_VALUE_TEXT && v->field->shape != SPOOR_SHAPE_SCALAR);
}

static int is_context(const struct spoor_value *v)
{
	return v->field->flags & SPOOR_VALUE_CONTEXT;
}

/* ---- text ---- */

/* The fewest digits that tell it from every other number: 3.14, not 3.1400000000000001. */
static void format_float(const struct spoor_value *v, uint32_t i, char *buf, size_t size)
{
	int single = v->field->size == 4, most = single ? 9 : 17;
	double d = spoor_value_double(v, i);

	for (int digits = single ? 6 : 15; digits <= most; digits++) {
		snprintf(buf, size, "%.*g", digits, d);
		if (single ? strtof(buf, NULL) == (float)d : strtod(buf, NULL) == d)
			return;
	}
}

static void put_float(FILE *out, const struct spoor_value *v, uint32_t i)
{
	char text[40];

	format_float(v, i, text, sizeof(text));
	fputs(text, out);
}

static void put_char(FILE *out, uint64_t c)
{
	fputc('\'', out);
	spoor_put_text(out, (const char[]){ (char)c }, 1);
	fputc('\'', out);
}

static int shown_as(const struct spoor_class_field *f)
{
	return f->flags & SPOOR_VALUE_IN_HEX ? SPOOR_VALUE_HEX : f->type;
}

/* Of what may have been sign-extended the bits that the field has. */
static uint64_t bits(const struct spoor_class_field *f, uint64_t x)
{
	return f->size < 8 ? x & ((1ULL << f->size * 8) - 1) : x;
}

static void put_element(FILE *out, const struct spoor_value *v, uint32_t i)
{
	uint64_t x;

	if (v->field->type == SPOOR_VALUE_FLOAT) {
		put_float(out, v, i);
		return;
	}
	x = spoor_value_integer(v, i);
	switch (shown_as(v->field)) {
	case SPOOR_VALUE_SIGNED:
		fprintf(out, "%" PRId64, (int64_t)x);
		break;
	case SPOOR_VALUE_HEX:
	case SPOOR_VALUE_POINTER:
		fprintf(out, "%#" PRIx64, bits(v->field, x));
		break;
	case SPOOR_VALUE_OCTAL:
		fprintf(out, "%#" PRIo64, x);
		break;
	case SPOOR_VALUE_TEXT:
		put_char(out, x);
		break;
	default:
		fprintf(out, "%" PRIu64, x);
	}
}

static void put_value(FILE *out, const struct spoor_value *v)
{
	const char *label = spoor_value_label(v);

	if (is_text(v)) {
		fputc('"', out);
		spoor_put_text(out, (const char *)v->bytes, v->n);
		fputc('"', out);
		return;
	}
	if (label) {
		spoor_put_string(out, label);
		fputc('(', out);
	}
	if (v->field->shape != SPOOR_SHAPE_SCALAR)
		fputc('[', out);
	for (uint32_t i = 0; i < v->n; i++) {
		fputs(i ? ", " : "", out);
		put_element(out, v, i);
	}
	if (v->field->shape != SPOOR_SHAPE_SCALAR)
		fputc(']', out);
	fputs(label ? ")" : "", out);
}

/* The fields, or the contexts, but for the stack, which has a form of its own. Returns how many there were. */
static int put_values(FILE *out, const struct spoor_value *values, unsigned n, int contexts, const char *before)
{
	int count = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct spoor_value *v = &values[i];

		if (!!is_context(v) != contexts || v->field->type == SPOOR_VALUE_STACK)
			continue;
		fputs(count++ ? contexts ? ", " : " " : before, out);
		spoor_put_string(out, v->field->name);
		fputc('=', out);
		put_value(out, v);
	}
	return count;
}

void spoor_put_format(FILE *out, const char *before, const struct spoor_event_class *c)
{
	if (!c->format)
		return;
	fputs(before, out);
	fputc('"', out);
	spoor_put_string(out, c->format);
	fputc('"', out);
}

void spoor_put_user(FILE *out, const struct spoor_event *ev)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];

	spoor_class_values(ev->class, ev->h, values);
	spoor_put_string(out, ev->class->name);
	spoor_put_format(out, " ", ev->class);
	put_values(out, values, ev->class->n_fields, 0, " ");
	if (put_values(out, values, ev->class->n_fields, 1, " {"))
		fputc('}', out);
}

static const struct spoor_value *stack_of(const struct spoor_value *values, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (values[i].field->type == SPOOR_VALUE_STACK)
			return &values[i];
	return NULL;
}

uint32_t spoor_user_stack(const struct spoor_event *ev)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];
	const struct spoor_value *stack;

	spoor_class_values(ev->class, ev->h, values);
	stack = stack_of(values, ev->class->n_fields);
	return stack ? (uint32_t)spoor_value_integer(stack, 0) : 0;
}

/* ---- JSON ---- */

/* Always with a point or an exponent: -0 and large numbers are then no integers to who reads them. */
static void put_float_json(FILE *out, const struct spoor_value *v, uint32_t i)
{
	double d = spoor_value_double(v, i);
	char text[40];

	if (isnan(d)) {
		fputs("\"nan\"", out);
		return;
	}
	if (isinf(d)) {
		fputs(d < 0 ? "\"-inf\"" : "\"inf\"", out);
		return;
	}
	format_float(v, i, text, sizeof(text));
	fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_element_json(FILE *out, const struct spoor_value *v, uint32_t i)
{
	uint64_t x;

	if (v->field->type == SPOOR_VALUE_FLOAT) {
		put_float_json(out, v, i);
		return;
	}
	x = spoor_value_integer(v, i);
	switch (shown_as(v->field)) {
	case SPOOR_VALUE_SIGNED:
		fprintf(out, "%" PRId64, (int64_t)x);
		break;
	case SPOOR_VALUE_HEX:
	case SPOOR_VALUE_POINTER:
		fprintf(out, "\"0x%" PRIx64 "\"", bits(v->field, x));
		break;
	case SPOOR_VALUE_OCTAL:
		fprintf(out, "\"%#" PRIo64 "\"", x);
		break;
	case SPOOR_VALUE_TEXT:
		spoor_put_json_bytes(out, (const char[]){ (char)x }, 1);
		break;
	default:
		fprintf(out, "%" PRIu64, x);
	}
}

static void put_value_json(FILE *out, const struct spoor_value *v)
{
	if (is_text(v)) {
		spoor_put_json_bytes(out, (const char *)v->bytes, v->n);
		return;
	}
	if (v->field->n_values) {
		fputs("{\"value\":", out);
		put_element_json(out, v, 0);
		fputs(",\"name\":", out);
		spoor_put_json_string(out, spoor_value_label(v));
		fputc('}', out);
		return;
	}
	if (v->field->shape == SPOOR_SHAPE_SCALAR) {
		put_element_json(out, v, 0);
		return;
	}
	fputc('[', out);
	for (uint32_t i = 0; i < v->n; i++) {
		fputs(i ? "," : "", out);
		put_element_json(out, v, i);
	}
	fputc(']', out);
}

/* A name that another field had before gets a number, for readers keep one member of a name. */
static void put_key(FILE *out, const struct spoor_value *values, unsigned i)
{
	const struct spoor_class_field *f = values[i].field;
	char name[256];
	unsigned n = 1;

	for (unsigned k = 0; k < i; k++)
		n += !!is_context(&values[k]) == !!is_context(&values[i]) && !strcmp(values[k].field->name, f->name);
	if (n > 1)
		snprintf(name, sizeof(name), "%.200s#%u", f->name, n);
	spoor_put_json_string(out, n > 1 ? name : f->name);
}

static void put_object(FILE *out, const struct spoor_value *values, unsigned n, int contexts)
{
	int count = 0;

	fputc('{', out);
	for (unsigned i = 0; i < n; i++) {
		if (!!is_context(&values[i]) != contexts || values[i].field->type == SPOOR_VALUE_STACK)
			continue;
		fputs(count++ ? "," : "", out);
		put_key(out, values, i);
		fputc(':', out);
		put_value_json(out, &values[i]);
	}
	fputc('}', out);
}

/* Where the context tells it: lanes are of no CPU. */
static void put_cpu(FILE *out, const struct spoor_event_class *c, const struct spoor_value *values)
{
	int i = spoor_class_find(c, "cpu", 1);

	if (i >= 0 && values[i].field->shape == SPOOR_SHAPE_SCALAR && values[i].field->type == SPOOR_VALUE_UNSIGNED)
		fprintf(out, "\"cpu\":%" PRIu64 ",", spoor_value_integer(&values[i], 0));
}

static void put_who(struct spoor_view *v, const struct spoor_event *ev)
{
	if (v->user_pid)
		fprintf(v->out, "\"pid\":%u,\"tid\":%u,\"comm\":", v->user_pid, ev->h->tid);
	else
		fprintf(v->out, "\"pid\":null,\"tid\":%u,\"comm\":", ev->h->tid);
	spoor_put_json_string(v->out, spoor_view_comm(ev->segment, ev->h->tid, ev->h->ts));
}

int spoor_put_user_json(struct spoor_view *v, const struct spoor_event *ev)
{
	const struct spoor_event_class *c = ev->class;
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];
	const struct spoor_value *stack;
	char ts[32];

	spoor_class_values(c, ev->h, values);
	spoor_format_epoch(ev->h->ts + spoor_trace_info(v->trace)->epoch_offset, ts, sizeof(ts));
	fprintf(v->out, "{\"ts\":\"%s\",", ts);
	put_cpu(v->out, c, values);
	put_who(v, ev);
	fputs(",\"event\":", v->out);
	spoor_put_json_string(v->out, c->name);
	if (c->format) {
		fputs(",\"format\":", v->out);
		spoor_put_json_string(v->out, c->format);
	}
	fputs(",\"fields\":", v->out);
	put_object(v->out, values, c->n_fields, 0);
	if (c->n_fields && is_context(&values[0])) {
		fputs(",\"context\":", v->out);
		put_object(v->out, values, c->n_fields, 1);
	}
	stack = stack_of(values, c->n_fields);
	if (stack)
		spoor_put_stack_json(v, ev->segment, v->user_pid, (uint32_t)spoor_value_integer(stack, 0));
	fputs("}\n", v->out);
	return ferror(v->out) ? -EPIPE : 0;
}

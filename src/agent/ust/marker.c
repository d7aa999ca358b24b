/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "agent/core/process.h"
#include "agent/ust/callstack.h"
#include "agent/ust/marker.h"
#include "agent/ust/marker_plan.h"
#include "agent/ust/probes.h"
#include <spoor/marker.h>
#include <spoor/record.h>

#define MAX_FIELDS_SIZE 8192

int marker_fields(struct class *c)
{
	static struct marker_plan plan; /* too large for a stack that may be small */
	static char fields[MAX_FIELDS_SIZE];
	struct marker_plan *kept;
	char *end;
	int n = marker_parse(c->format, &plan, fields, fields + sizeof(fields), &end);
	void *p;

	if (n < 0) { /* it is there all the same */
		n = 0;
		plan.n = 0;
		end = fields;
	}
	kept = keep(offsetof(struct marker_plan, arguments) + plan.n * sizeof(plan.arguments[0]));
	p = keep((size_t)(end - fields) + 1);
	if (!kept || !p)
		return -ENOMEM;
	c->plan = memcpy(kept, &plan, offsetof(struct marker_plan, arguments) + plan.n * sizeof(plan.arguments[0]));
	c->fields = memcpy(p, fields, (size_t)(end - fields));
	c->fields_size = (uint32_t)(end - fields);
	c->n_fields = (uint16_t)n;
	return 0;
}

/* An argument, ready to be copied: the bytes themselves, or a string. */
struct value {
	const char *string;
	uint64_t bits;
	uint32_t length; /* bytes to store, a string's NUL not counted */
	bool is_string;
};

/* As printf would show it, however wide it is stored. */
static uint64_t extended(uint64_t v, const struct marker_argument *a)
{
	unsigned above = 64 - 8U * a->passed;

	return a->is_signed ? (uint64_t)((int64_t)(v << above) >> above) : v << above >> above;
}

static uint64_t swapped(uint64_t v, unsigned bytes)
{
	return __builtin_bswap64(v) >> (64 - 8 * bytes);
}

static uint32_t bounded_length(const char *s, int32_t most)
{
	size_t n;

	if (most < 0)
		return (uint32_t)spoor_string_length_(s);
	for (n = 0; n < (size_t)most && n < SPOOR_STRING_MAX_ && s[n]; n++)
		; /* not one byte beyond: it need not end with a NUL */
	return (uint32_t)n;
}

static void take_string(const struct marker_argument *a, const char *s, int32_t precision, struct value *ret)
{
	ret->is_string = true;
	ret->string = s ?: "(null)";
	ret->length = s ? bounded_length(s, precision >= 0 ? precision : a->precision) : 6;
}

/* Takes the arguments one by one. The number of values, and of bytes for them. */
static unsigned take_values(const struct marker_plan *plan, va_list args, struct value *values, size_t *ret_size)
{
	int32_t precision = -1;
	unsigned i, n = 0;
	size_t size = 0;

	for (i = 0; i < plan->n; i++) {
		const struct marker_argument *a = &plan->arguments[i];
		struct value v = { .length = a->bytes };
		double d;

		switch (a->pass) {
		case PASS_SKIPPED:
			va_arg(args, int);
			continue;
		case PASS_PRECISION:
			precision = va_arg(args, int);
			continue;
		case PASS_INT:
			v.bits = extended((uint64_t)va_arg(args, int), a);
			break;
		case PASS_LONG:
			v.bits = (uint64_t)va_arg(args, long);
			break;
		case PASS_DOUBLE:
		case PASS_LONG_DOUBLE:
			d = a->pass == PASS_DOUBLE ? va_arg(args, double) : (double)va_arg(args, long double);
			memcpy(&v.bits, &d, sizeof(d));
			break;
		case PASS_ERRNO:
			v.bits = (uint64_t)errno;
			break;
		case PASS_STRING:
			take_string(a, va_arg(args, const char *), precision, &v);
			precision = -1;
			break;
		}
		if (a->swap)
			v.bits = swapped(v.bits, a->bytes);
		size += v.length + v.is_string;
		values[n++] = v;
	}
	*ret_size = size;
	return n;
}

static void put_values(char *at, const struct value *values, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		const struct value *v = &values[i];

		if (v->is_string) {
			at = spoor_put_string_(at, v->string, v->length);
			continue;
		}
		memcpy(at, &v->bits, sizeof(v->bits) < v->length ? sizeof(v->bits) : v->length);
		at += v->length;
	}
}

static void call_probes(struct spoor_tracepoint *tp, const char *format, va_list args)
{
	const int error = errno; /* what %m means, in each of them and to who records */
	const struct spoor_probe *p;

	for (p = probes_begin(tp); p->function; p++) {
		va_list copy;

		va_copy(copy, args);
		errno = error;
		((marker_probe_func *)p->function)(p->data, NULL, format, &copy);
		va_end(copy);
	}
	probes_end();
	errno = error;
}

void marker_record(struct spoor_tracepoint *tp, const char *format, ...)
{
	const struct class *c = tp->agent;
	struct value values[MARKER_MAX_FIELDS];
	struct spoor_handle h;
	unsigned n;
	size_t size;
	va_list args;

	va_start(args, format);
	if (tp->probes)
		call_probes(tp, format, args);
	n = take_values(c->plan, args, values, &size);
	va_end(args);
	size = SPOOR_RECORD_SIZE_(size);
	WITH_FRAME_POINTER_();
	h = tp->reserve(tp, size, __builtin_return_address(0));
	if (!h.at)
		return;
	put_values(h.at + SPOOR_RECORD_HEAD_, values, n);
	spoor_commit_(tp, h, size);
}

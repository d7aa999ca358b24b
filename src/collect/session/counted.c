/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/counted.h"

#include <string.h>

static void add_error(struct spoor_counter_sum *to, uint32_t error, uint64_t n)
{
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++) {
		if (!to->error[i])
			to->error[i] = error;
		if (to->error[i] == error) {
			to->error_n[i] += n;
			return;
		}
	}
}

static void add_open(struct spoor_counter_open *to, const struct spoor_counter_open *open)
{
	to->n += open->n;
	to->ns += open->ns;
	to->blocked_ns += open->blocked_ns;
}

void spoor_sum_add(struct spoor_counter_sum *to, const struct spoor_counter_sum *s)
{
	to->errors += s->errors;
	to->ns += s->ns;
	to->max_ns = s->max_ns > to->max_ns ? s->max_ns : to->max_ns;
	if (s->min_complement > to->min_complement)
		to->min_complement = s->min_complement;
	to->blocked_ns += s->blocked_ns;
	add_open(&to->unreturned, &s->unreturned);
	add_open(&to->left, &s->left);
	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		to->histogram[i] += s->histogram[i];
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++)
		if (s->error[i])
			add_error(to, s->error[i], s->error_n[i]);
}

static uint64_t calls_of(const struct spoor_counter_sum *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		n += s->histogram[i];
	return n;
}

uint64_t spoor_sum_entered(const struct spoor_counter_sum *s)
{
	return calls_of(s) + s->unreturned.n + s->left.n;
}

struct spoor_counted_call spoor_counted_sum(const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	struct spoor_counted_call call = {
		.id = key->id,
		.stack = key->stack,
		.calls = calls_of(s),
		.errors = s->errors,
		.ns = s->ns,
		.max_ns = s->max_ns,
		.blocked_ns = s->blocked_ns,
		.unreturned = s->unreturned,
		.left = s->left,
	};

	call.min_ns = call.calls ? ~s->min_complement : 0;
	memcpy(call.histogram, s->histogram, sizeof(call.histogram));
	memcpy(call.error, s->error, sizeof(call.error));
	memcpy(call.error_n, s->error_n, sizeof(call.error_n));
	return call;
}

struct spoor_counted_call spoor_counted_slot(const struct spoor_counter_slot *s, const struct spoor_counter_wide *w)
{
	struct spoor_counted_call call = {
		.id = s->id,
		.stack = s->stack,
		.errors = s->errors,
		.ns = s->ns,
		.max_ns = s->max_ns,
		.blocked_ns = s->blocked_ns,
	};

	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++) {
		call.histogram[i] = s->histogram[i] + (w ? (uint64_t)w->histogram[i] << SPOOR_WIDE_SHIFT : 0);
		call.calls += call.histogram[i];
	}
	call.min_ns = call.calls ? s->min_ns : 0;
	for (unsigned i = 0; i < SPOOR_SLOT_ERRNOS; i++) {
		call.error[i] = s->error[i];
		call.error_n[i] = s->error_n[i];
	}
	return call;
}

struct spoor_counter_open spoor_counted_flight(const struct spoor_counter_thread *t)
{
	const struct spoor_counter_flight *f = &t->flight;
	struct spoor_counter_open open = { .n = 1, .ns = t->at > f->start ? t->at - f->start : 0 };

	open.blocked_ns = f->blocked_ns + (f->off && t->at > f->off ? t->at - f->off : 0);
	if (open.blocked_ns > open.ns)
		open.blocked_ns = open.ns;
	return open;
}

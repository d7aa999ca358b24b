/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/session/ended.h"

#define MOST_PENDING 16384

/* A sum whose stack's id is not known yet. */
struct pending {
	struct spoor_counter_key key;
	struct spoor_counter_sum s;
};

struct spoor_counts {
	struct spoor_rounds *rounds;
	struct spoor_ended *ended;
	spoor_counts_stack_fn stack_of;
	void *stacks;
	struct pending *pending;
	size_t n_pending, room_pending;
	bool want_finals;
	const struct spoor_count_visitor *visitor; /* of the round under way */
	int error;                                 /* of it */
};

int spoor_counts_new(struct spoor_kernel *k, bool keep, bool finals, struct spoor_counts **ret)
{
	struct spoor_counts *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->want_finals = finals;
	r = spoor_ended_new(keep, &c->ended);
	if (!r)
		r = spoor_rounds_new(k, &c->rounds);
	if (r) {
		spoor_counts_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void spoor_counts_free(struct spoor_counts *c)
{
	if (!c)
		return;
	spoor_ended_free(c->ended);
	spoor_rounds_free(c->rounds);
	free(c->pending);
	free(c);
}

void spoor_counts_name_stacks(struct spoor_counts *c, spoor_counts_stack_fn stack_of, void *ctx)
{
	c->stack_of = stack_of;
	c->stacks = ctx;
}

/* ---- what ended threads have left ---- */

static bool put_off(struct spoor_counts *c, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	if (c->n_pending == c->room_pending) {
		size_t room = c->room_pending * 2 + 64;
		struct pending *p = room <= MOST_PENDING ? realloc(c->pending, room * sizeof(*p)) : NULL;

		if (!p)
			return false;
		c->pending = p;
		c->room_pending = room;
	}
	c->pending[c->n_pending++] = (struct pending){ *key, *s };
	return true;
}

static void on_sum(void *ctx, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	struct spoor_counts *c = ctx;
	struct spoor_counter_key named = *key;

	if (c->stack_of && key->stack) {
		named.stack = c->stack_of(c->stacks, key->stack, false);
		if (!named.stack && put_off(c, key, s))
			return;
		if (!named.stack)
			named.stack = c->stack_of(c->stacks, key->stack, true);
	}
	spoor_ended_add(c->ended, &named, s);
}

/* Once it was handed out under an id a call cannot have another one. now: nothing may be left. */
static void work_off_pending(struct spoor_counts *c, bool now)
{
	size_t left = 0;

	for (size_t i = 0; i < c->n_pending; i++) {
		struct pending p = c->pending[i];
		uint32_t stack = c->stack_of(c->stacks, p.key.stack, now);

		if (!stack) {
			c->pending[left++] = p;
			continue;
		}
		p.key.stack = stack;
		spoor_ended_add(c->ended, &p.key, &p.s);
	}
	c->n_pending = left;
}

static void on_process(void *ctx, const struct spoor_counter_owner *owner, const struct spoor_counter_process *k,
		       unsigned bank, bool final)
{
	struct spoor_counts *c = ctx;
	int r = spoor_ended_process(c->ended, owner, k, bank, final);

	c->error = c->error ?: r;
}

/* Where nobody asks for ended processes they are passed over. */
static void pass_over_finals(struct spoor_counts *c)
{
	if (!c->want_finals)
		spoor_ended_finals(c->ended, NULL);
}

/* ---- live threads ---- */

static bool in_flight_here(const struct spoor_counter_flight *f, uint16_t id, uint32_t stack)
{
	return f->start && f->id == id && f->stack == stack;
}

static void on_thread(void *ctx, const struct spoor_counter_thread *t, const struct spoor_counter_slot *slots,
		      const struct spoor_counter_wide *wides)
{
	struct spoor_counts *c = ctx;
	const struct spoor_count_visitor *v = c->visitor;
	struct spoor_counted_task task = {
		.pid = t->pid,
		.tid = t->tid,
		.serial = t->serial,
		.first_pid = t->pid,
		.ppid = t->ppid,
		.start_ns = t->start,
		.process_start_ns = t->process_start,
		.threads = 1,
		.processes = 1,
		.overflow = t->overflow,
	};
	struct spoor_counter_flight flight = t->flight;
	struct spoor_counted_call call;
	bool flown = !flight.start;

	memcpy(task.comm, t->comm, sizeof(task.comm));
	v->task(v->ctx, &task);
	for (unsigned i = 0; i < t->n_slots; i++) {
		call = spoor_counted_slot(&slots[i], slots[i].wide ? wides : NULL);
		wides += slots[i].wide;
		if (!flown && in_flight_here(&flight, call.id, call.stack)) {
			call.in_flight = spoor_counted_flight(t);
			flown = true;
		}
		if (call.calls || call.in_flight.n)
			v->call(v->ctx, &call);
	}
	if (!flown) {
		if (c->stack_of && flight.stack)
			flight.stack = c->stack_of(c->stacks, flight.stack, true);
		call = (struct spoor_counted_call){ .id = flight.id,
						    .stack = flight.stack,
						    .in_flight = spoor_counted_flight(t) };
		v->call(v->ctx, &call);
	}
	if (v->end)
		v->end(v->ctx);
}

/* ---- rounds ---- */

int spoor_counts_take(struct spoor_counts *c, const struct spoor_count_visitor *v)
{
	const struct spoor_round_reader reader = {
		.thread = on_thread, .sum = on_sum, .process = on_process, .ctx = c
	};
	int r;

	c->visitor = v;
	c->error = 0;
	r = spoor_round(c->rounds, true, &reader);
	work_off_pending(c, true);
	pass_over_finals(c);
	spoor_ended_visit(c->ended, v);
	return r ? r : c->error;
}

int spoor_counts_collect(struct spoor_counts *c)
{
	const struct spoor_round_reader reader = { .sum = on_sum, .process = on_process, .ctx = c };
	int r;

	c->error = 0;
	r = spoor_round(c->rounds, false, &reader);
	work_off_pending(c, spoor_ended_has_finals(c->ended));
	pass_over_finals(c);
	return r ? r : c->error;
}

size_t spoor_counts_finals(struct spoor_counts *c, const struct spoor_count_visitor *v)
{
	return spoor_ended_finals(c->ended, v);
}

uint64_t spoor_counts_lost(const struct spoor_counts *c)
{
	return spoor_rounds_lost(c->rounds) + spoor_ended_lost(c->ended);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"

struct output outputs[SPOOR_OUTPUTS];
struct slot slots[SPOOR_SLOTS];

static void fill_slots(struct output *o)
{
	struct spoor_arena *a = o->made.arena;
	uint32_t i;

	for (i = 0; i < a->n_channels; i++) {
		struct slot *s = &slots[o->first_slot + i];
		struct spoor_arena_channel *c = &a->channels[i];

		s->arena = a;
		s->channel = c;
		s->packets = arena_packets(a) + c->first_packet;
		s->data = (char *)a + a->data_offset + (uint64_t)c->first_packet * c->packet_size;
		s->packet_size = c->packet_size;
		s->n_packets = c->n_packets;
		s->n_shared = c->n_shared;
		s->mode = c->mode;
		s->output = o;
	}
}

/* `n` slots in a row that nobody has used. */
static int find_slots(uint32_t n, uint32_t *ret)
{
	uint32_t i, free = 0;

	for (i = 0; i < SPOOR_SLOTS; i++) {
		free = slots[i].output ? 0 : free + 1;
		if (free < n)
			continue;
		*ret = i + 1 - n;
		return 0;
	}
	return -EBUSY;
}

int output_open(const struct arena_wish *wish, struct output **ret)
{
	struct output *o = NULL;
	uint32_t first;
	int i, r = find_slots(wish->n_channels, &first);

	if (r)
		return r;
	for (i = 0; i < SPOOR_OUTPUTS && !o; i++)
		if (!outputs[i].used)
			o = &outputs[i];
	if (!o)
		return -EBUSY;
	r = arena_make(wish, &o->made);
	if (r)
		return r;
	o->wish = *wish;
	o->first_slot = first;
	o->spill_fd = -1;
	o->used = true;
	fill_slots(o);
	*ret = o;
	return 0;
}

/*
 * The parent's arena stays mapped: an event that was half written when a signal handler forked goes on into it, with
 * the same bytes that the parent writes.
 */
static int renew(struct output *o)
{
	struct spoor_arena *old = o->made.arena;
	struct arena_made made;
	int r = arena_make(&o->wish, &made);

	if (!r)
		r = arena_define_as(made.arena, old);
	if (r)
		return r;
	o->made = made;
	o->spill_fd = -1;
	o->spilled = 0;
	o->spill_lock = 0;
	o->clocks_spilled = 0;
	fill_slots(o);
	return 0;
}

int outputs_renew(void)
{
	int i, r = 0;

	if (!process_lock())
		return -EDEADLK;
	if (!process->alive) {
		process->pid = sys_pid();
		for (i = 0; i < SPOOR_OUTPUTS && !r; i++)
			if (outputs[i].used)
				r = renew(&outputs[i]);
		if (!r)
			process->alive = 1;
	}
	process_unlock();
	return r;
}

void outputs_end(void)
{
	int i;

	if (!process->alive || process->pid != sys_pid())
		return; /* a child that wrote no event */
	for (i = 0; i < SPOOR_OUTPUTS; i++)
		if (outputs[i].used)
			__atomic_store_n(&outputs[i].made.arena->state, SPOOR_ARENA_ENDED, __ATOMIC_RELEASE);
}

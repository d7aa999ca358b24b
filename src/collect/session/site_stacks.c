/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/site_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "collect/kernel/ring.h"
#include "trace/stack_set.h"

#define BUCKETS 4096

/* An id that has been given out before it was known which stack it is of: it stays its own, for ever. */
struct own {
	struct own *next;
	uint32_t id;
};

struct spoor_site_stacks {
	struct spoor_kernel *k;
	struct spoor_objects *objects;
	struct spoor_segment *definitions;
	bool defined[SPOOR_KERNEL_OBJECTS];
	uint64_t lost; /* for want of memory */
	struct spoor_stack_set unwound; /* what user space has unwound, by content */
	uint64_t seed;
	struct own *own[BUCKETS];
};

int spoor_site_stacks_new(struct spoor_kernel *k, struct spoor_objects *objects, struct spoor_site_stacks **ret)
{
	struct spoor_site_stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->k = k;
	s->objects = objects;
	if (spoor_stack_seed(&s->seed) || spoor_definitions_new(&s->definitions)) {
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void spoor_site_stacks_free(struct spoor_site_stacks *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct own *o = s->own[i], *next; o; o = next) {
			next = o->next;
			free(o);
		}
	}
	spoor_stack_set_done(&s->unwound);
	spoor_definitions_free(s->definitions);
	free(s);
}

static void define_object(struct spoor_site_stacks *s, uint32_t id)
{
	void *def; /* an event, which the compiler takes for packed to bytes */

	if (id >= SPOOR_KERNEL_OBJECTS || s->defined[id])
		return;
	def = spoor_objects_definition(s->objects, id);
	if (!def)
		return;
	s->defined[id] = !spoor_definitions_add(s->definitions, def);
	free(def);
	def = spoor_objects_place(s->objects, id);
	if (def)
		spoor_definitions_add(s->definitions, def);
	free(def);
}

static void define_stack(void *ctx, const struct spoor_stack *st)
{
	struct spoor_site_stacks *s = ctx;

	for (unsigned i = 0; i < st->n; i++)
		define_object(s, SPOOR_FRAME_OBJECT(st->frames[i]));
	if (spoor_definitions_add(s->definitions, &st->h))
		s->lost++;
}

/* ---- raw stacks: each has an id of its own, equal ones count under that of the first ---- */

static bool is_own(const struct spoor_site_stacks *s, uint32_t id)
{
	const struct own *o = s->own[id & (BUCKETS - 1)];

	while (o && o->id != id)
		o = o->next;
	return o;
}

static void make_own(struct spoor_site_stacks *s, uint32_t id)
{
	struct own **at = &s->own[id & (BUCKETS - 1)], *o = malloc(sizeof(*o));

	if (!o)
		return;
	*o = (struct own){ .next = *at, .id = id };
	*at = o;
}

static void define_unwound(void *ctx, const struct spoor_stack *st)
{
	struct spoor_site_stacks *s = ctx;
	struct spoor_stack_key key = spoor_stack_key(st, s->seed);
	uint32_t first = spoor_stack_set_get(&s->unwound, &key);
	struct spoor_stack_alias alias = { .h = { .id = SPOOR_EV_STACK_ALIAS, .size4 = sizeof(alias) / 4 },
					   .id = st->id,
					   .stack = first };

	if (first && !is_own(s, st->id) && !spoor_definitions_add(s->definitions, &alias.h))
		return;
	define_stack(s, st);
	if (!first)
		spoor_stack_set_put(&s->unwound, &key, st->id);
}

uint32_t spoor_site_stacks_id(struct spoor_site_stacks *s, uint32_t stack, bool now)
{
	const struct spoor_stack *known;

	if (is_own(s, stack))
		return stack;
	known = spoor_segment_stack(s->definitions, stack);
	if (known)
		return known->id;
	if (!now)
		return 0;
	make_own(s, stack);
	return stack;
}

/* ---- taking ---- */

static void take(struct spoor_site_stacks *s, const struct spoor_event_header *h)
{
	switch (h->id) {
	case SPOOR_EV_STACK:
		define_stack(s, (const void *)h);
		break;
	case SPOOR_CTL_OBJECT:
		spoor_objects_announce(s->objects, (const void *)h);
		break;
	case SPOOR_CTL_LAYOUT:
		spoor_objects_layout(s->objects, (const void *)h);
		break;
	case SPOOR_CTL_RAW:
		spoor_objects_raw(s->objects, (const void *)h);
		break;
	}
}

static void drain_ring(struct spoor_site_stacks *s, struct spoor_ring *ring)
{
	struct spoor_ring_reader read = spoor_ring_begin(s->k, ring);

	for (const struct spoor_event_header *h; (h = spoor_ring_peek(&read)); spoor_ring_skip(&read, h))
		take(s, h);
	spoor_ring_release(&read);
}

/* Files that could be opened after all: the later definition counts. */
static void define_returned(struct spoor_site_stacks *s)
{
	uint32_t ids[64];
	size_t n;

	do {
		n = spoor_objects_returned(s->objects, ids, 64);
		for (size_t i = 0; i < n; i++) {
			if (!s->defined[ids[i]])
				continue;
			s->defined[ids[i]] = false;
			define_object(s, ids[i]);
		}
	} while (n == 64);
}

void spoor_site_stacks_drain(struct spoor_site_stacks *s)
{
	define_returned(s);
	spoor_objects_unwound(s->objects, define_unwound, s);
	for (unsigned cpu = 0; cpu < s->k->n_cpus; cpu++)
		for (unsigned level = 0; level < SPOOR_LEVELS; level++)
			drain_ring(s, spoor_kernel_ring(s->k, cpu, level));
}

const struct spoor_segment *spoor_site_stacks_segment(const struct spoor_site_stacks *s)
{
	return s->definitions;
}

uint64_t spoor_site_stacks_lost(const struct spoor_site_stacks *s)
{
	uint64_t n = s->lost;

	for (unsigned cpu = 0; cpu < s->k->n_cpus; cpu++)
		for (unsigned level = 0; level < SPOOR_LEVELS; level++)
			n += spoor_kernel_ring(s->k, cpu, level)->dropped;
	return n;
}

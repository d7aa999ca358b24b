/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/site_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/kernel/ring.h"

#define BUCKETS 4096

/* A stack that user space has unwound, by its content. */
struct known {
	struct known *next;
	uint32_t id;
};

/* Under which id a stack counts that was handed out raw; its own: its definition is wanted. */
struct alias {
	struct alias *next;
	uint32_t raw, id;
};

struct spoor_site_stacks {
	struct spoor_kernel *k;
	struct spoor_objects *objects;
	struct spoor_segment *definitions;
	bool defined[SPOOR_KERNEL_OBJECTS];
	uint64_t lost; /* for want of memory */
	struct known *known[BUCKETS];
	struct alias *aliases[BUCKETS];
};

int spoor_site_stacks_new(struct spoor_kernel *k, struct spoor_objects *objects, struct spoor_site_stacks **ret)
{
	struct spoor_site_stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->k = k;
	s->objects = objects;
	if (spoor_definitions_new(&s->definitions)) {
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
		for (struct known *k = s->known[i], *next; k; k = next) {
			next = k->next;
			free(k);
		}
		for (struct alias *a = s->aliases[i], *next; a; a = next) {
			next = a->next;
			free(a);
		}
	}
	spoor_definitions_free(s->definitions);
	free(s);
}

static void define_object(struct spoor_site_stacks *s, uint32_t id)
{
	struct spoor_object *def;

	if (id == SPOOR_OBJECT_NONE || id >= SPOOR_KERNEL_OBJECTS || s->defined[id])
		return;
	def = spoor_objects_definition(s->objects, id);
	if (!def)
		return;
	s->defined[id] = !spoor_definitions_add(s->definitions, &def->h);
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

static struct alias **place_of_alias(struct spoor_site_stacks *s, uint32_t raw)
{
	return &s->aliases[raw & (BUCKETS - 1)];
}

static struct alias *find_alias(struct spoor_site_stacks *s, uint32_t raw)
{
	struct alias *a = *place_of_alias(s, raw);

	while (a && a->raw != raw)
		a = a->next;
	return a;
}

static bool add_alias(struct spoor_site_stacks *s, uint32_t raw, uint32_t id)
{
	struct alias **at = place_of_alias(s, raw), *a = malloc(sizeof(*a));

	if (!a)
		return false;
	*a = (struct alias){ .next = *at, .raw = raw, .id = id };
	*at = a;
	return true;
}

static struct known **place_of_stack(struct spoor_site_stacks *s, const struct spoor_stack *st)
{
	uint64_t h = (uint64_t)st->status << 16 | st->n;

	for (unsigned i = 0; i < st->n; i++) {
		h = (h ^ st->frames[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return &s->known[h & (BUCKETS - 1)];
}

static bool same_stack(const struct spoor_stack *a, const struct spoor_stack *b)
{
	return a && a->status == b->status && a->n == b->n &&
	       !memcmp(a->frames, b->frames, a->n * sizeof(a->frames[0]));
}

static void define_unwound(void *ctx, const struct spoor_stack *st)
{
	struct spoor_site_stacks *s = ctx;
	struct known **at = place_of_stack(s, st), *k;

	for (k = *at; k && !same_stack(spoor_segment_stack(s->definitions, k->id), st);)
		k = k->next;
	if (k && !find_alias(s, st->id) && add_alias(s, st->id, k->id))
		return;
	define_stack(s, st);
	if (k)
		return;
	k = malloc(sizeof(*k));
	if (!k)
		return;
	*k = (struct known){ .next = *at, .id = st->id };
	*at = k;
}

uint32_t spoor_site_stacks_id(struct spoor_site_stacks *s, uint32_t stack, bool now)
{
	const struct alias *a = find_alias(s, stack);

	if (a)
		return a->id;
	if (spoor_segment_stack(s->definitions, stack))
		return stack;
	if (!now)
		return 0;
	add_alias(s, stack, stack);
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

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "collect/user/stack_objects.h"
#include "trace/record.h"

#define STACK_BIT 0x80000000u         /* ids of stacks of the kernel side have it not */
#define MOST_BYTES (64u << 20)        /* kept of stacks; beyond, equal ones get another id */
#define REMEMBERED 4096               /* walks of a program; a power of two */

struct kept {
	uint64_t hash;
	uint32_t id, segment; /* segment: that it was defined in last */
	uint16_t status, way, n;
	uint64_t frames[];
};

struct spoor_user_stacks {
	struct spoor_writer *w;
	struct spoor_stack_objects *objects;
	struct kept **all; /* open addressing, a power of two */
	size_t n, size, bytes;
	uint32_t last_id, segment;
	uint64_t serial; /* tells it from others */
};

struct spoor_user_addresses {
	uint64_t of; /* whose ids they are: a program may be in a snapshot, too */
	struct {
		uint64_t hash;
		uint32_t id, segment;
	} walks[REMEMBERED];
};

int spoor_user_stacks_new(struct spoor_writer *w, struct spoor_user_stacks **ret)
{
	static uint64_t serial;
	struct spoor_user_stacks *s = calloc(1, sizeof(*s));

	if (!s || spoor_stack_objects_new(w, &s->objects)) {
		free(s);
		return -ENOMEM;
	}
	s->w = w;
	s->segment = 1;
	s->serial = ++serial;
	if (w) { /* a trace that is gone on with: our ids come behind */
		uint32_t objects;

		spoor_writer_known_ids(w, &s->last_id, &objects);
		s->last_id &= ~STACK_BIT;
		spoor_stack_objects_resume(s->objects, objects);
	}
	*ret = s;
	return 0;
}

static void forget(struct spoor_user_stacks *s)
{
	for (size_t i = 0; i < s->size; i++)
		free(s->all[i]);
	free(s->all);
	s->all = NULL;
	s->n = s->size = s->bytes = 0;
}

void spoor_user_stacks_free(struct spoor_user_stacks *s)
{
	if (!s)
		return;
	forget(s);
	spoor_stack_objects_free(s->objects);
	free(s);
}

void spoor_user_stacks_segment(struct spoor_user_stacks *s)
{
	s->segment++;
	spoor_stack_objects_segment(s->objects);
}

void spoor_user_addresses_free(struct spoor_user_addresses *a)
{
	free(a);
}

/* ---- by content ---- */

static size_t slot_of(const struct spoor_user_stacks *s, const struct kept *k)
{
	size_t i = k->hash & (s->size - 1);

	for (; s->all[i]; i = (i + 1) & (s->size - 1)) {
		const struct kept *o = s->all[i];

		if (o->hash == k->hash && o->n == k->n && o->status == k->status && o->way == k->way &&
		    !memcmp(o->frames, k->frames, k->n * sizeof(*k->frames)))
			break;
	}
	return i;
}

static int make_room(struct spoor_user_stacks *s)
{
	struct spoor_user_stacks bigger = *s;

	if (s->bytes > MOST_BYTES)
		forget(s);
	if (s->n * 2 < s->size)
		return 0;
	bigger = *s;
	bigger.size = s->size ? s->size * 2 : 256;
	bigger.all = calloc(bigger.size, sizeof(*bigger.all));
	if (!bigger.all)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->all[i])
			bigger.all[slot_of(&bigger, s->all[i])] = s->all[i];
	free(s->all);
	*s = bigger;
	return 0;
}

/* The same stack as it is kept, if need be from now on. */
static struct kept *keep(struct spoor_user_stacks *s, const struct kept *k)
{
	size_t bytes = sizeof(*k) + k->n * sizeof(*k->frames), i;
	struct kept *new;

	if (make_room(s))
		return NULL;
	i = slot_of(s, k);
	if (s->all[i])
		return s->all[i];
	new = s->last_id < STACK_BIT - 1 ? malloc(bytes) : NULL;
	if (!new)
		return NULL;
	memcpy(new, k, bytes);
	new->id = ++s->last_id | STACK_BIT;
	s->bytes += bytes;
	s->n++;
	return s->all[i] = new;
}

static int define(struct spoor_user_stacks *s, const struct kept *k, uint64_t ns)
{
	struct {
		struct spoor_stack stack;
		uint64_t frames[SPOOR_ARENA_MAX_FRAMES];
	} def = {};

	def.stack.h.id = SPOOR_EV_STACK;
	def.stack.h.size4 = SPOOR_SIZE4(sizeof(def.stack) + k->n * sizeof(*k->frames));
	def.stack.h.ts = ns;
	def.stack.id = k->id;
	def.stack.status = k->status;
	def.stack.way = k->way;
	def.stack.n = k->n;
	memcpy(def.frames, k->frames, k->n * sizeof(*k->frames));
	return s->w ? spoor_writer_define_user(s->w, &def.stack.h) : 0;
}

/* ---- from addresses ---- */

static uint64_t frame_of(struct spoor_user_stacks *s, struct spoor_user_walker *who, size_t n_objects,
			 const struct spoor_user_walk *walk, uint64_t a)
{
	uint64_t at = SPOOR_ADDRESS(a), interrupted = a & SPOOR_ADDRESS_INTERRUPTED ? SPOOR_FRAME_INTERRUPTED : 0;
	struct spoor_code_object *o = NULL;

	if (!(a & SPOOR_ADDRESS_BARE))
		o = spoor_code_find(who->code, n_objects, at - !interrupted);
	if (!o)
		return SPOOR_FRAME(SPOOR_OBJECT_NONE, at) | interrupted;
	o->id = spoor_stack_objects_id(s->objects, o, who->pid, walk->ns);
	return SPOOR_FRAME(o->id, o->id ? at - o->bias : at) | interrupted;
}

static uint32_t intern(struct spoor_user_stacks *s, struct spoor_user_walker *who, size_t n_objects,
		       const struct spoor_user_walk *walk)
{
	struct {
		struct kept k;
		uint64_t frames[SPOOR_ARENA_MAX_FRAMES];
	} new = { .k = { .status = walk->status, .way = walk->way, .n = walk->n } };
	struct kept *k;

	for (unsigned i = 0; i < walk->n; i++)
		new.frames[i] = frame_of(s, who, n_objects, walk, walk->addresses[i]);
	new.k.hash = XXH3_64bits(new.frames, walk->n * sizeof(*new.frames));
	k = keep(s, &new.k);
	if (!k)
		return 0;
	if (k->segment != s->segment && define(s, k, walk->ns))
		return 0;
	k->segment = s->segment;
	return k->id;
}

static struct spoor_user_addresses *addresses_of(struct spoor_user_stacks *s, struct spoor_user_walker *who)
{
	struct spoor_user_addresses *a = *who->addresses;

	if (!a)
		a = *who->addresses = calloc(1, sizeof(*a));
	if (!a || a->of == s->serial)
		return a;
	memset(a, 0, sizeof(*a));
	a->of = s->serial;
	for (size_t i = 0; i < who->code->n; i++)
		who->code->all[i].id = 0;
	return a;
}

uint32_t spoor_user_stacks_id(struct spoor_user_stacks *s, struct spoor_user_walker *who,
			      const struct spoor_user_walk *walk)
{
	struct spoor_user_addresses *a = addresses_of(s, who);
	size_t n_objects = spoor_code_at(who->code, walk->stamp), i;
	uint64_t seed = (uint64_t)n_objects << 32 | (uint64_t)walk->status << 16 | walk->way;
	uint64_t hash = XXH3_64bits_withSeed(walk->addresses, walk->n * sizeof(*walk->addresses), seed);
	uint32_t id;

	i = hash & (REMEMBERED - 1);
	if (!a)
		return 0;
	if (a->walks[i].hash == hash && a->walks[i].segment == s->segment)
		return a->walks[i].id;
	id = intern(s, who, n_objects, walk);
	a->walks[i].hash = hash;
	a->walks[i].id = id;
	a->walks[i].segment = id ? s->segment : 0;
	return id;
}

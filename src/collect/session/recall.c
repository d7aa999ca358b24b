/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/recall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collect/kernel/ring.h"

#define PATIENCE (SPOOR_NS_PER_SEC / 3)

struct wanted {
	uint64_t key;  /* (is it a file, id) of the definition that is looked for */
	uint32_t id;   /* as it is going to be defined */
	uint32_t from; /* of a stack that stands there as an alias: of which one */
	bool found;
};

struct recall {
	struct spoor_consumer *consumer;
	struct wanted *wanted; /* sorted */
	size_t n, room, found;
	uint64_t until;
};

static uint64_t key_of(bool file, uint32_t id)
{
	return (uint64_t)file << 32 | id;
}

static int want(struct recall *r, bool file, uint32_t id)
{
	if (!id)
		return 0;
	if (r->n == r->room) {
		size_t room = r->room ? r->room * 2 : 64;
		struct wanted *grown = reallocarray(r->wanted, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->wanted = grown;
		r->room = room;
	}
	r->wanted[r->n++] = (struct wanted){ .key = key_of(file, id), .id = id };
	return 0;
}

static int look_through(struct recall *r, const struct spoor_kernel *k, struct spoor_ring *ring)
{
	struct spoor_ring_reader read = spoor_ring_begin(k, ring);
	const struct spoor_event_header *h;
	int err = 0;

	for (; !err && (h = spoor_ring_peek(&read)); spoor_ring_skip(&read, h)) {
		const struct spoor_ctl_need *need = (const void *)h;

		if (h->id != SPOOR_CTL_NEED)
			continue;
		err = want(r, false, need->stack);
		for (unsigned i = 0; i < 3 && !err; i++)
			err = want(r, true, need->files[i]);
	}
	return err;
}

static int by_key(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* Each once. Nothing is found yet. */
static void sort(struct recall *r)
{
	size_t n = 0;

	qsort(r->wanted, r->n, sizeof(*r->wanted), by_key);
	for (size_t i = 0; i < r->n; i++) {
		r->wanted[i].found = false;
		if (!n || r->wanted[i].key != r->wanted[n - 1].key || r->wanted[i].id != r->wanted[n - 1].id)
			r->wanted[n++] = r->wanted[i];
	}
	r->n = n;
	r->found = 0;
}

/* The first that is to be had from the definition of this key; the others follow. */
static struct wanted *wanted_of(const struct recall *r, uint64_t key)
{
	struct wanted k = { .key = key }, *w = key ? bsearch(&k, r->wanted, r->n, sizeof(k), by_key) : NULL;

	while (w && w > r->wanted && w[-1].key == key)
		w--;
	return w;
}

static uint64_t key_of_definition(const struct spoor_event_header *def)
{
	const struct spoor_stack *stack = (const void *)def;
	size_t size = spoor_event_size(def);

	if (def->id == SPOOR_EV_STACK && size >= sizeof(*stack) && size >= sizeof(*stack) + stack->n * 8UL)
		return key_of(false, stack->id);
	if (def->id == SPOOR_EV_FILE && size >= sizeof(struct spoor_file))
		return key_of(true, ((const struct spoor_file *)def)->id);
	if (def->id == SPOOR_EV_SOCKET && size >= sizeof(struct spoor_socket))
		return key_of(true, ((const struct spoor_socket *)def)->id);
	if (def->id == SPOOR_EV_SOCKET4 && size >= sizeof(struct spoor_socket4))
		return key_of(true, ((const struct spoor_socket4 *)def)->id);
	return 0;
}

/* Non-zero: no older segment has to be looked into. */
static int enough(struct recall *r, struct wanted *w)
{
	r->found += !w->found;
	w->found = true;
	return r->found >= r->n || spoor_now_monotonic() >= r->until;
}

/* The first pass: which of them are aliases? */
static int see_alias(void *ctx, const struct spoor_event_header *def)
{
	const struct spoor_stack_alias *alias = (const void *)def;
	bool is_alias = def->id == SPOOR_EV_STACK_ALIAS && spoor_event_size(def) >= sizeof(*alias);
	struct recall *r = ctx;
	struct wanted *w = wanted_of(r, is_alias ? key_of(false, alias->id) : key_of_definition(def));

	if (!w)
		return 0;
	w->from = is_alias ? alias->stack : 0;
	return enough(r, w);
}

static void look_for_aliased(struct recall *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->wanted[i].from)
			r->wanted[i].key = key_of(false, r->wanted[i].from);
	sort(r);
}

static void define(struct recall *r, const struct spoor_event_header *def, uint32_t id)
{
	struct spoor_stack *copy;

	if (def->id != SPOOR_EV_STACK || ((const struct spoor_stack *)def)->id == id) {
		spoor_consumer_define(r->consumer, def);
		return;
	}
	copy = malloc(spoor_event_size(def));
	if (!copy)
		return;
	memcpy(copy, def, spoor_event_size(def));
	copy->id = id;
	spoor_consumer_define(r->consumer, &copy->h);
	free(copy);
}

/* The second pass. */
static int take(void *ctx, const struct spoor_event_header *def)
{
	struct recall *r = ctx;
	uint64_t key = key_of_definition(def);
	int done = 0;

	for (struct wanted *w = wanted_of(r, key); w && w < r->wanted + r->n && w->key == key; w++) {
		define(r, def, w->id);
		done = enough(r, w);
	}
	return done;
}

int spoor_recall(const struct spoor_kernel *k, struct spoor_writer *w, struct spoor_consumer *c)
{
	struct recall r = { .consumer = c, .until = spoor_now_monotonic() + PATIENCE };
	int err = 0;

	for (unsigned i = 0; i < k->n_cpus * SPOOR_LEVELS && !err; i++)
		err = look_through(&r, k, spoor_kernel_ring(k, i / SPOOR_LEVELS, i % SPOOR_LEVELS));
	if (!err && r.n) {
		sort(&r);
		spoor_writer_old_definitions(w, see_alias, &r);
		look_for_aliased(&r);
		spoor_writer_old_definitions(w, take, &r);
	}
	free(r.wanted);
	return err;
}

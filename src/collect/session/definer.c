/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/definer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SLOTS 64

/* Definitions by id: open addressing, a power of two. */
struct remembered {
	struct kept {
		struct spoor_event_header *def; /* NULL: the slot is free */
		uint64_t segment;               /* in which it was last defined */
		uint32_t id;
	} *slots;
	size_t size, n;
};

struct spoor_definer {
	struct spoor_objects *objects;
	struct spoor_writer *w;
	uint64_t segment;
	uint64_t *in_segment; /* by object id: the segment that has its definition */
	uint64_t repeated; /* the last segment that was told what all calls in flight refer to */
	bool remember;
	struct remembered stacks, files;
};

int spoor_definer_new(struct spoor_objects *objects, struct spoor_writer *w, bool remember, struct spoor_definer **ret)
{
	struct spoor_definer *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->objects = objects;
	d->w = w;
	d->remember = remember;
	d->segment = 1;
	d->in_segment = calloc(SPOOR_KERNEL_OBJECTS, sizeof(*d->in_segment));
	if (!d->in_segment) {
		spoor_definer_free(d);
		return -ENOMEM;
	}
	*ret = d;
	return 0;
}

static void forget_all(struct remembered *r)
{
	for (size_t i = 0; i < r->size; i++)
		free(r->slots[i].def);
	free(r->slots);
}

void spoor_definer_free(struct spoor_definer *d)
{
	if (!d)
		return;
	forget_all(&d->stacks);
	forget_all(&d->files);
	free(d->in_segment);
	free(d);
}

/* The definition of this id, or the slot where it would be. */
static struct kept *find(const struct remembered *r, uint32_t id)
{
	size_t i = (id * 0x9E3779B97F4A7C15ULL) >> 32 & (r->size - 1);

	while (r->slots[i].def && r->slots[i].id != id)
		i = (i + 1) & (r->size - 1);
	return &r->slots[i];
}

/* To a table of this size, without what was last defined before segment `since`. */
static int move(struct remembered *r, size_t size, uint64_t since)
{
	struct remembered to = { .slots = calloc(size, sizeof(*to.slots)), .size = size };

	if (!to.slots)
		return -ENOMEM;
	for (size_t i = 0; i < r->size; i++) {
		struct kept *k = &r->slots[i];

		if (k->def && k->segment >= since) {
			*find(&to, k->id) = *k;
			to.n++;
		} else {
			free(k->def);
		}
	}
	free(r->slots);
	*r = to;
	return 0;
}

/* Without memory for a smaller table everything is kept. */
static void forget(struct remembered *r, uint64_t since)
{
	size_t n = 0, size = LEAST_SLOTS;

	for (size_t i = 0; i < r->size; i++)
		n += r->slots[i].def && r->slots[i].segment >= since;
	while (size < n * 4)
		size *= 2;
	move(r, size, since);
}

static void remember(struct remembered *r, uint32_t id, const struct spoor_event_header *h, uint64_t segment)
{
	struct spoor_event_header *copy;
	struct kept *k;

	if (r->n * 2 >= r->size && move(r, r->size ? r->size * 2 : LEAST_SLOTS, 0) < 0)
		return;
	k = find(r, id);
	if (k->def == h) { /* it was remembered: spoor_definer_again() */
		k->segment = segment;
		return;
	}
	copy = malloc(spoor_event_size(h));
	if (!copy)
		return;
	memcpy(copy, h, spoor_event_size(h));
	r->n += !k->def;
	free(k->def);
	*k = (struct kept){ copy, segment, id };
}

static const void *recall(const struct remembered *r, uint32_t id)
{
	return id && r->size ? find(r, id)->def : NULL;
}

void spoor_definer_object(struct spoor_definer *d, uint32_t id)
{
	void *def; /* an event, which the compiler takes for packed to bytes */

	if (id >= SPOOR_KERNEL_OBJECTS || d->in_segment[id] == d->segment)
		return;
	def = spoor_objects_definition(d->objects, id);
	if (!def)
		return;
	spoor_writer_define(d->w, def);
	d->in_segment[id] = d->segment;
	free(def);
	def = spoor_objects_place(d->objects, id);
	if (def)
		spoor_writer_define(d->w, def);
	free(def);
}

/* Where a segment has said that a file is gone, and it is not, the last definition counts. */
static void define_returned(struct spoor_definer *d)
{
	uint32_t ids[16];
	size_t n;

	while ((n = spoor_objects_returned(d->objects, ids, sizeof(ids) / sizeof(*ids)))) {
		for (size_t i = 0; i < n; i++) {
			bool told = d->in_segment[ids[i]] == d->segment;

			d->in_segment[ids[i]] = 0;
			if (told)
				spoor_definer_object(d, ids[i]);
		}
	}
}

void spoor_definer_stack(struct spoor_definer *d, const struct spoor_stack *s)
{
	for (unsigned i = 0; i < s->n; i++)
		spoor_definer_object(d, SPOOR_FRAME_OBJECT(s->frames[i]));
	spoor_writer_define(d->w, &s->h);
	if (d->remember)
		remember(&d->stacks, s->id, &s->h, d->segment);
}

static void define_unwound(void *ctx, const struct spoor_stack *s)
{
	spoor_definer_stack(ctx, s);
}

void spoor_definer_unwound(struct spoor_definer *d)
{
	define_returned(d);
	spoor_objects_unwound(d->objects, define_unwound, d);
}

void spoor_definer_file(struct spoor_definer *d, const struct spoor_event_header *h)
{
	spoor_writer_define(d->w, h);
	if (d->remember)
		remember(&d->files, ((const struct spoor_file *)h)->id, h, d->segment);
}

static void define_file_again(struct spoor_definer *d, uint32_t id, bool newest)
{
	const struct spoor_event_header *file = recall(&d->files, id);

	if (!file)
		return;
	if (newest)
		spoor_writer_define_anew(d->w, file);
	else
		spoor_writer_define(d->w, file);
	remember(&d->files, id, file, d->segment);
}

void spoor_definer_again(struct spoor_definer *d, const struct spoor_ctl_need *need, bool newest)
{
	const struct spoor_stack *stack = recall(&d->stacks, need->stack);

	if (stack)
		spoor_definer_stack(d, stack);
	for (unsigned i = 0; i < 3; i++)
		define_file_again(d, need->files[i], newest);
}

/*
 * Who was just beginning when all calls were told of has what it refers to in the segment before, and is told of in the
 * next.
 */
void spoor_definer_segment(struct spoor_definer *d)
{
	if (d->repeated > 1) {
		forget(&d->stacks, d->repeated - 1);
		forget(&d->files, d->repeated - 1);
	}
	d->segment++;
}

void spoor_definer_repeated(struct spoor_definer *d)
{
	d->repeated = d->segment;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/definer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Definitions by id. */
struct remembered {
	struct spoor_event_header **defs;
	size_t n;
};

struct spoor_definer {
	struct spoor_objects *objects;
	struct spoor_writer *w;
	uint64_t segment;
	uint64_t *in_segment; /* by object id: the segment that has its definition */
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
	for (size_t i = 0; i < r->n; i++)
		free(r->defs[i]);
	free(r->defs);
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

static void remember(struct remembered *r, uint32_t id, const struct spoor_event_header *h)
{
	if (id < r->n && r->defs[id] == h)
		return; /* it was remembered: spoor_definer_again() */
	if (id >= r->n) {
		size_t grown = (size_t)id * 2 + 64;
		void *p = realloc(r->defs, grown * sizeof(*r->defs));

		if (!p)
			return;
		r->defs = p;
		memset(r->defs + r->n, 0, (grown - r->n) * sizeof(*r->defs));
		r->n = grown;
	}
	free(r->defs[id]);
	r->defs[id] = malloc(spoor_event_size(h));
	if (r->defs[id])
		memcpy(r->defs[id], h, spoor_event_size(h));
}

static const void *recall(const struct remembered *r, uint32_t id)
{
	return id && id < r->n ? r->defs[id] : NULL;
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
		remember(&d->stacks, s->id, &s->h);
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
		remember(&d->files, ((const struct spoor_file *)h)->id, h);
}

void spoor_definer_again(struct spoor_definer *d, const struct spoor_ctl_need *need)
{
	const struct spoor_stack *stack = recall(&d->stacks, need->stack);

	if (stack)
		spoor_definer_stack(d, stack);
	for (unsigned i = 0; i < 3; i++) {
		const struct spoor_event_header *file = recall(&d->files, need->files[i]);

		if (file)
			spoor_definer_file(d, file);
	}
}

void spoor_definer_segment(struct spoor_definer *d)
{
	d->segment++;
}

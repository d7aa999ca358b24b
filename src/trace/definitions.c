/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Definitions of one segment: read wholly before its first event is given out. They point into the mapped file.
 * An id that is defined twice has its last definition.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader_internal.h"

static size_t slot_of(const struct spoor_idmap *m, uint32_t id)
{
	size_t i = (id * 0x9E3779B97F4A7C15ULL) >> 32 & (m->size - 1);

	while (m->slots[i].def && m->slots[i].id != id)
		i = (i + 1) & (m->size - 1);
	return i;
}

static int grow(struct spoor_idmap *m)
{
	struct spoor_idmap bigger = { .size = m->size ? m->size * 2 : 64, .n = m->n };

	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->size; i++)
		if (m->slots[i].def)
			bigger.slots[slot_of(&bigger, m->slots[i].id)] = m->slots[i];
	free(m->slots);
	*m = bigger;
	return 0;
}

static int put(struct spoor_idmap *m, uint32_t id, const void *def)
{
	size_t i;

	if (m->n * 2 >= m->size && grow(m) < 0)
		return -ENOMEM;
	i = slot_of(m, id);
	m->n += !m->slots[i].def;
	m->slots[i] = (struct spoor_idmap_slot){ id, def };
	return 0;
}

static const void *get(const struct spoor_idmap *m, uint32_t id)
{
	return m->size ? m->slots[slot_of(m, id)].def : NULL;
}

static int put_thread(struct spoor_segment *s, const struct spoor_thread *def)
{
	if (s->n_threads == s->threads_room) {
		size_t n = s->threads_room ? s->threads_room * 2 : 64;
		void *p = reallocarray(s->threads, n, sizeof(*s->threads));

		if (!p)
			return -ENOMEM;
		s->threads = p;
		s->threads_room = n;
	}
	s->threads[s->n_threads] = (struct spoor_thread_def){
		def->h.tid, s->n_threads, def->since && def->since < def->h.ts ? def->since : def->h.ts, def
	};
	s->n_threads++;
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct spoor_thread_def *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/*
 * A definition may come later than what it says became true (the writer puts definitions in order by raising their
 * times): the first of each thread (tid, start) holds from its start on.
 */
static int index_threads(struct spoor_segment *s)
{
	struct spoor_thread_def *d = s->threads;

	if (!s->n_threads)
		return 0;
	qsort(d, s->n_threads, sizeof(*d), by_tid);
	for (size_t i = 0; i < s->n_threads; i++) {
		int same_tid = i && d[i - 1].tid == d[i].tid;

		if (!same_tid && put(&s->tids, d[i].tid, &d[i]) < 0)
			return -ENOMEM;
		if (!(same_tid && d[i - 1].def->start == d[i].def->start) && d[i].def->start < d[i].from)
			d[i].from = d[i].def->start;
		if (same_tid && d[i].from < d[i - 1].from)
			d[i].from = d[i - 1].from;
	}
	return 0;
}

/* One that makes no sense is damage, and its events are of no class. */
static int put_class(struct spoor_segment *s, const struct spoor_class *def)
{
	unsigned i = def->event - SPOOR_EV_USER;
	struct spoor_event_class *c;
	int r = spoor_class_decode(def, &c);

	if (r == -EBADMSG && s->trace)
		spoor_trace_note(s->trace, s->defs.path, (const uint8_t *)def - s->defs.map,
				 "a definition of a class of events makes no sense");
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	if (i >= s->n_classes) {
		unsigned n = i + 1 > s->n_classes * 2 ? i + 1 : s->n_classes * 2;
		struct spoor_event_class **classes = reallocarray(s->classes, n, sizeof(*classes));

		if (!classes) {
			free(c);
			return -ENOMEM;
		}
		memset(classes + s->n_classes, 0, (n - s->n_classes) * sizeof(*classes));
		s->classes = classes;
		s->n_classes = n;
	}
	free(s->classes[i]);
	s->classes[i] = c;
	return 0;
}

/* A recording that did not end has the counts that it told on its way; they only grow. */
static void take_counter(struct spoor_trace_info *info, const struct spoor_counter *c)
{
	uint64_t *count = !strcmp(c->name, "ust_late")         ? &info->programs_late :
			  !strcmp(c->name, "ust_turned_away")  ? &info->programs_turned_away :
			  !strcmp(c->name, "ust_held_lost")    ? &info->held_lost :
			  !strcmp(c->name, "ust_not_recorded") ? &info->programs_not_recorded :
			  !strcmp(c->name, "ust_undescribed")  ? &info->lost_undescribed :
			  !strcmp(c->name, "ust_uncounted")    ? &info->uncounted :
								 NULL;

	if (count && c->value > *count)
		*count = c->value;
}

static int take(struct spoor_segment *s, const struct spoor_event_header *h)
{
	switch (h->id) {
	case SPOOR_EV_STACK:
		return put(&s->stacks, ((const struct spoor_stack *)h)->id, h);
	case SPOOR_EV_STACK_ALIAS:
		s->has_aliases = 1;
		return put(&s->stacks, ((const struct spoor_stack_alias *)h)->id, h);
	case SPOOR_EV_OBJECT:
		return put(&s->objects, ((const struct spoor_object *)h)->id, h);
	case SPOOR_EV_PLACE:
		return put(&s->places, ((const struct spoor_place *)h)->object, h);
	case SPOOR_EV_FILE:
		return put(&s->files, ((const struct spoor_file *)h)->id, h);
	case SPOOR_EV_SOCKET:
		return put(&s->files, ((const struct spoor_socket *)h)->id, h);
	case SPOOR_EV_SOCKET4:
		return put(&s->files, ((const struct spoor_socket4 *)h)->id, h);
	case SPOOR_EV_THREAD:
		return put_thread(s, (const struct spoor_thread *)h);
	case SPOOR_EV_CLASS:
		return put_class(s, (const struct spoor_class *)h);
	case SPOOR_EV_COUNTER:
		if (s->trace)
			take_counter(&s->trace->info, (const struct spoor_counter *)h);
		return 0;
	default:
		return 0;
	}
}

/*
 * NULL: none. Looked up when it is asked for, since a definition may come after its alias: they are put in the order of
 * time. An alias of an alias is none, so nothing goes round in a circle.
 */
static const struct spoor_stack *of_alias(const struct spoor_segment *s, const struct spoor_stack_alias *a)
{
	const struct spoor_event_header *h = get(&s->stacks, a->stack);

	return h && h->id == SPOOR_EV_STACK ? (const void *)h : NULL;
}

/* What names nothing, and what names another alias: no writer writes that. */
static void check_aliases(struct spoor_segment *s)
{
	for (size_t i = 0; s->has_aliases && i < s->stacks.size; i++) {
		const struct spoor_event_header *h = s->stacks.slots[i].def;

		if (h && h->id == SPOOR_EV_STACK_ALIAS && !of_alias(s, (const void *)h))
			spoor_trace_note(s->trace, s->defs.path, (const uint8_t *)h - s->defs.map,
					 "a stack's other id is of no stack that is defined here");
	}
}

static int take_all(struct spoor_segment *s)
{
	const struct spoor_event_header *h;

	if (!s->defs.map)
		return 0;
	while ((h = spoor_cursor_next(s->trace, &s->defs)))
		if (take(s, h) < 0)
			return -ENOMEM;
	if (!s->trace->following) /* there it may be still to come */
		check_aliases(s);
	return index_threads(s);
}

int spoor_segment_load(struct spoor_segment *s)
{
	if (s->loaded)
		return 0;
	s->loaded = 1;
	if (s->kernel && spoor_segment_load(s->kernel) < 0)
		return -ENOMEM;
	if (s->defs_path) /* if it cannot: noted */
		spoor_cursor_open(s->trace, &s->defs, s->defs_path, s, SPOOR_INSTANCE_DEFS(s->number));
	return take_all(s);
}

int spoor_segment_load_more(struct spoor_segment *s)
{
	size_t len = s->defs.len;

	if (!s->loaded)
		return 0;
	if (s->defs_path && !s->defs.map)
		spoor_cursor_open(s->trace, &s->defs, s->defs_path, s, SPOOR_INSTANCE_DEFS(s->number));
	spoor_cursor_grow(s->trace, &s->defs);
	if (s->defs.len == len)
		return 0;
	free(s->tids.slots);
	s->tids = (struct spoor_idmap){};
	return take_all(s);
}

void spoor_segment_unload(struct spoor_segment *s)
{
	spoor_cursor_close(&s->defs);
	free(s->stacks.slots);
	free(s->objects.slots);
	free(s->places.slots);
	free(s->files.slots);
	free(s->tids.slots);
	free(s->threads);
	for (unsigned i = 0; i < s->n_classes; i++)
		free(s->classes[i]);
	free(s->classes);
	free(s->path);
	free(s);
}

const struct spoor_stack *spoor_segment_stack(const struct spoor_segment *s, uint32_t id)
{
	const struct spoor_event_header *h = get(&s->stacks, id);

	return h && h->id == SPOOR_EV_STACK_ALIAS ? of_alias(s, (const void *)h) : (const void *)h;
}

const struct spoor_object *spoor_segment_object(const struct spoor_segment *s, uint32_t id)
{
	return get(&s->objects, id);
}

const char *spoor_segment_place(const struct spoor_segment *s, uint32_t object)
{
	const struct spoor_place *place = get(&s->places, object);

	return place ? place->path : NULL;
}

const struct spoor_event_header *spoor_segment_file(const struct spoor_segment *s, uint32_t id)
{
	return get(&s->files, id);
}

const struct spoor_thread *spoor_segment_thread_at(const struct spoor_segment *s, size_t i)
{
	return i < s->n_threads ? s->threads[i].def : NULL;
}

static const struct spoor_thread *find_thread(const struct spoor_segment *s, uint32_t tid, uint64_t ts)
{
	const struct spoor_thread_def *d = get(&s->tids, tid), *end;
	size_t n;

	if (!d || d->from > ts)
		return NULL;
	end = s->threads + s->n_threads;
	/* Galloping: most threads have one definition, a reused tid may have very many. */
	for (n = 1; n < (size_t)(end - d) && d[n].tid == tid && d[n].from <= ts; n *= 2)
		d += n;
	for (; n; n /= 2)
		if (n < (size_t)(end - d) && d[n].tid == tid && d[n].from <= ts)
			d += n;
	return d->def;
}

const struct spoor_thread *spoor_segment_thread(const struct spoor_segment *s, uint32_t tid, uint64_t ts)
{
	const struct spoor_thread *t = s->kernel ? find_thread(s->kernel, tid, ts) : NULL;

	return t ? t : find_thread(s, tid, ts);
}

/* ---- in memory ---- */

struct spoor_own_def {
	struct spoor_own_def *before;
	struct spoor_event_header h; /* and what follows it */
};

int spoor_definitions_new(struct spoor_segment **ret)
{
	struct spoor_segment *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loaded = 1;
	*ret = s;
	return 0;
}

int spoor_definitions_add(struct spoor_segment *s, const struct spoor_event_header *def)
{
	size_t size = spoor_event_size(def);
	struct spoor_own_def *own = malloc(offsetof(struct spoor_own_def, h) + size);

	if (!own)
		return -ENOMEM;
	memcpy(&own->h, def, size);
	own->before = s->own;
	s->own = own;
	return take(s, &own->h);
}

void spoor_definitions_free(struct spoor_segment *s)
{
	if (!s)
		return;
	for (struct spoor_own_def *own = s->own, *before; own; own = before) {
		before = own->before;
		free(own);
	}
	spoor_segment_unload(s);
}

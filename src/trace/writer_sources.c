/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the events of a trace that is resumed were taken from, as far as that still matters. A buffer is told what is
 * written of it when it comes back to the next writer, or when a round ends; only then more of it is written, and a
 * segment begins between rounds. So of what the packets say of a buffer, the last segment that has any of it counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/writer_internal.h"

int spoor_known_sources_add(struct spoor_writer *w, const struct spoor_packet_source *source, unsigned segment)
{
	if (w->n_sources == w->sources_room) {
		size_t room = w->sources_room ? w->sources_room * 2 : 1024;
		void *grown = reallocarray(w->sources, room, sizeof(*w->sources));

		if (!grown)
			return -ENOMEM;
		w->sources = grown;
		w->sources_room = room;
	}
	w->sources[w->n_sources++] = (struct writer_source){ *source, segment };
	return 0;
}

/* Of no packet: a sum over all segments, of which the last word counts. */
static int is_sum(const struct writer_source *s)
{
	return s->s.serial == SPOOR_SOURCE_LOST || s->s.serial == SPOOR_SOURCE_OVERWRITTEN;
}

/* Sums come first. */
static int by_packet(const void *a, const void *b)
{
	const struct writer_source *x = a, *y = b;
	int r = memcmp(x->s.arena, y->s.arena, sizeof(x->s.arena));

	if (r)
		return r;
	if (is_sum(x) != is_sum(y))
		return is_sum(x) ? -1 : 1;
	if (!is_sum(x) && x->segment != y->segment)
		return x->segment > y->segment ? -1 : 1;
	if (x->s.serial != y->s.serial)
		return x->s.serial < y->s.serial ? -1 : 1;
	return x->s.position > y->s.position ? -1 : x->s.position < y->s.position;
}

/* before: the last one that was kept. */
static int matters(const struct writer_source *before, const struct writer_source *s)
{
	if (!before || memcmp(before->s.arena, s->s.arena, sizeof(s->s.arena)))
		return 1;
	if (is_sum(before))
		return s->s.serial != before->s.serial;
	return s->segment == before->segment && s->s.serial != before->s.serial;
}

void spoor_known_sources_prune(struct spoor_writer *w)
{
	const struct writer_source *before = NULL;
	size_t n = 0;

	if (w->n_sources)
		qsort(w->sources, w->n_sources, sizeof(*w->sources), by_packet);
	for (size_t i = 0; i < w->n_sources; i++) {
		if (!matters(before, &w->sources[i]))
			continue;
		w->sources[n] = w->sources[i];
		before = &w->sources[n++];
	}
	w->n_sources = n;
}

int spoor_writer_sources(const struct spoor_writer *w, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p)
{
	int r = 0;

	for (size_t i = 0; i < w->n_sources && r == 0; i++)
		r = each(&w->sources[i].s, p);
	return r;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the events of a trace that is resumed were taken from: of each packet of a buffer, how far. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/writer_internal.h"

int spoor_known_sources_add(struct spoor_writer *w, const struct spoor_packet_source *source)
{
	if (w->n_sources == w->sources_room) {
		size_t room = w->sources_room ? w->sources_room * 2 : 1024;
		void *grown = reallocarray(w->sources, room, sizeof(*w->sources));

		if (!grown)
			return -ENOMEM;
		w->sources = grown;
		w->sources_room = room;
	}
	w->sources[w->n_sources++] = *source;
	return 0;
}

/* Of one packet the last position comes first. */
static int by_packet(const void *a, const void *b)
{
	const struct spoor_packet_source *x = a, *y = b;
	int r = memcmp(x->arena, y->arena, sizeof(x->arena));

	if (r)
		return r;
	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->position > y->position ? -1 : x->position < y->position;
}

static int is_of_same(const struct spoor_packet_source *x, const struct spoor_packet_source *y)
{
	return x->serial == y->serial && !memcmp(x->arena, y->arena, sizeof(x->arena));
}

void spoor_known_sources_prune(struct spoor_writer *w)
{
	size_t n = 0;

	if (w->n_sources)
		qsort(w->sources, w->n_sources, sizeof(*w->sources), by_packet);
	for (size_t i = 0; i < w->n_sources; i++)
		if (!n || !is_of_same(&w->sources[n - 1], &w->sources[i]))
			w->sources[n++] = w->sources[i];
	w->n_sources = n;
}

int spoor_writer_sources(const struct spoor_writer *w, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p)
{
	int r = 0;

	for (size_t i = 0; i < w->n_sources && r == 0; i++)
		r = each(&w->sources[i], p);
	return r;
}

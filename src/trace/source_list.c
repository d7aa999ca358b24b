/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/source_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_AT_FIRST 256

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

static bool is_of_same(const struct spoor_packet_source *x, const struct spoor_packet_source *y)
{
	return x->serial == y->serial && !memcmp(x->arena, y->arena, sizeof(x->arena));
}

void spoor_source_list_sort(struct spoor_source_list *l)
{
	size_t n = 0;

	if (!l->unsorted)
		return;
	qsort(l->all, l->n, sizeof(*l->all), by_packet);
	for (size_t i = 0; i < l->n; i++)
		if (!n || !is_of_same(&l->all[n - 1], &l->all[i]))
			l->all[n++] = l->all[i];
	l->n = n;
	l->unsorted = false;
}

/* Most are often of few packets and counts: it grows only if half of it is still needed. */
static int make_room(struct spoor_source_list *l)
{
	size_t room = l->room ? l->room * 2 : ROOM_AT_FIRST;
	void *grown;

	spoor_source_list_sort(l);
	if (l->n < l->room / 2)
		return 0;
	grown = reallocarray(l->all, room, sizeof(*l->all));
	if (!grown)
		return -ENOMEM;
	l->all = grown;
	l->room = room;
	return 0;
}

int spoor_source_list_add(const struct spoor_packet_source *source, void *list)
{
	struct spoor_source_list *l = list;

	if (l->n == l->room && make_room(l) < 0)
		return -ENOMEM;
	l->all[l->n++] = *source;
	l->unsorted = true;
	return 0;
}

int spoor_source_list_add_all(struct spoor_source_list *l, const struct spoor_source_list *from)
{
	int r = 0;

	for (size_t i = 0; i < from->n && !r; i++)
		r = spoor_source_list_add(&from->all[i], l);
	return r;
}

/* The first that is not before. */
static size_t lower(struct spoor_source_list *l, const uint8_t arena[16], uint64_t serial)
{
	struct spoor_packet_source key = { .serial = serial, .position = UINT64_MAX };
	size_t lo = 0, hi;

	spoor_source_list_sort(l);
	hi = l->n;
	memcpy(key.arena, arena, sizeof(key.arena));
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_packet(&l->all[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t spoor_source_list_find(struct spoor_source_list *l, const uint8_t arena[16], uint64_t serial)
{
	size_t i = lower(l, arena, serial);

	if (i == l->n || l->all[i].serial != serial || memcmp(l->all[i].arena, arena, 16))
		return 0;
	return l->all[i].position;
}

bool spoor_source_list_knows(struct spoor_source_list *l, const uint8_t arena[16])
{
	size_t i = lower(l, arena, 0);

	return i < l->n && !memcmp(l->all[i].arena, arena, 16);
}

void spoor_source_list_forget(struct spoor_source_list *l, const uint8_t arena[16])
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (memcmp(l->all[i].arena, arena, 16))
			l->all[n++] = l->all[i];
	l->n = n;
}

void spoor_source_list_forget_packets(struct spoor_source_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (spoor_source_is_count(&l->all[i]))
			l->all[n++] = l->all[i];
	l->n = n;
}

void spoor_source_list_done(struct spoor_source_list *l)
{
	free(l->all);
	*l = (struct spoor_source_list){};
}

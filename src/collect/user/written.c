/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/written.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/digest.h"

static int keep(const struct spoor_packet_source *s, void *p)
{
	struct spoor_written *w = p;

	if (w->n == w->room) {
		size_t room = w->room ? w->room * 2 : 1024;
		void *grown = reallocarray(w->all, room, sizeof(*w->all));

		if (!grown)
			return -ENOMEM;
		w->all = grown;
		w->room = room;
	}
	w->all[w->n++] = *s;
	w->sorted = 0;
	return 0;
}

int spoor_written_add(struct spoor_written *w, const struct spoor_writer *writer)
{
	return spoor_writer_sources(writer, keep, w);
}

int spoor_written_digest(struct spoor_written *w, const void *digest, size_t len, struct spoor_error *e)
{
	int r = spoor_digest_sources(digest, len, keep, w);

	return r ? spoor_fail(e, -r, "what the relay says of the trace: %s", strerror(-r)) : 0;
}

void spoor_written_done(struct spoor_written *w)
{
	free(w->all);
	*w = (struct spoor_written){};
}

/* Of one packet, the last position comes first. */
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

static void sort(struct spoor_written *w)
{
	if (w->n && !w->sorted)
		qsort(w->all, w->n, sizeof(*w->all), by_packet);
	w->sorted = 1;
}

/* The first that is not before. */
static size_t lower(const struct spoor_written *w, const uint8_t *uuid, uint64_t serial)
{
	struct spoor_packet_source key = { .serial = serial, .position = UINT64_MAX };
	size_t lo = 0, hi = w->n;

	memcpy(key.arena, uuid, sizeof(key.arena));
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_packet(&w->all[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t find(const struct spoor_written *w, const uint8_t *uuid, uint64_t serial)
{
	size_t i = lower(w, uuid, serial);

	if (i == w->n || w->all[i].serial != serial || memcmp(w->all[i].arena, uuid, 16))
		return 0;
	return w->all[i].position;
}

bool spoor_written_knows(const struct spoor_written *w, const uint8_t uuid[16])
{
	size_t i = lower(w, uuid, 0);

	return i < w->n && !memcmp(w->all[i].arena, uuid, 16);
}

void spoor_written_sum(struct spoor_written *w, struct spoor_written_sum *ret)
{
	static const uint8_t none[16];

	sort(w);
	*ret = (struct spoor_written_sum){ .events = find(w, none, SPOOR_SOURCE_EVENTS),
					   .overwritten = find(w, none, SPOOR_SOURCE_OVERWRITTEN) };
	for (size_t i = 0; i < w->n; i++) {
		const uint8_t *uuid = w->all[i].arena;

		if (!memcmp(uuid, none, 16) || (i && !memcmp(uuid, w->all[i - 1].arena, 16)))
			continue;
		ret->programs++;
		ret->lost += find(w, uuid, SPOOR_SOURCE_LOST);
	}
}

uint64_t spoor_written_told(struct spoor_written *w, const uint8_t uuid[16], uint64_t what)
{
	sort(w);
	return find(w, uuid, what);
}

void spoor_written_apply(struct spoor_written *w, struct spoor_user_arena *a)
{
	if (!w->n)
		return;
	sort(w);
	for (unsigned i = 0; i < a->n_packets; i++) {
		uint64_t serial = __atomic_load_n(&a->headers[i].serial, __ATOMIC_ACQUIRE);
		uint64_t position = serial ? find(w, a->head.uuid, serial) : 0;

		if (!position || position % 8 || position > a->packets[i].size)
			continue;
		spoor_user_packet_resume(a, i, serial, position);
	}
}

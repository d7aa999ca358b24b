/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arenas of hostile programs: whatever is in one, what comes out of it are whole events of known classes, in order. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/user/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t same_tid(void *ctx, uint32_t tid)
{
	return tid;
}

struct walker {
	struct spoor_user_stacks *stacks;
	struct spoor_user_walker who;
};

static uint32_t stack_of(void *ctx, const struct spoor_user_walk *walk)
{
	struct walker *w = ctx;
	uint32_t id = spoor_user_stacks_id(w->stacks, &w->who, walk);

	if (!id || id != spoor_user_stacks_id(w->stacks, &w->who, walk))
		abort();
	return id;
}

static const struct spoor_user_class *class_of(const struct spoor_user_classes *r, unsigned id)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->all[i]->id == id)
			return r->all[i];
	return NULL;
}

static void check(const struct spoor_user_classes *r, const struct spoor_user_batch *b, uint64_t until)
{
	uint64_t last = 0, n = 0;

	for (size_t at = 0; at < b->run.len; n++) {
		const struct spoor_event_header *h = (const void *)(b->run.data + at);
		const struct spoor_user_class *c = class_of(r, h->id);

		if (!c || spoor_event_size(h) > b->run.len - at || h->ts < last || h->ts > until)
			abort();
		if (!spoor_class_length(c->c, h))
			abort();
		if ((!at && h->ts != b->run.begin) || (at + spoor_event_size(h) == b->run.len && h->ts != b->run.end))
			abort();
		last = h->ts;
		at += spoor_event_size(h);
	}
	if (n != b->n)
		abort();
}

static void take(struct spoor_user_arena *a, struct spoor_user_classes *r, struct spoor_user_clock *clock,
		 struct walker *w, uint64_t until)
{
	struct spoor_user_events x = {
		.arena = a,
		.classes = r,
		.clock = a->head.clock == SPOOR_ARENA_TSC ? clock : NULL,
		.until = until,
		.most = 1ULL << 62,
		.room = SIZE_MAX,
		.tid = same_tid,
		.stack = stack_of,
		.ctx = w,
	};

	for (unsigned i = 0; i < a->n_packets && i < 64; i++) {
		uint8_t *copy = malloc(a->packets[i].size);
		struct spoor_user_batch b;

		if (!copy)
			abort();
		spoor_user_events_take(&x, i, copy, &b);
		if (b.bytes > a->packets[i].size || b.run.len > b.bytes)
			abort();
		check(r, &b, until);
		spoor_user_packet_taken(a, i, b.bytes, b.n, b.done);
		free(copy);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spoor_user_classes classes = {};
	struct spoor_user_clock clock = {};
	struct spoor_user_addresses *addresses = NULL;
	struct spoor_user_arena *a;
	struct walker w;
	uint8_t *copy = malloc(size + 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	if (spoor_user_arena_own(copy, size, &a, NULL))
		return 0;
	if (spoor_user_stacks_new(NULL, &w.stacks))
		abort();
	w.who = (struct spoor_user_walker){ .code = &a->code, .addresses = &addresses };
	spoor_user_arena_define(a, &classes);
	spoor_user_arena_clocks(a, &clock);
	for (uint64_t until = 1000000; until <= 1000000000000; until *= 1000000)
		take(a, &classes, &clock, &w, until);
	take(a, &classes, &clock, &w, UINT64_MAX);
	spoor_user_arena_lost(a);
	spoor_user_arena_overwritten(a);
	spoor_user_addresses_free(addresses);
	spoor_user_stacks_free(w.stacks);
	spoor_user_arena_free(a);
	spoor_user_classes_done(&classes);
	spoor_user_clock_done(&clock);
	return 0;
}

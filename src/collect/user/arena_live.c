/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of an arena grows or changes while its program runs, but for packets: definitions, pairs of clocks, counts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/arena_internal.h"

#define FORK_NS 10000ULL /* of a CPU, at least */

void spoor_user_arena_garbage(struct spoor_user_arena *a, const char *what)
{
	if (!a->malformed++)
		snprintf(a->what, sizeof(a->what), "%s", what);
}

static void take_class(struct spoor_user_arena *a, struct spoor_user_classes *r, const uint8_t *copy, size_t size,
		       unsigned id)
{
	const struct spoor_user_class *class = NULL;
	int err;

	if (id == 0 || id >= SPOOR_ARENA_MAX_CLASSES || a->classes[id]) {
		spoor_user_arena_garbage(a, "a definition has a number that is none, or is another's");
		return;
	}
	r->uid = a->uid;
	err = spoor_user_classes_take(r, copy, size, &class);
	if (err == -EBADMSG)
		spoor_user_arena_garbage(a, "a definition of events");
	else if (err)
		spoor_user_arena_garbage(a, "a definition of events could not be stored");
	a->classes[id] = err ? &spoor_user_undescribed : class;
	if (id >= a->n_classes)
		a->n_classes = id + 1;
}

/* One record, copied to where nobody changes it. Returns its size; 0: no more. */
static size_t take_definition(struct spoor_user_arena *a, struct spoor_user_classes *r, uint64_t used)
{
	const uint8_t *at = a->base + a->head.defs_offset + a->defs_read;
	_cleanup_(spoor_freep) uint8_t *copy = NULL;
	struct spoor_def def;

	if (used - a->defs_read < sizeof(def))
		return 0;
	memcpy(&def, at, sizeof(def));
	if (def.size < sizeof(def) || def.size % 8 || def.size > used - a->defs_read)
		return 0;
	if (def.type != SPOOR_DEF_CLASS && def.type != SPOOR_DEF_OBJECT)
		return def.size;
	copy = malloc(def.size);
	if (!copy)
		return 0;
	memcpy(copy, at, def.size);
	memcpy(copy, &def, sizeof(def));
	if (def.type == SPOOR_DEF_CLASS)
		take_class(a, r, copy, def.size, def.id);
	else if (spoor_code_take(&a->code, copy, def.size))
		spoor_user_arena_garbage(a, "a definition of an object");
	return def.size;
}

void spoor_user_arena_define(struct spoor_user_arena *a, struct spoor_user_classes *r)
{
	uint64_t used = LOAD(live(a)->defs_used), at = a->head.defs_offset;
	uint64_t there = at < a->size ? a->size - at : 0;
	bool cut;

	if (a->defs_bad || used == a->defs_read)
		return;
	if (used > a->head.defs_size || used % 8 || used < a->defs_read) {
		a->defs_bad = true;
		spoor_user_arena_garbage(a, "the size of its definitions");
		return;
	}
	cut = used > there;
	used = cut ? there : used;
	while (a->defs_read < used) {
		size_t size = take_definition(a, r, used);

		if (!size) {
			a->defs_bad = true;
			if (!cut)
				spoor_user_arena_garbage(a, "the size of a definition");
			return;
		}
		a->defs_read += size;
	}
}

void spoor_user_arena_clocks(struct spoor_user_arena *a, struct spoor_user_clock *c)
{
	uint64_t n = LOAD(live(a)->n_clocks);
	uint64_t first = n > SPOOR_ARENA_MAX_CLOCKS - 1 ? n - (SPOOR_ARENA_MAX_CLOCKS - 1) : 0;

	if (a->head.clock != SPOOR_ARENA_TSC)
		return;
	for (uint64_t i = first; i < n; i++) {
		const struct spoor_arena_clock *p = &live(a)->clocks[i % SPOOR_ARENA_MAX_CLOCKS];

		spoor_user_clock_add(c, (struct spoor_clock_pair){ LOAD(p->tsc), LOAD(p->mono) });
	}
}

static bool is_of_this_boot(const struct spoor_user_arena *a)
{
	uint8_t ours[16];

	return !spoor_boot_id(ours) && !memcmp(ours, a->head.boot_id, sizeof(ours));
}

/*
 * Each takes more than a nanosecond of a CPU. How long the program of a file ran, and on how many, nobody knows, but
 * that it was since this boot, if it is of that.
 */
bool spoor_user_arena_can_have(const struct spoor_user_arena *a, uint64_t n, uint64_t since)
{
	static uint64_t cpus;
	uint64_t now = spoor_now_monotonic();

	if (!a->mapped && (n >= 1ULL << 56 || !is_of_this_boot(a)))
		return n < 1ULL << 56;
	since = a->mapped ? since : a->head.made;
	if (!cpus)
		cpus = sysconf(_SC_NPROCESSORS_CONF);
	return n / cpus <= (since <= now ? now - since : now); /* else `made` is of another time namespace */
}

void spoor_user_arena_counts_bad(struct spoor_user_arena *a, const char *what)
{
	a->counts_bad = true;
	spoor_user_arena_garbage(a, what);
}

/* UINT64_MAX: no such number. */
static uint64_t sum_of_lost(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->head.n_channels; i++) {
		const struct spoor_arena_channel *c = &live(a)->channels[i];

		if (__builtin_add_overflow(sum, LOAD(c->lost), &sum) ||
		    __builtin_add_overflow(sum, LOAD(c->lost_large), &sum) ||
		    __builtin_add_overflow(sum, LOAD(c->lost_nested), &sum))
			return UINT64_MAX;
	}
	return sum;
}

uint64_t spoor_user_arena_lost(struct spoor_user_arena *a)
{
	uint64_t now = spoor_now_monotonic(), sum;

	if (a->counts_bad)
		return a->lost;
	sum = sum_of_lost(a);
	if (sum < a->lost || !spoor_user_arena_can_have(a, sum - a->lost, a->lost_at)) {
		spoor_user_arena_counts_bad(a, "how many events it lost");
		return a->lost;
	}
	a->lost = sum;
	a->lost_at = now;
	return sum;
}

uint64_t spoor_user_arena_lost_child(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->head.n_channels; i++)
		if (__builtin_add_overflow(sum, LOAD(live(a)->channels[i].lost_child), &sum))
			return a->lost;
	return sum < a->lost ? sum : a->lost;
}

/* UINT64_MAX: no such number. */
static uint64_t sum_of_shared(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->head.n_channels; i++)
		if (__builtin_add_overflow(sum, LOAD(live(a)->channels[i].shared), &sum))
			return UINT64_MAX;
	return sum;
}

/* The losses do not depend on it: they are believed as they were. */
uint64_t spoor_user_arena_shared(struct spoor_user_arena *a)
{
	uint64_t sum = sum_of_shared(a);

	if (a->shared_bad)
		return a->shared;
	if (sum >= a->shared && spoor_user_arena_can_have(a, sum, a->head.made))
		return a->shared = sum;
	a->shared_bad = true;
	spoor_user_arena_garbage(a, "how many events it wrote into shared packets");
	return a->shared;
}

uint32_t spoor_user_arena_children(struct spoor_user_arena *a)
{
	uint64_t n = LOAD(live(a)->channels[0].children);

	if (n < UINT32_MAX && spoor_user_arena_can_have(a, n * FORK_NS, a->head.made))
		return (uint32_t)n;
	spoor_user_arena_garbage(a, "how many children could have no buffers");
	return 0;
}

uint32_t spoor_user_arena_uncounted(const struct spoor_user_arena *a)
{
	return LOAD(live(a)->uncounted) & SPOOR_CONTEXTS_PERF;
}

uint64_t spoor_user_arena_memory(const struct spoor_user_arena *a)
{
	size_t page = sysconf(_SC_PAGESIZE), n = (a->size + page - 1) / page;
	_cleanup_(spoor_freep) uint8_t *there = malloc(n);
	uint64_t sum = 0;

	if (!there || !a->mapped || mincore(a->base, a->size, there))
		return a->size;
	for (size_t i = 0; i < n; i++)
		sum += there[i] & 1 ? page : 0;
	return sum;
}

enum spoor_program_state spoor_user_arena_end(const struct spoor_user_arena *a)
{
	const struct spoor_arena *head = live(a);

	if (LOAD(head->state) == SPOOR_ARENA_ENDED || LOAD(head->leaving))
		return SPOOR_PROGRAM_ENDED;
	return LOAD(head->marks_ends) ? SPOOR_PROGRAM_CRASHED : SPOOR_PROGRAM_UNSEEN;
}

const struct spoor_arena_channel *spoor_user_arena_channel(const struct spoor_user_arena *a, unsigned packet)
{
	for (unsigned i = 0; i < a->head.n_channels; i++)
		if (packet - a->head.channels[i].first_packet < a->head.channels[i].n_packets)
			return &a->head.channels[i];
	return NULL;
}

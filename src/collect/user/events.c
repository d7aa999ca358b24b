/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/events.h"

#include <string.h>

static const struct spoor_user_class *class_of(struct spoor_user_events *x, unsigned id)
{
	struct spoor_user_arena *a = x->arena;

	if (id >= a->n_classes || !a->classes[id])
		spoor_user_arena_define(a, x->classes); /* it came since we looked */
	return id < a->n_classes ? a->classes[id] : NULL;
}

/* What is wrong with the event, which fits into its packet; NULL: nothing. */
static const char *check(const struct spoor_user_class *c, const struct spoor_event_header *h)
{
	size_t length;

	if (!c)
		return "an event of no known class";
	length = spoor_class_length(c->c, h);
	if (!length || (length + 7) / 8 != h->size8)
		return "an event's fields do not fit in it";
	return NULL;
}

struct stack {
	struct spoor_user_walk walk;
	uint64_t addresses[SPOOR_ARENA_MAX_FRAMES];
};

/*
 * Takes the addresses of a call stack out of the event, and leaves room for its id:
 *
 *	| status | way | padding | n | address ... | fields ... |   ->   | status | way | id | fields ... |
 */
static const char *take_stack(size_t at, struct spoor_event_header *h, struct stack *ret)
{
	uint8_t *event = (uint8_t *)h;
	size_t size = h->size8 * 8, behind;

	if (at < sizeof(*h) + 4 || size < at + 4)
		return "a call stack does not fit in its event";
	memcpy(&ret->walk.n, event + at + 2, 2);
	behind = at + 4 + ret->walk.n * 8UL;
	if (ret->walk.n > SPOOR_ARENA_MAX_FRAMES || behind > size)
		return "a call stack does not fit in its event";
	memcpy(&ret->walk.status, event + at - 4, 2);
	memcpy(&ret->walk.way, event + at - 2, 2);
	if (ret->walk.status >= SPOOR_WALK_STATUS_MAX || ret->walk.way >= SPOOR_WAY_MAX)
		return "how a call stack was walked";
	memcpy(ret->addresses, event + at + 4, ret->walk.n * 8UL);
	ret->walk.addresses = ret->addresses;
	memset(event + at, 0, 4);
	memmove(event + at + 4, event + behind, size - behind);
	h->size8 -= ret->walk.n;
	return NULL;
}

static const char *convert(struct spoor_user_events *x, struct spoor_user_packet *p, struct spoor_event_header *h,
			   uint64_t ns, struct stack *stack)
{
	const struct spoor_user_class *c = class_of(x, h->id);
	const char *what = c && c->stack_at ? take_stack(c->stack_at, h, stack) : NULL;

	if (!what)
		what = check(c, h);
	if (what)
		return what;
	stack->walk.stamp = h->ts;
	stack->walk.ns = ns;
	if (h->ts < p->last)
		return "stamps go backwards";
	if (ns > x->most)
		return "a stamp of the future";
	p->last = h->ts;
	h->ts = ns;
	h->id = c->id;
	h->flags = 0;
	x->class = c;
	return NULL;
}

/* The tid of an event; most are of the same one as the event before. */
struct tids {
	uint32_t seen, mapped;
	uint32_t first;
	bool any, several;
};

static uint32_t map_tid(const struct spoor_user_events *x, struct tids *t, uint32_t tid)
{
	if (!t->any || tid != t->seen) {
		t->seen = tid;
		t->mapped = x->tid(x->ctx, tid);
		t->first = t->any ? t->first : t->mapped;
		t->several |= t->first != t->mapped;
		t->any = true;
	}
	return t->mapped;
}

static void put_stack(const struct spoor_user_events *x, struct spoor_event_header *h, const struct stack *stack)
{
	uint32_t id = x->stack ? x->stack(x->ctx, &stack->walk) : 0;

	memcpy((uint8_t *)h + x->class->stack_at, &id, sizeof(id));
}

static bool fits(const struct spoor_event_header *h, size_t room)
{
	return room >= sizeof(*h) && h->size8 >= 2 && h->size8 * 8 <= room;
}

void spoor_user_events_convert(struct spoor_user_events *x, unsigned i, uint8_t *data, size_t len,
			       struct spoor_user_batch *ret)
{
	struct spoor_user_batch b = { .run.data = data, .all = true };
	uint8_t *to = data, *at = data, *end = data + len;
	struct spoor_user_packet *p = &x->arena->packets[i];
	const char *what = NULL;
	struct tids tids = {};
	struct stack stack;

	for (size_t size; at < end; at += size) {
		struct spoor_event_header *h = (void *)at;
		uint64_t ns;

		if (!fits(h, end - at)) {
			what = "the size of an event";
			break;
		}
		size = h->size8 * 8;
		if (!h->id)
			continue;
		ns = x->clock ? spoor_user_clock_ns(x->clock, h->ts) : h->ts;
		if (ns > x->until && ns <= x->most) {
			b.all = false;
			break;
		}
		what = convert(x, p, h, ns, &stack);
		if (what)
			break;
		if (x->class->stack_at)
			put_stack(x, h, &stack);
		h->tid = map_tid(x, &tids, h->tid);
		if (!b.n++)
			b.run.begin = h->ts;
		b.run.end = h->ts;
		if (to != at) /* padding came before it, or what is not kept */
			memmove(to, at, h->size8 * 8);
		to += ((struct spoor_event_header *)to)->size8 * 8;
	}
	if (what) {
		spoor_user_arena_garbage(x->arena, what);
		p->bad = true;
	}
	b.run.len = to - data;
	b.bytes = at - data;
	b.tid = tids.several ? 0 : tids.first;
	*ret = b;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/events.h"

#include <string.h>

/* The head of an event, as it is read: what it says is of one moment. */
union head {
	uint64_t words[2];
	struct spoor_event_header h;
};

static inline uint64_t word(const uint8_t *at)
{
	return __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
}

/* Where `to` is not behind `from`, they may overlap. */
static inline void copy_words(uint8_t *to, const uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t w = word(from + i);

		memcpy(to + i, &w, sizeof(w));
	}
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
	size_t size = spoor_event_size(h), behind;

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
	h->size4 -= 2 * ret->walk.n;
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

struct pass {
	struct spoor_user_events *x;
	const struct spoor_user_class *class; /* of the event before; it is the next one's as a rule */
	unsigned id;                          /* the arena's, of that class; 0: there was none */
	uint64_t last;                        /* stamp of the event before, as it stands in the arena */
	struct tids tids;
	struct stack *stack;
};

static const struct spoor_user_class *class_of(struct pass *k, unsigned id)
{
	struct spoor_user_arena *a = k->x->arena;

	if (id == k->id)
		return k->class;
	if (id >= a->n_classes || !a->classes[id])
		spoor_user_arena_define(a, k->x->classes); /* it came since we looked */
	if (id >= a->n_classes || !a->classes[id])
		return NULL;
	k->id = id;
	k->class = a->classes[id];
	return k->class;
}

/* The length of an event that has `size` bytes with its padding to 8, as in the arena; 0: its fields do not fit. */
static size_t length_of(const struct spoor_user_class *c, const struct spoor_event_header *h, size_t size)
{
	size_t length = c->length ?: spoor_class_length(c->c, h);

	return ((length + 7) & ~7UL) == size ? length : 0;
}

static void put_stack(struct pass *k, uint8_t *event, uint64_t stamp, uint64_t ns)
{
	uint32_t id;

	k->stack->walk.stamp = stamp;
	k->stack->walk.ns = ns;
	id = k->x->stack ? k->x->stack(k->x->ctx, &k->stack->walk) : 0;
	memcpy(event + k->class->stack_at, &id, sizeof(id));
}

static const char undescribed[] = "an event without a description";

/* An event that lies within its packet. NULL, and it is at `to`, *head with it; or what is wrong with it. */
static inline const char *take(struct pass *k, union head *head, const uint8_t *from, uint8_t *to, uint64_t ns)
{
	const struct spoor_user_class *c = class_of(k, head->h.id);
	struct spoor_event_header *h = (void *)to;
	size_t size = spoor_event_size(&head->h), length;
	uint64_t stamp = head->h.ts;

	copy_words(to + sizeof(*head), from + sizeof(*head), size - sizeof(*head));
	if (!c)
		return "an event of no known class";
	if (c == &spoor_user_undescribed)
		return undescribed;
	if (c->stack_at || !c->length)
		memcpy(h, head, sizeof(*head));
	if (c->stack_at) {
		const char *what = take_stack(c->stack_at, h, k->stack);

		if (what)
			return what;
		size = spoor_event_size(h);
	}
	length = length_of(c, h, size);
	if (!length)
		return "an event's fields do not fit in it";
	if (stamp < k->last)
		return "stamps go backwards";
	if (ns > k->x->most)
		return "a stamp of the future";
	k->last = stamp;
	if (c->stack_at)
		put_stack(k, to, stamp, ns);
	head->h = (struct spoor_event_header){
		.ts = ns, .id = c->id, .size4 = SPOOR_SIZE4(length), .tid = map_tid(k->x, &k->tids, head->h.tid)
	};
	memcpy(h, head, sizeof(*head));
	return NULL;
}

/* Returns what was wrong with the last; NULL: nothing. */
static const char *take_all(struct pass *k, const struct spoor_user_piece *piece, uint8_t *to,
			    struct spoor_user_batch *b)
{
	const uint8_t *at = piece->at, *end = at + piece->len;
	struct spoor_user_events *x = k->x;
	const char *what = NULL;
	size_t size;

	for (; at < end; at += size) {
		union head head;
		uint64_t ns;

		if ((size_t)(end - at) < sizeof(head)) {
			what = "the size of an event";
			break;
		}
		head.words[0] = word(at);
		head.words[1] = word(at + 8);
		size = spoor_event_size(&head.h);
		if (size < sizeof(head) || size % 8 || size > (size_t)(end - at)) {
			what = "the size of an event";
			break;
		}
		if (!head.h.id)
			continue;
		ns = x->clock ? spoor_user_clock_ns(x->clock, head.h.ts) : head.h.ts;
		if (ns > x->until && ns <= x->most) {
			b->done = false;
			break;
		}
		what = take(k, &head, at, to, ns);
		if (what == undescribed) {
			what = NULL;
			b->undescribed++;
			continue;
		}
		if (what)
			break;
		if (!b->n++)
			b->run.begin = ns;
		b->run.end = ns;
		to += spoor_event_size(&head.h);
	}
	b->bytes = at - piece->at;
	b->run.len = to - b->run.data;
	return what;
}

void spoor_user_events_take(struct spoor_user_events *x, unsigned i, uint8_t *to, struct spoor_user_batch *ret)
{
	struct spoor_user_packet *p = &x->arena->packets[i];
	struct spoor_user_batch b = { .run.data = to };
	struct spoor_user_piece piece;
	struct stack stack;
	struct pass k = { .x = x, .stack = &stack };
	const char *what;

	*ret = b;
	spoor_user_packet_look(x->arena, i, to, &piece);
	ret->too_much = piece.len > x->room;
	ret->done = b.done = piece.done && !ret->too_much;
	if (!piece.len || ret->too_much)
		return;
	spoor_user_arena_define(x->arena, x->classes); /* what these events refer to was complete before them */
	k.last = p->last;
	what = take_all(&k, &piece, to, &b);
	if (piece.at != to && !spoor_user_packet_same(x->arena, i, &piece)) {
		ret->done = false; /* another one by now, of a program that keeps to no rule: the next look will do */
		return;
	}
	if (what) {
		spoor_user_arena_garbage(x->arena, what);
		p->bad = true;
	}
	p->last = k.last;
	b.tid = k.tids.several ? 0 : k.tids.first;
	*ret = b;
}

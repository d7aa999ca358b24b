/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/user/taker_internal.h"
#include "collect/user/threads.h"
#include "collect/user/written.h"

#define RATE_US 3000
#define AHEAD_NS (1 * SPOOR_NS_PER_SEC) /* a stamp so far beyond the horizon is none */

int spoor_taker_new(struct spoor_writer *w, struct spoor_taker **ret)
{
	struct spoor_taker *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->w = w;
	t->classes.w = w;
	t->limit = SIZE_MAX;
	t->buffer = malloc(BUFFER);
	if (!t->buffer || spoor_user_classes_resume(&t->classes) || spoor_user_stacks_new(w, &t->stacks)) {
		spoor_taker_free(t);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < SPOOR_LANES; i++) { /* a trace that is gone on with */
		t->lanes.end[i] = spoor_writer_lane_end(w, i);
		if (t->lanes.end[i])
			t->lanes.n = i + 1;
	}
	/* Two pairs make a rate: from the first event on there is one. */
	spoor_taker_round(t);
	usleep(RATE_US);
	spoor_taker_round(t);
	*ret = t;
	return 0;
}

void spoor_taker_free(struct spoor_taker *t)
{
	if (!t)
		return;
	spoor_user_classes_done(&t->classes);
	spoor_user_stacks_free(t->stacks);
	spoor_user_clock_done(&t->clock);
	free(t->held);
	free(t->untold);
	spoor_source_list_done(&t->unwritten);
	spoor_source_list_done(&t->earlier);
	free(t->buffer);
	free(t);
}

int spoor_taker_look_back(struct spoor_taker *t, struct spoor_source *s)
{
	struct spoor_user_arena *a = s->arena;

	if (a->head.clock != SPOOR_ARENA_TSC || a->head.made >= t->clock.pairs[0].ns)
		return 0;
	s->clock = calloc(1, sizeof(*s->clock));
	if (!s->clock)
		return -ENOMEM;
	s->own_clock = true;
	for (size_t i = 0; i < t->clock.n; i++)
		spoor_user_clock_now(s->clock, t->clock.pairs[i]);
	spoor_user_arena_clocks(a, s->clock);
	for (unsigned i = 0; i < a->n_packets; i++)
		if (a->headers[i].mono)
			spoor_user_clock_add(s->clock,
					     (struct spoor_clock_pair){ a->headers[i].tsc, a->headers[i].mono });
	return 0;
}

struct spoor_user_classes *spoor_taker_classes(struct spoor_taker *t)
{
	return &t->classes;
}

/* ---- taking ---- */

void spoor_taker_go_on(struct spoor_taker *t)
{
	t->now = spoor_clock_pair_now();
	spoor_user_clock_now(&t->clock, t->now);
	t->most = t->now.ns + AHEAD_NS;
}

void spoor_taker_round(struct spoor_taker *t)
{
	spoor_taker_go_on(t);
	t->until = t->classes.now = t->now.ns;
}

void spoor_taker_limit(struct spoor_taker *t, size_t bytes)
{
	t->limit = bytes;
}

void spoor_taker_round_until(struct spoor_taker *t, uint64_t ns)
{
	t->until = ns;
	t->most = SPOOR_TAKER_END;
	t->classes.now = ns;
}

/* What the conversion of events hands back to us. */
struct taking {
	struct spoor_taker *taker;
	struct spoor_source *source;
};

static uint32_t tid_of(void *ctx, uint32_t tid)
{
	return spoor_source_tid(((struct taking *)ctx)->source, tid);
}

static uint32_t stack_of(void *ctx, const struct spoor_user_walk *walk)
{
	const struct taking *k = ctx;
	struct spoor_user_walker who = {
		.code = &k->source->arena->code,
		.addresses = &k->source->addresses,
		.pid = k->source->live ? k->source->pid : 0,
	};

	return spoor_user_stacks_id(k->taker->stacks, &who, walk);
}

int spoor_taker_take_packet(struct spoor_taker *t, struct spoor_source *s, unsigned i)
{
	struct spoor_user_arena *a = s->arena;
	struct taking taking = { t, s };
	bool ticks = a->head.clock == SPOOR_ARENA_TSC;
	struct spoor_user_events x = {
		.arena = a,
		.classes = &t->classes,
		.clock = !ticks   ? NULL :
			 s->clock ? s->clock :
				    &t->clock,
		.until = t->until,
		.most = t->most,
		.room = t->limit > t->used ? t->limit - t->used : 0,
		.tid = tid_of,
		.stack = stack_of,
		.ctx = &taking,
	};
	struct spoor_user_batch b;

	if (t->used + a->packets[i].size > BUFFER || t->n_runs == MOST_RUNS)
		return -EAGAIN;
	spoor_user_events_take(&x, i, t->buffer + t->used, &b);
	if (b.too_much)
		return -EAGAIN;
	if (!b.n && !b.bytes) {
		if (b.done && !a->packets[i].held)
			spoor_user_packet_taken(a, i, 0, 0, true);
		return 0;
	}
	t->runs[t->n_runs] = b.run;
	t->runs[t->n_runs].owner = &t->taken[t->n_runs];
	t->taken[t->n_runs] = (struct taken){
		.source = s,
		.packet = i,
		.bytes = b.bytes,
		.done = b.done,
		.n = b.n,
		.undescribed = b.undescribed,
		.tid = b.tid,
		.where = { .serial = a->packets[i].serial, .position = a->packets[i].position + b.bytes },
	};
	memcpy(t->taken[t->n_runs].where.arena, a->head.uuid, sizeof(a->head.uuid));
	t->counts.undescribed += b.undescribed;
	t->n_runs++;
	t->used += b.run.len;
	return 0;
}

/* Without memory it is told again, should a recorder come after us. */
static void remember_untold(struct spoor_taker *t, struct spoor_source *s)
{
	if (s->untold)
		return;
	if (t->n_untold == t->room_untold) {
		size_t room = t->room_untold ? t->room_untold * 2 : 16;
		struct spoor_source **grown = reallocarray(t->untold, room, sizeof(*grown));

		if (!grown)
			return;
		t->untold = grown;
		t->room_untold = room;
	}
	t->untold[t->n_untold++] = s;
	s->untold = true;
}

/* overwritten: as of when nothing was taken and not written. */
static void count_lost(struct spoor_taker *t, struct spoor_source *s, uint64_t overwritten)
{
	uint64_t lost = spoor_user_arena_lost(s->arena), child = spoor_user_arena_lost_child(s->arena);

	if (lost <= s->lost && overwritten <= s->overwritten)
		return;
	if (lost > s->lost) {
		t->lost += lost - s->lost;
		s->lost = lost;
	}
	if (child > s->lost_child) {
		t->counts.lost_child += child - s->lost_child;
		s->lost_child = child;
	}
	if (overwritten > s->overwritten) {
		t->counts.overwritten += overwritten - s->overwritten;
		s->overwritten = overwritten;
	}
	remember_untold(t, s);
}

void spoor_taker_lost(struct spoor_taker *t, struct spoor_source *s)
{
	count_lost(t, s, spoor_user_arena_overwritten(s->arena));
}

int spoor_taker_take(struct spoor_taker *t, struct spoor_source *s)
{
	uint64_t overwritten = spoor_user_arena_overwritten(s->arena);

	if (s->own_clock) {
		spoor_user_clock_forget(s->clock, s->read_until > KEEP_NS ? s->read_until - KEEP_NS : 0);
		spoor_user_clock_now(s->clock, t->now);
	}
	for (unsigned i = 0; i < s->arena->n_packets; i++) {
		int r = spoor_taker_take_packet(t, s, i);

		if (r)
			return r;
	}
	s->read_until = s->arena->peek ? s->read_until : t->until;
	count_lost(t, s, overwritten);
	return 0;
}

size_t spoor_taker_bytes(const struct spoor_taker *t)
{
	return t->used;
}

void spoor_taker_undo(struct spoor_taker *t)
{
	for (size_t i = 0; i < t->n_runs; i++) {
		struct spoor_user_arena *a = t->taken[i].source->arena;
		struct spoor_user_packet *p = &a->packets[t->taken[i].packet];

		t->counts.undescribed -= t->taken[i].undescribed;
		a->malformed -= p->bad;
		p->bad = false;
		p->last = 0;
		t->taken[i].source->read_until = 0; /* it is read again, and needs its pairs of clocks */
	}
	t->n_runs = 0;
	t->used = 0;
}

void spoor_taker_count_from(struct spoor_taker *t, const struct spoor_written_sum *written)
{
	t->written = written->events;
	t->counts.events = written->events + written->late;
	t->counts.overwritten = written->overwritten;
	t->counts.late = written->late;
	t->undescribed = t->counts.undescribed = written->undescribed;
}

int spoor_taker_unwritten(const struct spoor_taker *t, struct spoor_source_list *to)
{
	int r = spoor_source_list_add_all(to, &t->unwritten);

	return r ? r : spoor_source_list_add_all(to, &t->earlier);
}

void spoor_taker_on_unwritten(struct spoor_taker *t, void (*on_unwritten)(void *ctx), void *ctx)
{
	t->on_unwritten = on_unwritten;
	t->on_unwritten_ctx = ctx;
}

void spoor_taker_untold(struct spoor_taker *t, const struct spoor_source_list *unwritten)
{
	for (size_t i = 0; i < unwritten->n; i++)
		spoor_source_list_add(&unwritten->all[i],
				      spoor_source_is_count(&unwritten->all[i]) ? &t->unwritten : &t->earlier);
}

void spoor_taker_knows(struct spoor_taker *t, const uint8_t arena[16])
{
	spoor_source_list_forget(&t->earlier, arena);
}

void spoor_taker_counts(const struct spoor_taker *t, struct spoor_taker_counts *ret)
{
	*ret = t->counts;
	ret->events -= t->counts.late;
}

/* ---- what became of programs ---- */

uint64_t spoor_source_lost(const struct spoor_source *s)
{
	return spoor_user_arena_lost(s->arena) + s->refused;
}

uint64_t spoor_source_overwritten(const struct spoor_source *s)
{
	uint64_t n = spoor_user_arena_overwritten(s->arena);

	return n > s->overwritten ? n : s->overwritten;
}

uint32_t spoor_source_pid(const struct spoor_source *s)
{
	return s->pid ? s->pid : s->arena->head.pid;
}

void spoor_taker_tell_program(struct spoor_taker *t, const struct spoor_program *p)
{
	struct {
		struct spoor_program p;
		char padding[3];
	} __attribute__((packed, aligned(4))) def = { .p = *p };

	def.p.h.id = SPOOR_EV_PROGRAM;
	def.p.h.size4 = sizeof(def) / 4;
	def.p.h.ts = t->until;
	def.p.h.tid = p->pid;
	spoor_writer_define_user(t->w, (const void *)&def);
}

void spoor_taker_tell(struct spoor_taker *t, struct spoor_source *s, unsigned state)
{
	const struct spoor_arena *h = &s->arena->head;
	struct spoor_program p = {
		.pid = spoor_source_pid(s),
		.state = state,
		.lost = spoor_source_lost(s),
		.malformed = s->arena->malformed,
	};

	memcpy(p.arena, h->uuid, sizeof(p.arena));
	memcpy(p.comm, h->comm, sizeof(p.comm));
	spoor_taker_tell_program(t, &p);
	s->told = true;
}

void spoor_user_damaged_add(struct spoor_user_damaged *d, const char *comm, uint32_t pid, uint64_t places)
{
	size_t len = strlen(d->who);

	d->places += places;
	if (d->n++ < SPOOR_DAMAGED_NAMED)
		snprintf(d->who + len, sizeof(d->who) - len, "%s%s[%u]", len ? ", " : "",
			 *comm ? comm : "?", pid);
}

void spoor_source_damaged(const struct spoor_source *s, struct spoor_user_damaged *d)
{
	if (s->arena->malformed)
		spoor_user_damaged_add(d, s->arena->head.comm, spoor_source_pid(s), s->arena->malformed);
}

void spoor_taker_counter(struct spoor_taker *t, const char *name, uint64_t value)
{
	spoor_define_counter(t->w, spoor_writer_define_user, spoor_now_monotonic(), name, value);
}

void spoor_taker_segment(struct spoor_taker *t)
{
	spoor_user_stacks_segment(t->stacks);
}

void spoor_taker_repeat(struct spoor_taker *t, struct spoor_source *s)
{
	spoor_source_forget(s);
	spoor_taker_tell(t, s, s->state ? s->state : SPOOR_PROGRAM_RUNS);
	if (s->lost || s->overwritten || s->taken) /* the packets that said so may be dropped */
		remember_untold(t, s);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/taker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/threads.h"

#define BUFFER (8u << 20)
#define MOST_RUNS 4000   /* of a round: below SPOOR_MAX_SOURCES */
#define JOIN (16u << 10) /* runs of one lane that are together no larger are one packet */
#define MOST_SPANS 500
#define RATE_US 3000
#define KEEP_NS (10 * SPOOR_NS_PER_SEC) /* so old are the oldest pairs of clocks */
#define AHEAD_NS (1 * SPOOR_NS_PER_SEC) /* a stamp so far beyond the horizon is none */

struct taken {
	struct spoor_source *source;
	unsigned packet;
	size_t bytes;
	bool done;
	uint64_t n;
	uint32_t tid;
	struct spoor_packet_source where;
};

/* Written, and not yet where it is safe. */
struct held {
	struct spoor_source *source; /* NULL: it is gone */
	unsigned packet;
	bool done;
	uint64_t serial, position, mark;
};
#define UNMARKED UINT64_MAX

struct spoor_taker {
	struct spoor_writer *w;
	struct spoor_user_classes classes;
	struct spoor_user_stacks *stacks;
	struct spoor_user_clock clock;
	struct spoor_lanes lanes;
	uint8_t *buffer;
	size_t used, limit;
	struct spoor_run runs[MOST_RUNS];
	struct taken taken[MOST_RUNS]; /* runs[i].owner is one of them */
	size_t n_runs;
	uint64_t discarded[SPOOR_LANES];
	uint64_t lost;               /* that no lane has told of yet */
	uint64_t until, most;        /* the horizon, ns, and what no stamp can be beyond */
	struct spoor_clock_pair now; /* both clocks at the horizon */
	struct spoor_packet_source sources[SPOOR_MAX_SOURCES];
	struct spoor_source **untold; /* whose losses are in `lost` */
	size_t n_untold, room_untold;
	struct spoor_taker_counts counts;
	bool holds;
	struct held *held; /* in the order of marks, from first_held on */
	size_t first_held, n_held, room_held;
};

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
		spoor_user_clock_add(s->clock, t->clock.pairs[i]);
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
	spoor_user_clock_add(&t->clock, t->now);
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
	bool ticks = a->head.clock == SPOOR_ARENA_TSC, done;
	struct spoor_user_events x = {
		.arena = a,
		.classes = &t->classes,
		.clock = !ticks   ? NULL :
			 s->clock ? s->clock :
				    &t->clock,
		.until = t->until,
		.most = t->most,
		.tid = tid_of,
		.stack = stack_of,
		.ctx = &taking,
	};
	struct spoor_user_batch b;
	size_t n;

	if (t->used + a->packets[i].size > BUFFER || t->n_runs == MOST_RUNS)
		return -EAGAIN;
	n = spoor_user_packet_copy(a, i, t->buffer + t->used, &done);
	if (n > t->limit || t->used > t->limit - n)
		return -EAGAIN;
	if (!n) {
		if (done && !a->packets[i].held)
			spoor_user_packet_taken(a, i, 0, true);
		return 0;
	}
	spoor_user_arena_define(a, &t->classes); /* what these events refer to was complete before them */
	spoor_user_events_convert(&x, i, t->buffer + t->used, n, &b);
	if (!b.n && !b.bytes)
		return 0;
	t->runs[t->n_runs] = b.run;
	t->runs[t->n_runs].owner = &t->taken[t->n_runs];
	t->taken[t->n_runs] = (struct taken){
		.source = s,
		.packet = i,
		.bytes = b.bytes,
		.done = done && b.all,
		.n = b.n,
		.tid = b.tid,
		.where = { .serial = a->packets[i].serial, .position = a->packets[i].position + b.bytes },
	};
	memcpy(t->taken[t->n_runs].where.arena, a->head.uuid, sizeof(a->head.uuid));
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

int spoor_taker_take(struct spoor_taker *t, struct spoor_source *s)
{
	uint64_t lost;

	if (s->own_clock)
		spoor_user_clock_add(s->clock, t->now);
	for (unsigned i = 0; i < s->arena->n_packets; i++) {
		int r = spoor_taker_take_packet(t, s, i);

		if (r)
			return r;
	}
	lost = spoor_user_arena_lost(s->arena);
	if (lost > s->lost) {
		t->lost += lost - s->lost;
		s->lost = lost;
		remember_untold(t, s);
	}
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

		a->malformed -= p->bad;
		p->bad = false;
		p->last = 0;
	}
	t->n_runs = 0;
	t->used = 0;
}

/* ---- writing ---- */

static int by_lane(const void *a, const void *b)
{
	const struct spoor_run *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* How much its programs lost, told with this packet or before. Returns how many sources there are now. */
static size_t add_lost(struct spoor_taker *t, size_t n, struct spoor_source *s)
{
	if (!s->lost || s->named == t->counts.packets || n == SPOOR_MAX_SOURCES)
		return n;
	t->sources[n] = (struct spoor_packet_source){ .serial = SPOOR_SOURCE_LOST, .position = s->lost };
	memcpy(t->sources[n].arena, s->arena->head.uuid, sizeof(t->sources[n].arena));
	s->named = t->counts.packets;
	return n + 1;
}

/* Where what is in the packet of these runs comes from, its count of losses included. */
static size_t name_sources(struct spoor_taker *t, size_t first, size_t n_runs)
{
	size_t n = 0;

	for (size_t i = first; i < first + n_runs; i++)
		t->sources[n++] = ((const struct taken *)t->runs[i].owner)->where;
	for (size_t i = 0; i < t->n_untold; i++) {
		n = add_lost(t, n, t->untold[i]);
		t->untold[i]->untold = false;
	}
	t->n_untold = 0;
	for (size_t i = first; i < first + n_runs; i++)
		n = add_lost(t, n, ((const struct taken *)t->runs[i].owner)->source);
	return n;
}

/* No room for the packet of these runs, but for `late` events of theirs, which were not in it: the writer counts it. */
static void refuse(struct spoor_taker *t, size_t first, size_t n_runs, uint64_t late)
{
	for (size_t i = first; i < first + n_runs; i++) {
		struct taken *k = t->runs[i].owner;
		uint64_t left = k->n < late ? k->n : late;

		k->source->refused += k->n - left;
		k->n = left;
		late -= left;
	}
}

/* all: the packet's events, as they are placed; late: how many of the runs' are not in it. */
static int write_packet(struct spoor_taker *t, const struct spoor_run *all, const struct iovec *spans, int n_spans,
			uint32_t tid, size_t first, size_t n_runs, uint64_t late, struct spoor_error *e)
{
	struct spoor_lane_packet p = {
		.spans = spans,
		.n_spans = n_spans,
		.ts_begin = all->begin,
		.ts_end = all->end,
		.vtid = tid,
		.sources = t->sources,
	};
	int r;

	t->counts.packets++;
	p.n_sources = name_sources(t, first, n_runs);
	t->discarded[all->lane] += t->lost;
	t->lost = 0;
	p.discarded = t->discarded[all->lane];
	r = spoor_writer_lane_packet(t->w, all->lane, &p, e);
	if (r != -ENOBUFS)
		return r;
	refuse(t, first, n_runs, late);
	return 0;
}

/* Runs from i on that one packet takes. Returns how many. */
static size_t join(struct spoor_taker *t, size_t i, struct iovec *spans, uint32_t *ret_tid)
{
	const struct taken *first = t->runs[i].owner;
	size_t bytes = 0, k = 0;

	*ret_tid = first->tid;
	for (; i + k < t->n_runs && k < MOST_SPANS; k++) {
		const struct spoor_run *run = &t->runs[i + k];
		const struct taken *from = run->owner;

		if (k && (run->lane != t->runs[i].lane || bytes + run->len > JOIN))
			break;
		spans[k] = (struct iovec){ run->data, run->len };
		if (from->tid != *ret_tid)
			*ret_tid = 0;
		bytes += run->len;
	}
	return k;
}

static int write_runs(struct spoor_taker *t, struct spoor_error *e)
{
	struct iovec spans[MOST_SPANS];
	int err = 0;

	qsort(t->runs, t->n_runs, sizeof(*t->runs), by_lane);
	for (size_t i = 0, k; i < t->n_runs; i += k) {
		struct spoor_run all = t->runs[i];
		uint32_t tid;
		int r;

		k = join(t, i, spans, &tid);
		all.end = t->runs[i + k - 1].end;
		r = write_packet(t, &all, spans, k, tid, i, k, 0, e);
		err = err ? err : r;
	}
	return err;
}

/* What lies before the end of every lane has no place any more. */
static void cut_late(struct spoor_taker *t, struct spoor_run *run)
{
	uint64_t horizon = spoor_lanes_horizon(&t->lanes);

	while (run->len && run->begin < horizon) {
		size_t size = ((struct spoor_event_header *)run->data)->size8 * 8;

		run->data += size;
		run->len -= size;
		run->begin = run->len ? ((struct spoor_event_header *)run->data)->ts : 0;
		t->counts.late++;
		t->lost++;
	}
}

/* So many threads wrote at once that their runs do not fit into the lanes: one packet of all of them. */
static int write_merged(struct spoor_taker *t, struct spoor_error *e)
{
	_cleanup_(spoor_freep) uint8_t *buffer = malloc(t->used ? t->used : 1);
	uint64_t late = t->counts.late;
	struct spoor_run all;
	struct iovec span;
	int r = buffer ? spoor_runs_merge(t->runs, t->n_runs, buffer, &all) : -ENOMEM;

	if (r)
		return spoor_fail(e, -r, "out of memory");
	t->counts.merged++;
	cut_late(t, &all);
	if (!all.len)
		return 0;
	r = spoor_lanes_place(&t->lanes, &all);
	if (r)
		return spoor_fail(e, EINVAL, "no lane takes what was merged");
	span = (struct iovec){ all.data, all.len };
	return write_packet(t, &all, &span, 1, 0, 0, t->n_runs, t->counts.late - late, e);
}

/* ---- holding ---- */

void spoor_taker_hold(struct spoor_taker *t)
{
	t->holds = true;
}

static bool make_room(struct spoor_taker *t)
{
	struct held *grown;

	if (t->first_held > t->room_held / 2 && t->n_held == t->room_held) {
		memmove(t->held, t->held + t->first_held, (t->n_held - t->first_held) * sizeof(*t->held));
		t->n_held -= t->first_held;
		t->first_held = 0;
	}
	if (t->n_held < t->room_held)
		return true;
	grown = reallocarray(t->held, t->room_held ? t->room_held * 2 : 1024, sizeof(*grown));
	if (!grown)
		return false;
	t->held = grown;
	t->room_held = t->room_held ? t->room_held * 2 : 1024;
	return true;
}

static bool hold(struct spoor_taker *t, const struct taken *k)
{
	struct spoor_user_arena *a = k->source->arena;

	if (!t->holds || a->peek || !make_room(t))
		return false;
	spoor_user_packet_hold(a, k->packet, k->bytes);
	k->source->held++;
	t->held[t->n_held++] = (struct held){ .source = k->source,
					      .packet = k->packet,
					      .done = k->done,
					      .serial = k->where.serial,
					      .position = k->where.position,
					      .mark = UNMARKED };
	return true;
}

void spoor_taker_mark(struct spoor_taker *t, uint64_t mark)
{
	for (size_t i = t->n_held; i > t->first_held && t->held[i - 1].mark == UNMARKED; i--)
		t->held[i - 1].mark = mark;
}

void spoor_taker_release(struct spoor_taker *t, uint64_t acked)
{
	for (; t->first_held < t->n_held && t->held[t->first_held].mark <= acked; t->first_held++) {
		struct held *k = &t->held[t->first_held];

		if (!k->source)
			continue;
		k->source->held--;
		spoor_user_packet_release(k->source->arena, k->packet, k->serial, k->position, k->done);
	}
	if (t->first_held == t->n_held)
		t->first_held = t->n_held = 0;
}

void spoor_taker_leave(struct spoor_taker *t, struct spoor_source *s)
{
	for (size_t i = 0; s->untold && i < t->n_untold; i++)
		if (t->untold[i] == s) {
			t->untold[i] = t->untold[--t->n_untold];
			break;
		}
	s->untold = false;
	s->lost = s->named = 0;
}

void spoor_taker_forget(struct spoor_taker *t, struct spoor_source *s)
{
	spoor_taker_leave(t, s);
	if (!s->held)
		return;
	for (size_t i = t->first_held; i < t->n_held; i++)
		if (t->held[i].source == s)
			t->held[i].source = NULL;
	s->held = 0;
}

static void give_back(struct spoor_taker *t)
{
	for (size_t i = 0; i < t->n_runs; i++) {
		struct taken *k = &t->taken[i];

		if (!hold(t, k))
			spoor_user_packet_taken(k->source->arena, k->packet, k->bytes, k->done);
		k->source->n += k->n;
		k->source->bytes += k->bytes;
		t->counts.events += k->n;
	}
	t->n_runs = 0;
	t->used = 0;
}

/* Padding alone is taken, too, but makes no run. */
static void leave_out_empty(struct spoor_taker *t, size_t *ret_all)
{
	size_t n = 0;

	*ret_all = t->n_runs;
	for (size_t i = 0; i < t->n_runs; i++)
		if (t->runs[i].len) {
			struct spoor_run run = t->runs[i];

			t->runs[i] = t->runs[n];
			t->runs[n++] = run;
		}
	t->n_runs = n;
}

int spoor_taker_write(struct spoor_taker *t, struct spoor_error *e)
{
	int r, r2 = 0;
	size_t all;

	for (size_t i = 0; i < t->n_runs; i++)
		spoor_source_define(t->taken[i].source, t->w, t->runs[i].begin);
	r = spoor_writer_flush(t->w, e);
	leave_out_empty(t, &all);
	if (t->n_runs) {
		if (spoor_lanes_assign(&t->lanes, t->runs, t->n_runs) == 0)
			r2 = write_runs(t, r ? NULL : e);
		else
			r2 = write_merged(t, r ? NULL : e);
	}
	t->n_runs = all;
	give_back(t);
	spoor_user_clock_forget(&t->clock, t->until > KEEP_NS ? t->until - KEEP_NS : 0);
	return r ? r : r2;
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

void spoor_taker_tell(struct spoor_taker *t, struct spoor_source *s, unsigned state)
{
	const struct spoor_arena *h = &s->arena->head;
	struct {
		struct spoor_program p;
		char padding[3];
	} __attribute__((packed, aligned(8))) def = {};

	def.p.h.id = SPOOR_EV_PROGRAM;
	def.p.h.size8 = sizeof(def) / 8;
	def.p.h.ts = t->until;
	def.p.h.tid = s->pid ? s->pid : h->pid;
	def.p.pid = def.p.h.tid;
	def.p.state = state;
	def.p.lost = spoor_source_lost(s);
	def.p.malformed = s->arena->malformed;
	memcpy(def.p.arena, h->uuid, sizeof(def.p.arena));
	memcpy(def.p.comm, h->comm, sizeof(def.p.comm));
	spoor_writer_define_user(t->w, (const void *)&def);
	s->told = true;
}

void spoor_taker_segment(struct spoor_taker *t)
{
	spoor_user_stacks_segment(t->stacks);
}

void spoor_taker_repeat(struct spoor_taker *t, struct spoor_source *s)
{
	spoor_source_forget(s);
	spoor_taker_tell(t, s, s->state ? s->state : SPOOR_PROGRAM_RUNS);
}

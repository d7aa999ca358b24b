/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/recover.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/recover_left.h"
#include "collect/user/threads.h"

#define FIRST_STEP (10 * 1000000ULL) /* ns of a round; it is adapted to how much that is */
#define ENOUGH (2u << 20)            /* bytes of a round: with less, the next one is longer */

struct piece { /* a packet with something in it */
	struct spoor_left *left;
	unsigned packet;
	uint64_t begin; /* ns */
};

struct recovery {
	struct spoor_lefts left;
	struct piece *pieces; /* by begin */
	size_t n_pieces;
	struct spoor_left **ends; /* left.all by `last`; the losses of so many are told: */
	size_t n_told;
	void *numbers; /* who has which */
	struct spoor_recovery *ret;
};

static void recovery_done(struct recovery *r)
{
	spoor_lefts_done(&r->left);
	tdestroy(r->numbers, free);
	free(r->pieces);
	free(r->ends);
}

/* ---- in the order of time ---- */

static int by_begin(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static uint64_t begin_of(struct spoor_left *l, unsigned i)
{
	struct spoor_user_arena *a = l->source.arena;
	uint64_t ts = 0;

	if (a->packets[i].fd >= 0) {
		if (pread(a->packets[i].fd, &ts, sizeof(ts), a->packets[i].offset) != sizeof(ts))
			return 0;
	} else {
		memcpy(&ts, a->base + a->packets[i].offset, sizeof(ts));
	}
	return a->head.clock == SPOOR_ARENA_TSC ? spoor_user_clock_ns(&l->clock, ts) : ts;
}

static int list_pieces(struct recovery *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->left.n; i++)
		n += r->left.all[i]->source.arena->n_packets;
	r->pieces = calloc(n ? n : 1, sizeof(*r->pieces));
	if (!r->pieces)
		return -ENOMEM;
	for (size_t i = 0; i < r->left.n; i++) {
		struct spoor_left *l = r->left.all[i];
		struct spoor_user_arena *a = l->source.arena;

		for (unsigned k = 0; k < a->n_packets; k++) {
			struct piece p = { l, k, 0 };

			if (!a->headers[k].committed || spoor_user_packet_leaves(a, k) ||
			    SPOOR_OWNER_STATE(a->headers[k].owner) == SPOOR_PACKET_FREE)
				continue;
			p.begin = begin_of(l, k);
			l->last = p.begin > l->last ? p.begin : l->last;
			r->pieces[r->n_pieces++] = p;
		}
	}
	qsort(r->pieces, r->n_pieces, sizeof(*r->pieces), by_begin);
	return 0;
}

static bool is_done(const struct piece *p)
{
	const struct spoor_user_arena *a = p->left->source.arena;
	const struct spoor_user_packet *k = &a->packets[p->packet];

	return k->bad || (k->serial == a->headers[p->packet].serial && k->position >= a->headers[p->packet].committed);
}

/* ---- who is who ---- */

/* It wrote, or ended, then; it may have lived longer. */
static uint64_t alive_at(const struct spoor_left *l)
{
	const struct spoor_user_arena *a = l->source.arena;
	uint64_t at = l->last > a->head.made ? l->last : a->head.made;

	for (unsigned i = 0; i < SPOOR_ARENA_MAX_CLOCKS && i < a->head.n_clocks; i++)
		at = a->head.clocks[i].mono > at ? a->head.clocks[i].mono : at;
	for (unsigned i = 0; i < a->n_packets; i++)
		at = a->headers[i].mono > at ? a->headers[i].mono : at;
	return at;
}

/* Of those with one number the one that made its buffers first. */
static int by_pid(const void *a, const void *b)
{
	const struct spoor_arena *x = &(*(struct spoor_left *const *)a)->source.arena->head;
	const struct spoor_arena *y = &(*(struct spoor_left *const *)b)->source.arena->head;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->made < y->made ? -1 : x->made > y->made;
}

static int by_last(const void *a, const void *b)
{
	const struct spoor_left *x = *(struct spoor_left *const *)a, *y = *(struct spoor_left *const *)b;

	return x->last < y->last ? -1 : x->last > y->last;
}

static int sorted(const struct recovery *r, int (*compare)(const void *a, const void *b), struct spoor_left ***ret)
{
	struct spoor_left **all = calloc(r->left.n, sizeof(*all));

	if (!all)
		return -ENOMEM;
	memcpy(all, r->left.all, r->left.n * sizeof(*all));
	qsort(all, r->left.n, sizeof(*all), compare);
	*ret = all;
	return 0;
}

/*
 * Where two processes had one number at the same time, as the first ones of containers do, the later one is called
 * otherwise: what both wrote would else be of one. What a process executes makes its buffers when those of what it was
 * are left. Where only threads had, that shows when they come (spoor_source_tid()).
 */
static int tell_apart(struct recovery *r)
{
	_cleanup_(spoor_freep) struct spoor_left **all = NULL;
	uint64_t until = 0; /* so long has one of those before the number */
	int err = sorted(r, by_pid, &all);

	for (size_t i = 0; i < r->left.n && !err; i++) {
		struct spoor_source *s = &all[i]->source;
		const struct spoor_arena *h = &s->arena->head;
		uint64_t alive = alive_at(all[i]);

		s->numbers = &r->numbers;
		s->until = alive;
		if (!i || all[i - 1]->source.arena->head.pid != h->pid)
			until = 0;
		s->foreign = h->made < until;
		if (s->foreign) {
			s->pid = spoor_nobodys_tid();
			continue;
		}
		until = alive > until ? alive : until;
	}
	return err;
}

struct sweep {
	size_t first, next; /* pieces before `first` are done, those from `next` on begin later */
	uint64_t from, step;
};

/*
 * Its program counted them in all, so that nobody knows when: told with the last that it wrote, and not with the first
 * packet of all, from whose counts babeltrace2 begins.
 */
static void take_losses(struct recovery *r, struct spoor_taker *t, uint64_t until)
{
	struct spoor_taker_counts counts;

	spoor_taker_counts(t, &counts);
	for (; counts.packets && r->n_told < r->left.n && r->ends[r->n_told]->last <= until; r->n_told++)
		spoor_taker_lost(t, &r->ends[r->n_told]->source);
}

/* Takes what lies before `until`. -EAGAIN: that is more than a round can be. */
static int take_until(struct recovery *r, struct sweep *s, struct spoor_taker *t, uint64_t until)
{
	spoor_taker_round_until(t, until);
	for (s->next = s->first; s->next < r->n_pieces && r->pieces[s->next].begin <= until; s->next++) {
		struct piece *p = &r->pieces[s->next];
		int err = is_done(p) ? 0 : spoor_taker_take_packet(t, &p->left->source, p->packet);

		if (err)
			return err;
	}
	return 0;
}

/* The first round, without a step, is of what came first: see take_losses(). */
static uint64_t next_step(const struct sweep *s, const struct spoor_taker *t)
{
	if (!s->step)
		return FIRST_STEP;
	return spoor_taker_bytes(t) < ENOUGH && s->step < SPOOR_TAKER_END ? s->step * 2 : s->step;
}

static int sweep(struct recovery *r, struct spoor_taker *t, struct spoor_error *e)
{
	struct sweep s = { .from = r->n_pieces ? r->pieces[0].begin : 0 };

	while (s.first < r->n_pieces) {
		uint64_t until = s.from + s.step < SPOOR_TAKER_END ? s.from + s.step : SPOOR_TAKER_END;
		int err = take_until(r, &s, t, until);

		if (err == -EAGAIN && s.step > 1) {
			spoor_taker_undo(t);
			s.step /= 2;
			continue;
		}
		if (err && err != -EAGAIN)
			return err;
		take_losses(r, t, until);
		s.step = next_step(&s, t);
		err = spoor_taker_write(t, e) ?: err;
		if (err && err != -EAGAIN)
			return err;
		while (s.first < r->n_pieces && is_done(&r->pieces[s.first]))
			s.first++;
		if (err == -EAGAIN)
			continue; /* so much at one nanosecond */
		s.from = until;
		if (s.first == s.next && s.next < r->n_pieces && r->pieces[s.next].begin > until)
			s.from = r->pieces[s.next].begin - 1;
		else if (until == SPOOR_TAKER_END)
			break;
	}
	return 0;
}

/* ---- the trace ---- */

static void count_cut(struct spoor_recovery *ret, const struct spoor_user_arena *a)
{
	if (a->size >= a->head.size)
		return;
	ret->cut++;
	ret->cut_bytes += a->head.size - a->size;
	ret->missing += a->missing;
}

static void tell(struct recovery *r, struct spoor_taker *t)
{
	for (size_t i = 0; i < r->left.n; i++) {
		struct spoor_source *s = &r->left.all[i]->source;
		unsigned state = spoor_user_arena_end(s->arena);

		r->ret->children += spoor_user_arena_children(s->arena); /* before it is asked what made no sense */

		if (s->arena->malformed || s->arena->size < s->arena->head.size)
			state = SPOOR_PROGRAM_DAMAGED;
		else if (r->left.all[i]->runs && state != SPOOR_PROGRAM_ENDED) /* its process may execute another */
			state = SPOOR_PROGRAM_RUNS;
		spoor_taker_tell(t, s, state);
		r->ret->programs++;
		count_cut(r->ret, s->arena);
		r->ret->crashed += state == SPOOR_PROGRAM_CRASHED;
		r->ret->unseen += state == SPOOR_PROGRAM_UNSEEN;
		r->ret->running += state == SPOOR_PROGRAM_RUNS;
		r->ret->stuck += s->arena->head.n_stuck != 0;
		spoor_source_damaged(s, &r->ret->damaged);
		r->ret->uncounted |= spoor_user_arena_uncounted(s->arena);
		r->ret->lost += spoor_user_arena_lost(s->arena);
		r->ret->lost_child += spoor_user_arena_lost_child(s->arena);
		r->ret->overwritten += spoor_user_arena_overwritten(s->arena);
	}
}

/*
 * When the last event of all was written. There the trace ends: what is told of the whole would else be of now, which
 * may be days later, or a clock of another boot.
 */
static uint64_t end_of(const struct recovery *r)
{
	uint64_t end = r->n_pieces ? r->pieces[0].begin : 0;

	for (size_t i = 0; i < r->n_pieces; i++) {
		struct spoor_left *l = r->pieces[i].left;
		const struct spoor_user_arena *a = l->source.arena;
		uint64_t last = a->packets[r->pieces[i].packet].last;

		if (last && a->head.clock == SPOOR_ARENA_TSC)
			last = spoor_user_clock_ns(&l->clock, last);
		end = last > end ? last : end;
	}
	return end;
}

static void define_counters(const struct recovery *r, struct spoor_writer *w, uint64_t ts)
{
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_events", r->ret->events);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_discarded", r->ret->lost);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_lost_child", r->ret->lost_child);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_undescribed", r->ret->undescribed);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_not_recorded", r->ret->children);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_overwritten", r->ret->overwritten);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_malformed", r->ret->damaged.places);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_uncounted", __builtin_popcount(r->ret->uncounted));
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_programs", r->ret->programs);
	spoor_define_counter(w, spoor_writer_define_user, ts, "ust_crashed", r->ret->crashed);
}

static int define_all(struct recovery *r, struct spoor_taker *t)
{
	uint64_t begin = r->n_pieces ? r->pieces[0].begin : 0;

	spoor_taker_round_until(t, begin);
	for (size_t i = 0; i < r->left.n; i++) {
		spoor_user_arena_define(r->left.all[i]->source.arena, spoor_taker_classes(t));
		spoor_taker_tell(t, &r->left.all[i]->source, SPOOR_PROGRAM_BEGUN);
	}
	return 0;
}

static int write_trace(struct recovery *r, const char *output, const char *command, struct spoor_error *e)
{
	const struct spoor_arena *h = &r->left.all[0]->source.arena->head;
	struct spoor_writer_options o = {
		.path = output,
		.command = command,
		.mode = "recovered",
		.n_lanes = SPOOR_LANES,
		.boot_id = h->boot_id,
		.epoch_offset = h->realtime - h->made,
	};
	struct spoor_taker_counts counts;
	struct spoor_writer *w = NULL;
	struct spoor_taker *t = NULL;
	int err = spoor_writer_open(&o, &w, e), err2;

	if (err)
		return err;
	err = spoor_taker_new(w, &t);
	if (!err)
		err = define_all(r, t);
	if (!err)
		err = sweep(r, t, e);
	if (t) {
		uint64_t end = end_of(r);

		if (end) /* else no round was made */
			spoor_taker_round_until(t, end);
		tell(r, t);
		spoor_taker_counts(t, &counts);
		r->ret->events = counts.events;
		r->ret->undescribed = counts.undescribed;
		r->ret->lost += counts.late + counts.undescribed;
		define_counters(r, w, end ? end : spoor_now_monotonic());
	}
	err2 = spoor_writer_close(w, err ? NULL : e);
	spoor_taker_free(t);
	if (err == -ENOMEM)
		return spoor_fail(e, ENOMEM, "%s: out of memory", output);
	return err ? err : err2;
}

static int check_boots(const struct recovery *r, struct spoor_error *e)
{
	for (size_t i = 1; i < r->left.n; i++)
		if (memcmp(r->left.all[i]->source.arena->head.boot_id, r->left.all[0]->source.arena->head.boot_id, 16))
			return spoor_fail(e, EINVAL,
					  "the files are from before and after a restart of the machine, whose clocks "
					  "do not compare: recover them apart");
	return 0;
}

int spoor_recover(char *const *paths, size_t n, const char *output, const char *command, struct spoor_recovery *ret,
		  struct spoor_error *e)
{
	_cleanup_(recovery_done) struct recovery r = { .ret = ret };
	int err = 0;

	*ret = (struct spoor_recovery){};
	for (size_t i = 0; i < n && !err; i++)
		err = spoor_lefts_add(&r.left, paths[i], e);
	ret->unreadable = r.left.unreadable;
	memcpy(ret->why, r.left.why, sizeof(ret->why));
	if (!err && !r.left.n && ret->unreadable)
		return spoor_fail(e, EBADMSG, "%s", ret->why);
	if (!err && !r.left.n)
		return spoor_fail(e, ENODATA, "%s: there is no buffer of a program (*.arena) in it", paths[0]);
	if (!err)
		err = check_boots(&r, e);
	if (!err && (list_pieces(&r) || sorted(&r, by_last, &r.ends) || tell_apart(&r)))
		err = spoor_fail(e, ENOMEM, "out of memory");
	return err ? err : write_trace(&r, output, command, e);
}

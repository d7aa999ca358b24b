/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hub's rounds, and the sessions that they are of. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"
#include "collect/user/network.h"

#define PERIOD_LEAST (2 * 1000000ULL)
#define PERIOD_NEW (5 * 1000000ULL)
#define PERIOD_MOST (100 * 1000000ULL) /* pairs of clocks are taken as often */
#define CROWD 40
#define BUSY 350 /* per mille of an arena in one round: look sooner */
#define IDLE 180 /* so full is it when its program wakes us */
#define HELD_UP (500 * 1000000ULL)
#define PERIOD_ENDING (10 * 1000000ULL) /* while somebody waits for a session's end */

/* ---- rounds ---- */

/*
 * With many programs a round is one merged run, and each round with somebody new in it, who wrote before he was known,
 * ends another lane: so they must not follow each other too soon, or lanes run out for who comes late.
 */
static uint64_t least_period(const struct spoor_hub *h)
{
	return h->n_programs > CROWD ? PERIOD_MOST / 2 : PERIOD_LEAST;
}

void spoor_hub_full(struct spoor_hub *h)
{
	uint64_t soon = h->last + least_period(h);

	spoor_waker_heard(h->waker);
	h->due = soon < h->due ? soon : h->due;
}

/* A program's, which may be asked for only if it was let go. NULL: none. */
static const struct hub_member *member_of(struct hub_program *p, const struct spoor_ust_session *s, bool let_go)
{
	const struct hub_member *m = spoor_program_member(p, s);

	return m && (m->let_go || !let_go) ? m : NULL;
}

/* let_go: only of those that were. */
static size_t sources_of(struct spoor_hub *h, const struct spoor_ust_session *s, bool let_go,
			 struct spoor_source ***ret)
{
	size_t n = 0;

	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = member_of(p, s, let_go);

		n += m ? m->n_arenas : 0;
	}
	n += s->n_retired;
	*ret = calloc(n ? n : 1, sizeof(**ret));
	if (!*ret)
		return 0;
	n = 0;
	for (size_t i = 0; i < s->n_retired; i++)
		if (!s->retired[i].sent)
			(*ret)[n++] = s->retired[i].source;
	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = member_of(p, s, let_go);

		for (size_t i = 0; m && i < m->n_arenas; i++)
			(*ret)[n++] = m->arenas[i];
	}
	return n;
}

/* What a program that has ended left, if that was let go, or if it was not: bytes of memory. */
static uint64_t memory_of_gone(struct hub_program *p, const struct spoor_ust_session *s, bool let_go)
{
	const struct hub_member *m = p->gone ? spoor_program_member(p, s) : NULL;
	uint64_t sum = 0;

	for (size_t i = 0; m && m->let_go == let_go && i < m->n_arenas; i++)
		sum += m->arenas[i]->memory;
	return sum;
}

/* Of all programs. */
static uint64_t memory_of_all_gone(struct spoor_hub *h, const struct spoor_ust_session *s, bool let_go,
				   struct hub_program **ret_first)
{
	uint64_t sum = 0;

	*ret_first = NULL;
	for (struct hub_program *p = h->first; p; p = p->next) {
		sum += memory_of_gone(p, s, let_go);
		*ret_first = p;
	}
	return sum;
}

/* What was let go and is not there yet is kept as long as it is no more than the relay's memory again. */
static void drop(struct spoor_hub *h, struct spoor_ust_session *s)
{
	struct hub_program *p;
	uint64_t sum = memory_of_all_gone(h, s, true, &p), size;

	for (; p && sum > spoor_sender_memory(s->sender); p = p->prev) {
		size = memory_of_gone(p, s, true);
		if (size)
			spoor_program_member(p, s)->dropped = true;
		sum -= size;
	}
}

/*
 * Those that have ended and wait for the relay must not pile up: of what the first ones left goes what can. Many at
 * once, as in any other round, for it would lie behind what the others wrote.
 */
static int let_go(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_error *e)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	struct hub_program *p;
	uint64_t sum = memory_of_all_gone(h, s, false, &p), size;
	size_t n;

	if (sum <= spoor_sender_memory(s->sender))
		return 0;
	for (; p && sum > spoor_sender_memory(s->sender) / 2; p = p->prev) {
		size = memory_of_gone(p, s, false);
		if (!size || size == sum) /* one is held, whatever its size */
			continue;
		spoor_program_member(p, s)->let_go = true;
		sum -= size;
	}
	n = sources_of(h, s, true, &sources);
	return spoor_ust_session_drain(s, sources, n, e);
}

static uint64_t written(const struct spoor_ust_session *s)
{
	struct spoor_taker_counts counts;

	spoor_taker_counts(s->taker, &counts);
	return counts.events;
}

int spoor_hub_take(struct spoor_hub *h, struct spoor_ust_session *s, enum hub_taking how)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	struct spoor_error e = { "" };
	uint64_t before = written(s);
	int share = 0, r = 0;
	size_t n;

	if (s->flight && s->sender) {
		spoor_network_release(s);
		spoor_hub_retired_look(h, s);
	}
	if (s->flight && how == TAKE_DUE)
		return 0;
	n = sources_of(h, s, false, &sources);
	if (s->sender) {
		spoor_network_losses(s, sources, n);
		share = let_go(h, s, &e);
		drop(h, s);
	}
	if (share >= 0)
		share = how == TAKE_ALL ? spoor_ust_session_drain(s, sources, n, &e) :
					  spoor_ust_session_take(s, sources, n, &e);
	if (share >= 0 && !s->o.writer && spoor_writer_should_rotate(s->w, spoor_now_monotonic()))
		r = spoor_ust_session_rotate(s, sources, n, &e);
	if (share < 0 || r < 0)
		spoor_ust_session_fails(s, e.text);
	else if (s->failed && how == TAKE_DUE && !s->o.writer && written(s) > before) /* who stops at it has */
		spoor_ust_session_goes_on(s);
	return share;
}

void spoor_hub_drain(struct spoor_hub *h, struct spoor_ust_session *s)
{
	spoor_hub_take(h, s, TAKE_DUE);
}

void spoor_hub_hurry(struct spoor_hub *h)
{
	if (h->n_programs > CROWD)
		return;
	h->period = PERIOD_NEW;
	h->due = 0;
}

/* Often enough that no arena fills, and not oftener. */
static void adapt(struct spoor_hub *h, int most)
{
	uint64_t least = least_period(h);

	if (most > BUSY || h->period < least)
		h->period = h->period / 2 > least ? h->period / 2 : least;
	else if (most < IDLE)
		h->period = h->period * 5 / 4 < PERIOD_MOST ? h->period * 5 / 4 : PERIOD_MOST;
}

static void say_trouble(struct spoor_hub *h, struct spoor_ust_session *s)
{
	char text[640];

	if (spoor_network_trouble(s, text, sizeof(text)))
		spoor_hub_warn(h, "%s", text);
}

/* Of all sessions. Returns the largest share of an arena. */
static int take_rounds(struct spoor_hub *h, uint64_t now)
{
	int most = 0;

	for (struct spoor_ust_session *s = h->sessions, *next; s; s = next) {
		int share = s->ending.step ? 0 : spoor_hub_take(h, s, TAKE_DUE);

		next = s->next;
		most = share > most ? share : most;
		say_trouble(h, s);
		if (s->ending.step)
			spoor_hub_end_step(h, s, now);
	}
	return most;
}

static bool anything_ends(const struct spoor_hub *h)
{
	const struct spoor_ust_session *s = h->sessions;

	while (s && !s->ending.step)
		s = s->next;
	return s;
}

/* A slow disk may have held us up, while nobody heard what programs answer. */
static void note_delay(struct spoor_hub *h, uint64_t now)
{
	uint64_t delay = h->ticked ? now - h->ticked : 0;

	h->ticked = now;
	if (delay >= HELD_UP)
		spoor_requests_wait_longer(h, delay);
}

int spoor_hub_tick(struct spoor_hub *h)
{
	uint64_t now = spoor_now_monotonic();
	int most;

	note_delay(h, now);
	spoor_board_tick(h, now);
	if (h->crowd >= HUB_BACKLOG) { /* more than could wait for us */
		h->crowd = 0;
		spoor_hub_kick(h, NULL, 0, NULL);
	}
	spoor_recall_tick(h, now);
	if (now < h->due)
		return (h->due - now) / 1000000 + 1;
	spoor_hub_listen_to_all(h, true);
	spoor_hub_accept_asked(h);
	for (struct hub_program *p = h->first; p; p = p->next) {
		spoor_program_look(p, now);
		spoor_program_ask_rows(p);
	}
	spoor_orphans_find_keeper(h, now);
	spoor_orphans_look(h, false);
	most = take_rounds(h, now);
	for (struct hub_program *p = h->first; p; p = p->next)
		if (p->gone && spoor_program_is_taken(p))
			spoor_program_finish(p);
	for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
		spoor_hub_gone_look(h, s);
	adapt(h, most);
	spoor_requests_tick(h, now);
	spoor_hub_bury(h);
	h->last = now;
	h->due = now + (anything_ends(h) && h->period > PERIOD_ENDING ? PERIOD_ENDING : h->period);
	now = spoor_now_monotonic();
	return h->due > now ? (h->due - now) / 1000000 + 1 : 0;
}

/* ---- sessions ---- */

static void unwritten(void *hub)
{
	struct spoor_hub *h = hub;

	if (h->o.unwritten)
		h->o.unwritten(h->o.ctx);
}

void spoor_hub_add(struct spoor_hub *h, struct spoor_ust_session *s)
{
	struct spoor_ust_session **at = &h->sessions;

	while (*at)
		at = &(*at)->next;
	s->next = NULL;
	while (!s->id)
		s->id = ++h->next_session;
	if (s->id > h->next_session)
		h->next_session = s->id;
	*at = s;
	spoor_taker_on_unwritten(s->taker, unwritten, h);
}

struct spoor_ust_session *spoor_hub_find(struct spoor_hub *h, const char *name)
{
	struct spoor_ust_session *s = h->sessions;

	while (s && strcmp(s->name, name))
		s = s->next;
	return s;
}

struct spoor_ust_session *spoor_hub_next(struct spoor_hub *h, struct spoor_ust_session *s)
{
	return s ? s->next : h->sessions;
}

void spoor_hub_unlink(struct spoor_hub *h, struct spoor_ust_session *s)
{
	struct spoor_ust_session **at = &h->sessions;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
}

void spoor_hub_segment(struct spoor_hub *h, struct spoor_ust_session *s)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	size_t n = sources_of(h, s, false, &sources);

	spoor_ust_session_segment(s, sources, n);
}

int spoor_hub_snapshot(struct spoor_hub *h, struct spoor_ust_session *s, const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	size_t n = sources_of(h, s, false, &sources);

	return spoor_ust_session_snapshot(s, sources, n, path, e);
}

static void add_source(const struct spoor_source *source, struct spoor_hub_result *ret)
{
	ret->lost += spoor_user_arena_lost(source->arena) - source->lost_earlier;
	ret->overwritten += spoor_source_overwritten(source) - source->overwritten;
	spoor_source_damaged(source, &ret->damaged);
	ret->uncounted |= spoor_user_arena_uncounted(source->arena);
	ret->programs += source->n && !source->known;
}

/* Those that are here still. */
static void add_present(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_hub_result *ret)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	size_t n = sources_of(h, s, false, &sources);

	for (size_t i = 0; i < n; i++)
		add_source(sources[i], ret);
	for (size_t i = 0; i < s->n_retired; i++)
		if (s->retired[i].sent)
			add_source(s->retired[i].source, ret);
}

void spoor_hub_totals(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_hub_result *ret)
{
	uint64_t unwritten = s->o.writer ? 0 : spoor_writer_lost(s->w);
	struct spoor_taker_counts counts;

	spoor_taker_counts(s->taker, &counts);
	*ret = (struct spoor_hub_result){
		.events = counts.events,
		.lost = s->lost + s->lost_earlier + counts.late + counts.undescribed + unwritten,
		.overwritten = counts.overwritten,
		.refused = s->sender ? s->refused : 0,
		.undescribed = counts.undescribed,
		.bytes = spoor_writer_bytes(s->w),
		.dropped = s->o.writer ? 0 : spoor_writer_dropped(s->w),
		.programs = s->n_programs,
		.crashed = s->n_crashed,
		.damaged = s->damaged,
		.uncounted = s->uncounted,
		.stuck = s->n_stuck,
		.late = s->n_late,
		.away = s->n_away,
		.held_lost = s->held == SPOOR_HELD_LOST,
		.came = s->n_came,
		.apart = s->apart,
	};
	memcpy(s->failed ? ret->why : ret->failed_once, s->why, sizeof(s->why));
	memcpy(ret->elsewhere, s->elsewhere, sizeof(ret->elsewhere));
	add_present(h, s, ret);
}

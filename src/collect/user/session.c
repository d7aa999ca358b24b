/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collect/user/network.h"
#include "collect/user/threads.h"

/* ---- beginning and end ---- */

static int open_writer(struct spoor_ust_session *s, struct spoor_error *e)
{
	int r = s->o.relay ? spoor_network_open(s, e) : 0;
	struct spoor_writer_options wo = {
		.path = s->output,
		.command = s->command,
		.mode = s->flight ? "ust, flight recorder" : "ust",
		.n_lanes = SPOOR_LANES,
		.resume = s->o.resume,
		.max_size = s->o.max_size,
		.segment_size = s->o.segment_size,
		.segment_ns = s->o.segment_ns,
		.store = s->sender ? spoor_sender_store(s->sender) : NULL,
	};

	if (!r)
		r = spoor_writer_open(&wo, &s->w, e);
	if (!r && wo.resume && !wo.store && spoor_writer_sources(s->w, spoor_source_list_add, &s->written))
		r = spoor_fail(e, ENOMEM, "out of memory");
	if (r)
		return r;
	spoor_define_clock(s->w, spoor_writer_define_user);
	return 0;
}

static void session_free(struct spoor_ust_session *s)
{
	if (!s)
		return;
	spoor_taker_free(s->taker);
	if (s->sender)
		spoor_relay_client_leave(s->o.relay, s->sender);
	spoor_source_list_done(&s->written);
	spoor_source_list_done(&s->damaged_arenas);
	free(s->rules);
	free(s->singles);
	free(s->retired);
	free(s->apart_who);
	free(s->came_earlier);
	spoor_scope_done(&s->app);
	spoor_scope_done(&s->custom);
	free(s->app_text);
	free(s->scope_text);
	free(s->name);
	free(s->output);
	free(s->command);
	free(s);
}

static void default_channel(struct spoor_ust_options *o)
{
	if (o->n_channels)
		return;
	o->n_channels = 1;
	o->channels[0] = (struct spoor_control_channel){ .name = "default", .mode = SPOOR_ARENA_DISCARD, .share = 1 };
}

static bool overwrites(const struct spoor_ust_options *o)
{
	for (unsigned i = 0; i < o->n_channels; i++)
		if (o->channels[i].mode != SPOOR_ARENA_OVERWRITE)
			return false; /* who takes from one takes from all */
	return true;
}

/* The patterns, which the options only lend us. */
static int take_scopes(struct spoor_ust_session *s, struct spoor_error *e)
{
	int r = 0;

	s->app_text = strdup(s->o.app ?: "");
	s->scope_text = strdup(s->o.scope ?: "");
	if (!s->app_text || !s->scope_text)
		return -ENOMEM;
	s->o.app = s->app_text;
	s->o.scope = s->scope_text;
	if (*s->app_text)
		r = spoor_app_parse(&s->app, s->app_text, e);
	if (!r && *s->scope_text)
		r = spoor_scope_parse(&s->custom, s->scope_text, e);
	return r;
}

int spoor_ust_session_new(const struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret,
			  struct spoor_error *e)
{
	struct spoor_ust_session *s = calloc(1, sizeof(*s));
	int r = -ENOMEM;

	if (!s)
		return spoor_fail(e, ENOMEM, "out of memory");
	s->o = *o;
	s->id = id;
	default_channel(&s->o);
	s->flight = overwrites(&s->o);
	s->name = strdup(o->name ? o->name : "default");
	s->output = strdup(o->output ? o->output : "");
	s->command = strdup(o->command ? o->command : "");
	s->w = o->writer;
	if (s->name && s->output && s->command)
		r = take_scopes(s, e);
	if (!r)
		r = s->w ? 0 : open_writer(s, e);
	if (!r)
		r = spoor_taker_new(s->w, &s->taker);
	if (!r && s->sender)
		spoor_taker_hold(s->taker);
	if (r) {
		if (s->w && !o->writer)
			spoor_writer_close(s->w, NULL);
		session_free(s);
		return r == -ENOMEM ? spoor_fail(e, ENOMEM, "out of memory") : r;
	}
	*ret = s;
	return 0;
}

void spoor_ust_session_go_on(struct spoor_ust_session *s)
{
	const struct spoor_source_list *unwritten = s->o.unwritten;
	struct spoor_written_sum sum;

	if (unwritten) {
		spoor_source_list_add_all(&s->written, unwritten);
		spoor_taker_untold(s->taker, unwritten);
	}
	s->o.unwritten = NULL;
	spoor_writer_lost_before(s->w, s->o.lost_writing);
	spoor_written_sum(&s->written, &sum);
	spoor_taker_count_from(s->taker, &sum);
	s->n_programs = sum.programs;
	s->lost_earlier = sum.lost;
}

static void define_counters(struct spoor_ust_session *s)
{
	struct spoor_taker_counts c;

	spoor_taker_counts(s->taker, &c);
	spoor_taker_counter(s->taker, "ust_events", c.events);
	spoor_taker_counter(s->taker, "ust_discarded", s->lost + s->lost_earlier + c.late + c.undescribed);
	spoor_taker_counter(s->taker, "ust_undescribed", c.undescribed);
	spoor_taker_counter(s->taker, "ust_lost_child", c.lost_child);
	spoor_taker_counter(s->taker, "ust_overwritten", c.overwritten);
	spoor_taker_counter(s->taker, "ust_malformed", s->damaged.places);
	spoor_taker_counter(s->taker, "ust_uncounted", __builtin_popcount(s->uncounted));
	spoor_taker_counter(s->taker, "ust_programs", s->n_programs);
	spoor_taker_counter(s->taker, "ust_crashed", s->n_crashed);
	spoor_taker_counter(s->taker, "ust_late", s->n_late);
	spoor_taker_counter(s->taker, "ust_turned_away", s->n_away);
	spoor_taker_counter(s->taker, "ust_held_lost", s->held == SPOOR_HELD_LOST);
	spoor_taker_counter(s->taker, "ust_not_recorded", s->apart.n);
	spoor_taker_counter(s->taker, "ust_merged_rounds", c.merged);
	if (s->sender)
		spoor_network_counters(s);
}

int spoor_ust_session_close(struct spoor_ust_session *s, struct spoor_error *e)
{
	int r = 0;

	if (!s)
		return 0;
	define_counters(s);
	if (s->sender)
		spoor_sender_closing(s->sender);
	if (!s->o.writer) {
		spoor_define_clock(s->w, spoor_writer_define_user);
		r = spoor_writer_close(s->w, e);
	}
	session_free(s);
	return r;
}

void spoor_ust_session_fails(struct spoor_ust_session *s, const char *why)
{
	if (!s->failed)
		snprintf(s->why, sizeof(s->why), "%s", why);
	s->failed = true;
	if (!s->o.writer)
		spoor_writer_fails(s->w);
}

void spoor_ust_session_goes_on(struct spoor_ust_session *s)
{
	s->failed = false;
	if (!s->o.writer)
		spoor_writer_goes_on(s->w);
}

/* ---- rounds ---- */

/* Sets s->missed if there is no room for all of it, where there is a limit. */
static int take_all(struct spoor_ust_session *s, struct spoor_source *source, bool limited, struct spoor_error *e)
{
	int err = 0, r;

	while ((r = spoor_taker_take(s->taker, source)) == -EAGAIN) {
		size_t bytes = spoor_taker_bytes(s->taker);
		int w = spoor_taker_write(s->taker, err ? NULL : e);

		err = err ? err : w;
		if (s->sender)
			spoor_network_round(s);
		if (limited)
			spoor_taker_limit(s->taker, spoor_sender_room(s->sender));
		s->missed = limited && !bytes;
		if (s->missed)
			return err;
	}
	return err ? err : r;
}

/*
 * Programs that came late or not at all, and events without a description, with the round's definitions: a trace that
 * does not end tells them, too.
 */
static void tell_counts(struct spoor_ust_session *s)
{
	struct spoor_taker_counts c;

	spoor_taker_counts(s->taker, &c);
	if (s->told_late != s->n_late)
		spoor_taker_counter(s->taker, "ust_late", s->n_late);
	if (s->told_apart != s->apart.n)
		spoor_taker_counter(s->taker, "ust_not_recorded", s->apart.n);
	if (s->told_away != s->n_away)
		spoor_taker_counter(s->taker, "ust_turned_away", s->n_away);
	if (s->told_undescribed != c.undescribed)
		spoor_taker_counter(s->taker, "ust_undescribed", c.undescribed);
	s->told_undescribed = c.undescribed;
	s->told_late = s->n_late;
	s->told_away = s->n_away;
	s->told_apart = s->apart.n;
}

/* The round has begun. Returns the largest share, or -errno. */
static int take_round(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n, bool limited,
		      struct spoor_error *e)
{
	uint64_t most = 0;
	int err = 0, r;

	s->missed = false;
	tell_counts(s);
	for (size_t i = 0; i < n && !s->missed; i++) {
		struct spoor_source *k = sources[i];
		uint64_t before = k->bytes, share;

		r = take_all(s, k, limited, err ? NULL : e);
		err = err ? err : r;
		share = (k->bytes - before) * 1000 / k->arena->size;
		most = share > most ? share : most;
	}
	r = spoor_taker_write(s->taker, err ? NULL : e);
	err = err ? err : r;
	if (s->sender)
		spoor_network_round(s);
	return err ? err : (int)most;
}

int spoor_ust_session_drain(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			    struct spoor_error *e)
{
	spoor_taker_limit(s->taker, SIZE_MAX);
	spoor_taker_round(s->taker);
	return take_round(s, sources, n, false, e);
}

/* None of them wrote before. */
static uint64_t begin_of(struct spoor_source *const *sources, size_t n, uint64_t now)
{
	uint64_t begin = now;

	for (size_t i = 0; i < n; i++)
		begin = sources[i]->arena->head.made < begin ? sources[i]->arena->head.made : begin;
	return begin;
}

/* What they wrote up to a moment. -EAGAIN: that is more than can be taken at once. */
static int take_until(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n, uint64_t until)
{
	int r = 0;

	spoor_taker_round_until(s->taker, until);
	for (size_t i = 0; i < n && !r; i++)
		r = spoor_taker_take(s->taker, sources[i]);
	return r;
}

int spoor_ust_session_drain_by_time(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
				    struct spoor_error *e)
{
	uint64_t now = spoor_now_monotonic(), from = begin_of(sources, n, now), step = now - from;
	int err = 0, r;

	spoor_taker_limit(s->taker, SIZE_MAX);
	spoor_taker_round(s->taker); /* for its pair of clocks */
	while (from < now) {
		uint64_t until = step < now - from ? from + step : now;
		int taken = take_until(s, sources, n, until);

		if (taken == -EAGAIN && step > 1) {
			spoor_taker_undo(s->taker);
			step /= 2;
			continue;
		}
		r = spoor_taker_write(s->taker, err ? NULL : e);
		if (s->sender)
			spoor_network_round(s);
		err = err ? err : r ? r : taken == -EAGAIN ? 0 : taken;
		if (taken != -EAGAIN) /* so much at one nanosecond */
			from = until;
		step *= 2;
	}
	r = spoor_ust_session_drain(s, sources, n, err ? NULL : e);
	return err ? err : r;
}

int spoor_ust_session_take(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			   struct spoor_error *e)
{
	size_t room = s->sender ? spoor_network_room(s, sources, n) : 0;
	bool goes_on;
	int r;

	if (!s->sender)
		return spoor_ust_session_drain(s, sources, n, e);
	if (!room) {
		s->missed = true;
		return 0;
	}
	/* One that found no room for all goes on where it stopped: who was not looked at yet is next. */
	goes_on = s->partial;
	if (goes_on)
		spoor_taker_go_on(s->taker);
	else
		spoor_taker_round(s->taker);
	spoor_taker_limit(s->taker, room);
	r = take_round(s, sources, n, true, e);
	s->partial = s->missed;
	s->missed |= goes_on; /* what was written since it began is the next one's, also of who has ended */
	return r;
}

void spoor_ust_session_segment(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n)
{
	spoor_writer_switch_lanes(s->w);
	spoor_define_clock(s->w, spoor_writer_define_user);
	spoor_taker_segment(s->taker);
	s->told_late = s->told_apart = s->told_away = s->told_undescribed =
		0; /* the segments that said so may be dropped */
	tell_counts(s);
	for (size_t i = 0; i < n; i++)
		spoor_taker_repeat(s->taker, sources[i]);
}

int spoor_ust_session_rotate(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			     struct spoor_error *e)
{
	int r = spoor_writer_segment_begin(s->w, e);

	if (r)
		return r;
	spoor_ust_session_segment(s, sources, n);
	return spoor_writer_segment_end(s->w, e);
}

/* A flight recorder's buffers go on as they are: they are looked at, and nothing is taken. */
static int snapshot_buffers(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			    const char *path, struct spoor_error *e)
{
	struct spoor_ust_options o = { .name = s->name, .output = path, .command = s->command, .relay = s->o.relay };
	struct spoor_ust_session *shot = NULL;
	int err = spoor_ust_session_new(&o, 0, &shot, e), r;

	if (err || !shot)
		return err;
	if (shot->sender) /* it cannot wait, and is no larger than the buffers */
		spoor_sender_closing(shot->sender);
	for (size_t i = 0; i < n; i++) {
		spoor_user_arena_peek(sources[i]->arena, true);
		spoor_source_forget(sources[i]);
		spoor_taker_tell(shot->taker, sources[i], sources[i]->state ? sources[i]->state : SPOOR_PROGRAM_RUNS);
	}
	r = spoor_ust_session_drain(shot, sources, n, e);
	for (size_t i = 0; i < n; i++) {
		spoor_user_arena_peek(sources[i]->arena, false);
		spoor_source_forget(sources[i]);
		spoor_taker_leave(shot->taker, sources[i]);
		shot->lost += spoor_user_arena_lost(sources[i]->arena);
	}
	err = spoor_ust_session_close(shot, r < 0 ? NULL : e);
	return r < 0 ? r : err;
}

int spoor_ust_session_snapshot(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			       const char *path, struct spoor_error *e)
{
	int r;

	if (s->flight)
		return snapshot_buffers(s, sources, n, path, e);
	r = spoor_ust_session_drain(s, sources, n, e);
	if (r >= 0)
		r = spoor_ust_session_rotate(s, sources, n, e);
	return r < 0 ? r : spoor_writer_snapshot(s->w, path, e);
}

unsigned spoor_ust_state(const struct spoor_source *source, enum spoor_program_end end)
{
	if (source->arena->malformed)
		return SPOOR_PROGRAM_DAMAGED;
	if (end == SPOOR_END_KILLED)
		return SPOOR_PROGRAM_CRASHED;
	return end == SPOOR_END_UNKNOWN ? spoor_user_arena_end(source->arena) : SPOOR_PROGRAM_ENDED;
}

#define MOST_DAMAGED 1000 /* are told apart: who makes ever more of them is counted, no more */

/* false: there is no room. Without memory it may be counted twice. */
static bool note_damaged(struct spoor_ust_session *s, const uint8_t arena[16])
{
	struct spoor_packet_source one = {};

	if (s->damaged_arenas.n >= MOST_DAMAGED)
		return false;
	memcpy(one.arena, arena, sizeof(one.arena));
	spoor_source_list_add(&one, &s->damaged_arenas);
	return true;
}

bool spoor_ust_session_unreadable(struct spoor_ust_session *s, const uint8_t arena[16], const char comm[16],
				  uint32_t pid)
{
	struct spoor_program p = {
		.pid = pid,
		.state = SPOOR_PROGRAM_DAMAGED,
		.lost = spoor_source_list_find(&s->written, arena, SPOOR_SOURCE_LOST),
		.malformed = 1,
	};

	if (spoor_source_list_knows(&s->damaged_arenas, arena))
		return false;
	spoor_user_damaged_add(&s->damaged, comm, pid, 1);
	if (!note_damaged(s, arena))
		return false;
	memcpy(p.arena, arena, sizeof(p.arena));
	memcpy(p.comm, comm, sizeof(p.comm));
	spoor_taker_tell_program(s->taker, &p);
	return true;
}

void spoor_ust_session_gone(struct spoor_ust_session *s, struct spoor_source *source, enum spoor_program_end end)
{
	uint64_t lost = spoor_user_arena_lost(source->arena); /* which may make no sense */
	unsigned state = spoor_ust_state(source, end);

	spoor_taker_tell(s->taker, source, state);
	spoor_taker_forget(s->taker, source);
	s->lost_before -= s->sender ? lost : 0;
	s->lost += lost;
	s->refused += source->refused;
	s->lost_earlier -= source->lost_earlier;
	if (source->arena->malformed && !spoor_source_list_knows(&s->damaged_arenas, source->arena->head.uuid)) {
		spoor_source_damaged(source, &s->damaged);
		note_damaged(s, source->arena->head.uuid);
	}
	s->uncounted |= spoor_user_arena_uncounted(source->arena);
	/* The library is preloaded into shells, too, which say nothing. */
	if (!source->n && !source->known && !source->arena->malformed && !spoor_source_lost(source))
		return;
	s->n_programs += !source->known;
	s->n_crashed += state == SPOOR_PROGRAM_CRASHED;
	s->n_unseen += state == SPOOR_PROGRAM_UNSEEN;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arenas that the keeper held for us: of programs that live, which come themselves, and of those that have ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"

#define SOON_NS SPOOR_NS_PER_SEC /* after its beginning one ends that cannot live here, */
#define MOST_SOON 5              /* if that many do */
#define PATIENCE_MS 2000
#define LOOK_NS SPOOR_NS_PER_SEC
#define AGAIN_NS SPOOR_NS_PER_SEC /* where there could be none */
#define MUCH_LATER_NS (60 * SPOOR_NS_PER_SEC) /* where one lives, and does not listen: that took some seconds */

struct hub_orphan {
	struct hub_orphan *next;
	struct spoor_kept kept;
	int fd;
	uint64_t looked; /* ns: whether its process has come to be another program */
};

static void note(void *ctx, const struct spoor_kept *k, int fd)
{
	struct spoor_hub *h = ctx;
	struct hub_orphan *o = calloc(1, sizeof(*o));

	if (!o) {
		close(fd);
		return;
	}
	*o = (struct hub_orphan){ h->orphans, *k, fd, spoor_now_monotonic() };
	h->orphans = o;
}

static void warn_of_no_keeper(struct spoor_hub *h, const char *why)
{
	spoor_hub_warn(h,
		       "what programs leave that end while no daemon is there is lost: no connection to a process that "
		       "holds it: %s",
		       why);
}

static void mark_held(struct spoor_hub *h, enum spoor_ust_held from, enum spoor_ust_held to)
{
	for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
		if (s->held == from)
			s->held = to;
}

/* The connection to it, or to a new one. */
static void open_keeper(struct spoor_hub *h)
{
	bool begun, strange;
	int fd = spoor_keeper_open(h->keeper_path, &begun, &strange), r = fd < 0 ? fd : 0;

	if (strange && !h->keeper_missed) /* else it has been said, and may not be ours to remove */
		spoor_hub_warn(h,
			       "%s: another user listened there, who is told nothing, nor believed: others should not "
			       "be able to write to that directory",
			       h->keeper_path);
	h->kept.fd = -1;
	if (!r)
		r = spoor_hub_watch(h, &h->kept, fd, h, HUB_KEEPER);
	if (r)
		spoor_hub_unwatch(h, &h->kept);
	h->keeper = h->kept.fd;
	h->keeper_accepts = begun; /* of one that was there it is to be heard */
	h->asked = (struct hub_asked){};
	h->keeper_begun = spoor_now_monotonic();
	h->keeper_again = h->keeper_begun + (r == -EAGAIN ? MUCH_LATER_NS : AGAIN_NS);
	if (r && !h->keeper_missed)
		warn_of_no_keeper(h, r == -EMFILE ? "this recorder may open no more files (ulimit -n)" : strerror(-r));
	else if (!r && begun && (h->sessions || h->goes_on))
		spoor_hub_warn(h, "the process that held what programs leave while no daemon is there has ended: what "
				  "it held of programs that have ended is lost, and not counted");
	h->keeper_missed |= r;
	h->keeper_lost |= !r && begun && h->goes_on;
	if (!r && begun) /* nor will anybody tell what the one before held */
		mark_held(h, SPOOR_HELD_UNHEARD, SPOOR_HELD_LOST);
	spoor_keeper_own(h->keeper, h->listener.fd);
	spoor_keeper_own_too(h->keeper, h->beyond_root.fd);
	if (h->waiting.fd >= 0)
		spoor_keeper_listen(h->keeper, h->waiting.fd);
}

static void be_told(struct spoor_hub *h)
{
	h->keeper_told = true;
	if (h->keeper >= 0)
		spoor_keeper_is_slow(h->keeper, false);
	spoor_waiting_hear(h);
}

/* What it holds is asked for once: one that comes after it has nothing. -EAGAIN: it has not told all of it yet. */
static int hear_keeper(struct spoor_hub *h, int ms)
{
	const struct spoor_keeper_taker t = { note, spoor_waiting_came, spoor_waiting_said, spoor_waiting_end, h };
	int r = 0;

	if (h->keeper < 0)
		return 0;
	if (!h->keeper_asked)
		r = spoor_keeper_get(h->keeper);
	h->keeper_asked |= !r;
	if (!r && !h->keeper_told) {
		r = spoor_keeper_hear(h->keeper, ms, &t);
		if (!r) {
			mark_held(h, SPOOR_HELD_UNHEARD, SPOOR_HELD_NOTHING);
			be_told(h);
		}
	}
	spoor_waiting_update(h);
	return r;
}

static void find_keeper(struct spoor_hub *h)
{
	open_keeper(h);
	hear_keeper(h, PATIENCE_MS);
}

void spoor_orphans_begin(struct spoor_hub *h)
{
	if (!h->o.keeper)
		return;
	snprintf(h->keeper_path, sizeof(h->keeper_path), "%s", h->o.keeper);
	open_keeper(h);
	if (h->keeper_accepts) /* we have begun it: it holds nothing, and where it answers it lives */
		hear_keeper(h, PATIENCE_MS);
}

/* It has let go of what the daemon before us had. */
static void open_beyond_root(struct spoor_hub *h)
{
	struct spoor_error e = { "" };

	if (spoor_hub_open_beyond_root(h, &e))
		spoor_hub_warn(h, "%s", e.text);
}

void spoor_hub_keep(struct spoor_hub *h)
{
	h->goes_on = false;
	if (h->keeper_path[0])
		mark_held(h, SPOOR_HELD_NOTHING, h->keeper_lost ? SPOOR_HELD_LOST : SPOOR_HELD_UNHEARD);
	h->keeper_late = hear_keeper(h, PATIENCE_MS) == -EAGAIN;
	if (h->keeper_late) {
		spoor_keeper_is_slow(h->keeper, true);
		spoor_hub_warn(h,
			       "%s: trace-keeper, which holds what programs left while no daemon was there, does not "
			       "answer: that is taken when it does; who ends a session waits for it, some seconds",
			       h->keeper_path);
	} else {
		open_beyond_root(h);
	}
}

void spoor_orphans_hear_late(struct spoor_hub *h, int ms)
{
	int r = hear_keeper(h, ms);

	if (r && r != -EAGAIN)
		spoor_orphans_keeper_ended(h);
}

bool spoor_hub_awaits_keeper(const struct spoor_hub *h, const struct spoor_ust_session *s)
{
	return h->keeper >= 0 && h->keeper_late && s->held == SPOOR_HELD_UNHEARD;
}

/* What it held of programs that live is held by nobody now: it matters if they and we end before their time. */
void spoor_orphans_keeper_ended(struct spoor_hub *h)
{
	bool soon = spoor_now_monotonic() - h->keeper_begun < SOON_NS;

	spoor_hub_unwatch(h, &h->kept);
	h->keeper = -1;
	if (h->keeper_asked && !h->keeper_told) { /* what it has told is all there is */
		mark_held(h, SPOOR_HELD_UNHEARD, SPOOR_HELD_LOST);
		be_told(h);
	}
	h->keepers_ended = soon ? h->keepers_ended + 1 : 0;
	if (h->keepers_ended > MOST_SOON) {
		warn_of_no_keeper(h, "each one that is started ends at once");
		return;
	}
	find_keeper(h);
}

void spoor_orphans_find_keeper(struct spoor_hub *h, uint64_t now)
{
	if (h->keeper_late && h->keeper_told) {
		h->keeper_late = false;
		open_beyond_root(h);
	}
	if (h->keeper >= 0 || !h->keeper_missed || h->leaves || now < h->keeper_again)
		return;
	find_keeper(h);
	if (h->keeper < 0)
		return;
	h->keeper_missed = false;
	spoor_hub_open_beyond_root(h, NULL);
	spoor_hub_warn(h, "there is a process again that holds what programs leave while no daemon is there; not what "
			  "those leave that came while there was none");
}

static bool is_retired(const struct spoor_hub *h, const uint8_t *uuid)
{
	for (const struct spoor_ust_session *s = h->sessions; s; s = s->next)
		for (size_t i = 0; i < s->n_retired; i++)
			if (!memcmp(s->retired[i].source->arena->head.uuid, uuid, 16))
				return true;
	return false;
}

static bool has_come(struct spoor_hub *h, const uint8_t *uuid)
{
	for (struct hub_program *p = h->first; p; p = p->next)
		for (unsigned k = 0; k < p->n_members; k++)
			for (size_t i = 0; i < p->members[k].n_arenas; i++)
				if (!memcmp(p->members[k].arenas[i]->arena->head.uuid, uuid, 16))
					return true;
	return is_retired(h, uuid);
}

/* session 0: of any. */
static const struct hub_orphan *orphan_of(struct spoor_hub *h, struct hub_program *p, uint32_t session)
{
	const struct spoor_ust_process *process = spoor_program_process(p);
	const struct hub_orphan *o = h->orphans;

	while (o && (o->kept.pid != process->pid || o->kept.start_time != process->start_time ||
		     (session && o->kept.session != session) || has_come(h, o->kept.uuid)))
		o = o->next;
	return o;
}

bool spoor_orphans_of(struct spoor_hub *h, struct hub_program *p)
{
	return orphan_of(h, p, 0);
}

const uint8_t *spoor_orphans_uuid(struct spoor_hub *h, struct hub_program *p, uint32_t session)
{
	const struct hub_orphan *o = orphan_of(h, p, session);

	return o ? o->kept.uuid : NULL;
}

bool spoor_orphans_had(const struct spoor_hub *h, const uint8_t *uuid)
{
	const struct hub_orphan *o = h->adopted;

	while (o && memcmp(o->kept.uuid, uuid, 16))
		o = o->next;
	return o;
}

/* By execve(), while no daemon was there. Who has not done that comes himself. */
static bool became_another(struct hub_orphan *o, bool at_once)
{
	uint64_t now = spoor_now_monotonic();
	struct stat st;

	if (!at_once && now - o->looked < LOOK_NS)
		return false;
	o->looked = now;
	return !fstat(o->fd, &st) && spoor_process_left(o->kept.pid, st.st_ino);
}

/* Nothing to do for the next look? Takes o over as a program that is gone. */
static bool settle(struct spoor_hub *h, struct hub_orphan *o, bool at_once, bool *ret_adopted)
{
	bool runs;

	*ret_adopted = false;
	if (has_come(h, o->kept.uuid))
		return true;
	runs = spoor_process_runs(o->kept.pid, o->kept.start_time);
	if (runs && !became_another(o, at_once))
		return false;
	spoor_program_adopt(h, &o->kept, o->fd, runs ? SPOOR_END_RUNS : SPOOR_END_UNKNOWN);
	*ret_adopted = true;
	return true;
}

/* What a program sent last may still be to be heard when its buffer has been taken over: that is remembered. */
void spoor_orphans_look(struct spoor_hub *h, bool at_once)
{
	for (struct hub_orphan **at = &h->orphans, *o; (o = *at);) {
		bool adopted;

		if (!settle(h, o, at_once, &adopted)) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		close(o->fd);
		o->fd = -1;
		if (adopted) {
			o->next = h->adopted;
			h->adopted = o;
		} else {
			free(o);
		}
	}
}

static void free_all(struct hub_orphan *o)
{
	while (o) {
		struct hub_orphan *next = o->next;

		spoor_closep(&o->fd);
		free(o);
		o = next;
	}
}

void spoor_orphans_free(struct spoor_hub *h)
{
	free_all(h->orphans);
	free_all(h->adopted);
	h->orphans = h->adopted = NULL;
	spoor_hub_unwatch(h, &h->kept);
	h->keeper = -1;
}

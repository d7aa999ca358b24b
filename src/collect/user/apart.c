/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that came to a session: how many; and of those that are not recorded, why. A recorder that goes on where
 * another one was has them from the state file. Those that live come to it as well: they are known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "collect/user/session.h"

#define FORGET_FROM 64

static bool is_same(const struct spoor_ust_process *a, const struct spoor_ust_process *b)
{
	return a->pid == b->pid && a->start_time == b->start_time;
}

bool spoor_came_count(struct spoor_ust_session *s, const struct spoor_ust_process *p, enum spoor_coming *how)
{
	for (size_t i = 0; i < s->n_came_earlier; i++) {
		if (!is_same(&s->came_earlier[i].process, p))
			continue;
		*how = s->came_earlier[i].how;
		s->came_earlier[i] = s->came_earlier[--s->n_came_earlier];
		return true;
	}
	s->n_came++;
	s->n_met += *how == SPOOR_CAME_MET;
	return false;
}

bool spoor_apart_has(const struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	for (size_t i = 0; i < s->n_apart_who; i++)
		if (!s->apart_who[i].earlier && is_same(&s->apart_who[i].process, p))
			return true;
	return false;
}

static bool is_known(struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	for (size_t i = 0; i < s->n_apart_who; i++) {
		struct spoor_apart_who *w = &s->apart_who[i];

		if (!w->earlier || !is_same(&w->process, p))
			continue;
		w->earlier = false; /* what it executes from here on is another program */
		return true;
	}
	return false;
}

static void forget_ended(struct spoor_ust_session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_apart_who; i++)
		if (spoor_process_runs(s->apart_who[i].process.pid, s->apart_who[i].process.start_time))
			s->apart_who[n++] = s->apart_who[i];
	s->n_apart_who = n;
}

/* There is a power of two of room. */
void spoor_apart_note(struct spoor_ust_session *s, const struct spoor_apart_who *who)
{
	size_t n = s->n_apart_who;
	void *grown;

	if (!who->process.start_time)
		return;
	if (n >= FORGET_FROM && !(n & (n - 1)))
		forget_ended(s);
	n = s->n_apart_who;
	if (!(n & (n - 1))) {
		grown = reallocarray(s->apart_who, n ? 2 * n : 1, sizeof(*s->apart_who));
		if (!grown)
			return;
		s->apart_who = grown;
	}
	s->apart_who[s->n_apart_who++] = *who;
}

static void count(struct spoor_ust_session *s, const struct spoor_apart_who *who, const char *why)
{
	struct spoor_ust_apart *a = &s->apart;

	a->differ |= a->n && strcmp(a->why, why);
	snprintf(a->why, sizeof(a->why), "%s", why);
	a->n++;
	a->unreached += who->unreached;
	spoor_apart_note(s, who);
}

void spoor_apart_count(struct spoor_ust_session *s, const struct spoor_ust_process *p, const char *why)
{
	if (!is_known(s, p))
		count(s, &(struct spoor_apart_who){ .process = *p }, why);
}

void spoor_apart_unreached(struct spoor_ust_session *s, const struct spoor_ust_process *p, const char *why)
{
	if (!is_known(s, p))
		count(s, &(struct spoor_apart_who){ .process = *p, .unreached = true }, why);
}

void spoor_apart_comes(struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	for (size_t i = 0; i < s->n_apart_who; i++) {
		if (!s->apart_who[i].unreached || !is_same(&s->apart_who[i].process, p))
			continue;
		s->apart_who[i] = s->apart_who[s->n_apart_who - 1];
		s->n_apart_who--;
		s->apart.n -= s->apart.n > 0;
		s->apart.unreached -= s->apart.unreached > 0;
		return;
	}
}

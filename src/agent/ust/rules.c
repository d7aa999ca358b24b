/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "agent/ust/filter.h"
#include "agent/ust/glob.h"
#include "agent/ust/rules.h"

#define GLOBS 256 /* bytes of those that are used again when their session is over */

struct rule {
	struct rule *next;
	uint32_t max_level, kind, channels;
	bool enable, large;
	const struct filter *filter;
	char globs[];
};

struct list {
	struct rule *rules, **last;
};

static struct session {
	struct list now, next; /* next: of a session that begins anew; they may not be all there yet */
	bool recording, changing;
	unsigned first_slot;
} sessions[SPOOR_SESSIONS];
static struct rule *free_rules;

bool rule_is_for(const struct rule *r, const struct class *c)
{
	return c->level <= r->max_level && (!r->kind || r->kind == c->kind + 1U) && globs_match(r->globs, c->full);
}

/* Of each channel, the last that is for the class. */
static void rules_of(const struct session *s, const struct class *c, const struct rule *ret[SPOOR_ARENA_MAX_CHANNELS])
{
	const struct rule *r;
	unsigned i;

	for (r = s->now.rules; r; r = r->next)
		for (i = 0; r->channels >> i && rule_is_for(r, c); i++)
			if (r->channels >> i & 1)
				ret[i] = r;
}

/* The slots in which the session's rules put the class; those apart whose arena cannot take it. */
static uint32_t slots_of(const struct session *s, struct class *c, uint32_t *refused)
{
	const struct rule *rules[SPOOR_ARENA_MAX_CHANNELS] = { NULL };
	uint32_t found = 0;
	unsigned i;

	rules_of(s, c, rules);
	for (i = 0; i < SPOOR_ARENA_MAX_CHANNELS; i++) {
		unsigned slot = s->first_slot + i;
		int r;

		if (!rules[i] || !rules[i]->enable)
			continue;
		/* Where fields are not known, none is kept out: what is lost for that is to be counted. */
		r = class_set_filter(c, slot, c->large ? NULL : rules[i]->filter);
		*(r || class_define(c, slot) ? refused : &found) |= 1U << slot;
	}
	return found;
}

void rules_assign(struct class *c)
{
	uint32_t found = 0, refused = 0;
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].recording)
			found |= slots_of(&sessions[i], c, &refused);
	__atomic_store_n(&c->refused, refused, __ATOMIC_RELEASE);
	__atomic_store_n(&c->slots, found, __ATOMIC_RELEASE);
}

static struct rule *new_rule(size_t globs)
{
	struct rule *r = free_rules;

	if (globs > GLOBS)
		return keep(sizeof(*r) + globs);
	if (!r)
		return keep(sizeof(*r) + GLOBS);
	free_rules = r->next;
	return r;
}

const char *rule_field_missing(const struct rule *r)
{
	const char *missing = NULL;
	const struct class *c;

	for (c = r->filter ? classes() : NULL; c; c = c->next) {
		unsigned at = 0;

		if (!rule_is_for(r, c))
			continue;
		missing = filter_field_missing(r->filter, c, &at);
		if (!missing)
			return NULL;
	}
	return missing;
}

const struct rule *rules_add(unsigned session, const struct rule_wish *wish)
{
	struct session *s = &sessions[session];
	struct list *to = s->changing ? &s->next : &s->now;
	size_t globs = strlen(wish->globs) + 1;
	struct rule *r = new_rule(globs);

	if (!r)
		return NULL;
	*r = (struct rule){ .max_level = wish->max_level,
			    .kind = wish->kind,
			    .channels = wish->channels,
			    .enable = wish->enable,
			    .large = globs > GLOBS,
			    .filter = wish->filter };
	strcpy(r->globs, wish->globs);
	*(to->last ?: &to->rules) = r;
	to->last = &r->next;
	return r;
}

static void empty(struct list *l)
{
	while (l->rules) {
		struct rule *r = l->rules;

		l->rules = r->next;
		if (r->large)
			continue;
		r->next = free_rules;
		free_rules = r;
	}
	l->last = NULL;
}

void rules_begin(unsigned session)
{
	empty(&sessions[session].next);
	sessions[session].changing = true;
}

void rules_keep(unsigned session)
{
	if (!sessions[session].recording)
		return;
	empty(&sessions[session].next);
	sessions[session].changing = false;
}

void rules_forget(unsigned session)
{
	empty(&sessions[session].now);
	rules_begin(session);
}

/* Those of old are over. */
static void change(struct session *s)
{
	empty(&s->now);
	s->now = s->next;
	s->next = (struct list){ NULL };
	s->changing = false;
}

bool rules_recording(unsigned session)
{
	return sessions[session].recording;
}

bool rules_in_force(unsigned session)
{
	return sessions[session].recording && !sessions[session].changing;
}

bool rules_any(void)
{
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].now.rules || sessions[i].next.rules)
			return true;
	return false;
}

bool rules_record(unsigned session, bool on, unsigned first_slot)
{
	struct session *s = &sessions[session];
	bool was = s->recording;

	if (s->changing)
		change(s);
	s->recording = on;
	s->first_slot = first_slot;
	return on || was;
}

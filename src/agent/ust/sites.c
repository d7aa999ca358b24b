/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "agent/core/clock.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/context.h"
#include "agent/ust/definition.h"
#include "agent/ust/filter.h"
#include "agent/ust/glob.h"
#include "agent/ust/note.h"
#include "agent/ust/patch.h"
#include "agent/ust/probes.h"
#include "agent/ust/sites.h"
#include "agent/ust/marker.h"

struct object {
	struct spoor_site *begin, *end;
};

struct rule {
	struct rule *next;
	uint32_t max_level, kind;
	int channel;
	const struct filter *filter;
	char globs[];
};

static struct object *objects;
static uint32_t n_objects, max_objects;
static struct rule *rules, **last_rule = &rules;
static bool recording;
static unsigned first_slot;

static const struct spoor_ops ops = {
	.commit = commit_filtered,
	.probes_begin = probes_begin,
	.probes_end = probes_end,
	.mark = marker_record,
	.elsewhere = definition_elsewhere,
};

static struct spoor_tracepoint *tracepoint_of(const struct spoor_site *s)
{
	return (struct spoor_tracepoint *)SPOOR_SITE_TARGET(s, tracepoint);
}

static const struct spoor_desc *desc_of(const struct spoor_site *s)
{
	return (const struct spoor_desc *)SPOOR_SITE_TARGET(s, desc);
}

/* The provider may come later than its sites, go, and come back with other fields. */
static struct class *resolve_elsewhere(const struct spoor_site *s)
{
	struct spoor_tracepoint *tp = tracepoint_of(s);
	struct class *c = tp->agent;

	if (!c || !c->record)
		c = definition_find(desc_of(s)) ?: c;
	__atomic_store_n(&tp->agent, (void *)c, __ATOMIC_RELEASE);
	return c;
}

static struct class *resolve(const struct spoor_site *s)
{
	struct spoor_tracepoint *tp = tracepoint_of(s);

	if (desc_of(s)->kind == SPOOR_DESC_ELSEWHERE)
		return resolve_elsewhere(s);
	if (!tp->agent)
		tp->agent = class_of(desc_of(s), (const char *)SPOOR_SITE_TARGET(s, file), s->line);
	return tp->agent;
}

static bool is_on(const struct class *c)
{
	return c->slot >= 0 || c->probes;
}

static bool site_is_on(const struct spoor_site *s, const struct class *c)
{
	return is_on(c) && (c->record || desc_of(s)->kind != SPOOR_DESC_ELSEWHERE);
}

static struct spoor_handle (*reserve_of(const struct class *c))(struct spoor_tracepoint *tp, size_t size)
{
	if (c->filter)
		return reserve_filtered;
	if (slots[c->slot].channel->contexts)
		return reserve_with_contexts;
	return clock_kind() == SPOOR_ARENA_TSC ? reserve_tsc : reserve_monotonic;
}

/* The tracepoint is complete before its sites lead to it. */
static void prepare(struct spoor_tracepoint *tp, struct class *c, bool on)
{
	if (!on && !tp->ops)
		return;
	__atomic_store_n(&tp->ops, &ops, __ATOMIC_RELAXED);
	__atomic_store_n(&tp->id, c->id, __ATOMIC_RELAXED);
	if (c->slot < 0) {
		__atomic_store_n(&tp->reserve, reserve_nothing, __ATOMIC_RELEASE);
	} else {
		__atomic_store_n(&tp->slot, (uint16_t)SPOOR_SLOT_OFFSET((unsigned)c->slot), __ATOMIC_RELAXED);
		barrier();
		__atomic_store_n(&tp->reserve, reserve_of(c), __ATOMIC_RELEASE);
	}
	__atomic_store_n(&tp->probes, c->probes, __ATOMIC_RELEASE);
	__atomic_store_n(&tp->enabled, on, __ATOMIC_RELEASE);
}

static void prepare_definition(struct spoor_tracepoint *tp, struct class *c)
{
	prepare(tp, c, is_on(c));
}

static bool code_is(const struct spoor_site *s, uint8_t byte)
{
	return *(volatile uint8_t *)SPOOR_SITE_TARGET(s, code) == byte;
}

/* p NULL: code may not be written. */
static int switch_site(struct patching *p, const struct spoor_site *s, bool on)
{
	int r = p ? patch_site(p, SPOOR_SITE_TARGET(s, code), on ? SITE_ON : SITE_OFF) : -EPERM;

	if (!on && s->flags & SPOOR_SITE_FLAG)
		return 0; /* its code asks the flag, which stands */
	return code_is(s, on ? SITE_ON : SITE_OFF) ? 0 : r;
}

/* It cannot be switched on, or should have been and is not. One that asks a flag is compiled in as on. */
static bool is_stuck(const struct spoor_site *s)
{
	const struct class *c = tracepoint_of(s)->agent;

	return !code_is(s, SITE_ON) && (spoor_agent_state.way == SPOOR_AGENT_REFUSED || (c && site_is_on(s, c)));
}

static int switch_object(struct object *o, struct class *only, struct patching *p)
{
	struct spoor_site *s;
	int r = 0;

	for (s = o->begin; s < o->end; s++) {
		struct class *c = s->code ? resolve(s) : NULL;
		int failed;

		if (!c || (only && c != only))
			continue;
		prepare(tracepoint_of(s), c, site_is_on(s, c));
		failed = switch_site(p, s, site_is_on(s, c));
		r = r ?: failed;
	}
	return r;
}

static int switch_all(struct object *from, uint32_t n, struct class *only)
{
	struct patching p, *may = &p;
	int r = 0;
	uint32_t i;

	if (patch_begin(&p))
		may = NULL;
	definitions_each(prepare_definition);
	for (i = 0; i < n; i++) {
		int failed = switch_object(&from[i], only, may);

		r = r ?: failed;
	}
	if (may)
		patch_end(may);
	return r;
}

int sites_refresh(struct class *c)
{
	return switch_all(objects, n_objects, c);
}

static bool rule_is_for(const struct rule *r, const struct class *c)
{
	return c->level <= r->max_level && (!r->kind || r->kind == c->kind + 1U) && globs_match(r->globs, c->full);
}

/* The last that is for the class. */
static const struct rule *rule_of(const struct class *c)
{
	const struct rule *r, *found = NULL;

	for (r = recording ? rules : NULL; r; r = r->next)
		if (rule_is_for(r, c))
			found = r;
	return found;
}

/* Gives the class the slot that the rules say, if its arena can take it. */
static void assign(struct class *c)
{
	const struct rule *r = rule_of(c);
	int slot = r && r->channel >= 0 ? (int)first_slot + r->channel : -1;

	if (slot >= 0 && class_define(c, (unsigned)slot))
		slot = -1;
	c->filter = r ? r->filter : NULL;
	c->slot = (int16_t)slot;
}

static void resolve_object(struct object *o)
{
	struct spoor_site *s;

	for (s = o->begin; s < o->end; s++) {
		struct class *c;

		if (!s->code)
			continue;
		c = tracepoint_of(s)->agent;
		if (c && desc_of(s)->kind != SPOOR_DESC_ELSEWHERE)
			continue;
		c = resolve(s);
		if (!c)
			continue;
		if (c->slot < 0)
			assign(c);
		if (!c->probes)
			probes_attach(c);
	}
}

void sites_resolve(void)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		definitions_in(objects[i].begin, objects[i].end);
	for (i = 0; i < n_objects; i++)
		resolve_object(&objects[i]);
}

/* Sites of the classes of a rule, or (NULL) of those that are recorded; stuck ones only if there are no others. */
static int count_sites(const struct rule *r)
{
	int n = 0, stuck = 0;
	uint32_t i;

	for (i = 0; i < n_objects; i++) {
		struct spoor_site *s;

		for (s = objects[i].begin; s < objects[i].end; s++) {
			const struct class *c = s->code ? tracepoint_of(s)->agent : NULL;

			if (!c || !(r ? rule_is_for(r, c) : c->slot >= 0))
				continue;
			if (is_stuck(s))
				stuck++;
			else
				n++;
		}
	}
	return !n && stuck ? -EPERM : n;
}

static void apply(void)
{
	struct class *c;

	sites_resolve();
	for (c = classes(); c; c = c->next)
		assign(c);
	switch_all(objects, n_objects, NULL);
}

int sites_rule(const struct rule_wish *wish)
{
	struct rule *r = keep(sizeof(*r) + strlen(wish->globs) + 1);

	if (!r)
		return -ENOMEM;
	*r = (struct rule){
		.max_level = wish->max_level, .kind = wish->kind, .channel = wish->channel, .filter = wish->filter
	};
	strcpy(r->globs, wish->globs);
	*last_rule = r;
	last_rule = &r->next;
	if (recording)
		apply();
	else
		sites_resolve();
	return count_sites(r);
}

void sites_forget_rules(void)
{
	rules = NULL;
	last_rule = &rules;
}

int sites_record(bool on, unsigned slot)
{
	if (!on && !recording)
		return 0;
	recording = on;
	first_slot = slot;
	apply();
	return count_sites(NULL);
}

unsigned sites_count(unsigned *ret_stuck)
{
	unsigned n = 0, stuck = 0;
	uint32_t i;

	for (i = 0; i < n_objects; i++) {
		const struct spoor_site *s;

		for (s = objects[i].begin; s < objects[i].end; s++) {
			n += s->code != 0;
			stuck += s->code && is_stuck(s);
		}
	}
	*ret_stuck = stuck;
	return n;
}

/*
 * Objects
 */
/* Link-time optimization may leave several notes for the same sites. */
static bool known(const struct object *o)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].begin == o->begin)
			return true;
	return false;
}

static bool make_room(void)
{
	uint32_t max = max_objects ? max_objects * 4 : 64;
	struct object *bigger;

	if (n_objects < max_objects)
		return true;
	bigger = keep(max * sizeof(*bigger));
	if (!bigger)
		return false;
	if (n_objects)
		memcpy(bigger, objects, n_objects * sizeof(*bigger));
	objects = bigger;
	max_objects = max;
	return true;
}

/* Sites that ask a flag are compiled in as on; where code may be written they cost nothing from here on. */
static bool has_flags(const struct object *o)
{
	const struct spoor_site *s;

	for (s = o->begin; s < o->end; s++)
		if (s->flags & SPOOR_SITE_FLAG)
			return true;
	return false;
}

void sites_object_in(const void *note)
{
	struct object o;

	if (note_read(note, &o.begin, &o.end) || known(&o) || !make_room())
		return;
	objects[n_objects++] = o;
	patch_way(); /* so that it can be told from outside before anything is enabled */
	if (!rules && !probes_any() && !has_flags(&o))
		return;
	if (definitions_in(o.begin, o.end)) {
		sites_resolve(); /* others may have waited for them */
		switch_all(objects, n_objects, NULL);
		return;
	}
	resolve_object(&o);
	switch_all(&o, 1, NULL);
}

bool sites_object_out(const void *note)
{
	struct object gone;
	uint32_t i;

	if (note_read(note, &gone.begin, &gone.end))
		return false;
	for (i = 0; i < n_objects; i++) {
		if (objects[i].begin != gone.begin)
			continue;
		objects[i] = objects[--n_objects];
		if (!definitions_out(gone.begin, gone.end))
			return false;
		sites_resolve();
		switch_all(objects, n_objects, NULL);
		return true;
	}
	return false;
}

void sites_find_objects(void)
{
	notes_each(sites_object_in);
}

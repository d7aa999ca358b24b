/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "agent/core/clock.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/context.h"
#include "agent/ust/definition.h"
#include "agent/ust/deliver.h"
#include "agent/ust/filter.h"
#include "agent/ust/note.h"
#include "agent/ust/patch.h"
#include "agent/ust/probes.h"
#include "agent/ust/rules.h"
#include "agent/ust/sites.h"
#include "agent/ust/marker.h"

struct object {
	struct spoor_site *begin, *end;
};

static struct object *objects;
static uint32_t n_objects, max_objects;

static const struct spoor_ops ops = {
	.commit = commit_called,
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
	return c->slots || c->refused || c->probes;
}

static bool site_is_on(const struct spoor_site *s, const struct class *c)
{
	return is_on(c) && (c->record || desc_of(s)->kind != SPOOR_DESC_ELSEWHERE);
}

static __typeof__(&reserve_nothing) reserve_of(const struct class *c)
{
	unsigned slot = c->slots ? (unsigned)__builtin_ctz(c->slots) : 0;

	if (!c->slots && !c->refused)
		return reserve_nothing;
	if (c->refused || c->slots & (c->slots - 1) || class_filter(c, slot) || c->ids[slot] != c->id)
		return reserve_draft;
	if (slots[slot].contexts)
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
	if (c->slots)
		__atomic_store_n(&tp->slot, (uint16_t)SPOOR_SLOT_OFFSET((unsigned)__builtin_ctz(c->slots)),
				 __ATOMIC_RELAXED);
	barrier();
	__atomic_store_n(&tp->reserve, reserve_of(c), __ATOMIC_RELEASE);
	__atomic_store_n(&tp->probes, c->probes, __ATOMIC_RELEASE);
	__atomic_store_n(&tp->enabled, on, __ATOMIC_RELEASE);
}

static void prepare_definition(struct spoor_tracepoint *tp, struct class *c)
{
	__atomic_store_n(&tp->ops, &ops, __ATOMIC_RELAXED); /* threads may come to it though it is off */
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
		if (!c->slots)
			rules_assign(c);
		if (!c->probes)
			probes_attach(c);
	}
}

void sites_resolve(void)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		definitions_in(objects[i].begin, objects[i].end, prepare_definition);
	for (i = 0; i < n_objects; i++)
		resolve_object(&objects[i]);
}

/*
 * Sites of a class, or (NULL) of the classes of a rule, or (NULL) of those that are in any of these slots; stuck ones
 * only if there are no others.
 */
static int count_sites(const struct class *only, const struct rule *r, uint32_t in)
{
	int n = 0, stuck = 0;
	uint32_t i;

	for (i = 0; i < n_objects; i++) {
		struct spoor_site *s;

		for (s = objects[i].begin; s < objects[i].end; s++) {
			const struct class *c = s->code ? tracepoint_of(s)->agent : NULL;

			if (!c || !(only ? c == only : r ? rule_is_for(r, c) : (c->slots & in) != 0))
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
		rules_assign(c);
	switch_all(objects, n_objects, NULL);
}

/* Of one rule of several, perhaps: which it is is said. */
static void say_missing(const char *globs, const char *field, char *text, unsigned size)
{
	static const char form[] = "no event of '' has a field ''";
	const char *of = strlen(globs) < 64 ? globs : "...";

	if (size >= sizeof(form) + strlen(of) + strlen(field))
		strcpy(stpcpy(stpcpy(stpcpy(stpcpy(text, "no event of '"), of), "' has a field '"), field), "'");
}

int sites_rule(unsigned session, const struct rule_wish *wish, char *text, unsigned size)
{
	const struct rule *r = rules_add(session, wish);
	const char *missing;

	if (!r)
		return -ENOMEM;
	if (rules_in_force(session))
		apply();
	else
		sites_resolve();
	missing = rule_field_missing(r);
	if (missing)
		say_missing(wish->globs, missing, text, size);
	return count_sites(NULL, r, 0);
}

int sites_record(unsigned session, bool on, unsigned first_slot)
{
	uint32_t i, in = 0;

	if (!rules_record(session, on, first_slot))
		return 0;
	apply();
	for (i = first_slot; on && i < SPOOR_SLOTS && slots[i].output == slots[first_slot].output; i++)
		in |= 1U << i;
	return count_sites(NULL, NULL, in);
}

int sites_of(const struct class *c)
{
	return count_sites(c, NULL, 0);
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
	if (!rules_any() && !probes_any() && !has_flags(&o))
		return;
	if (definitions_in(o.begin, o.end, prepare_definition)) {
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

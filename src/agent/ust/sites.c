/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "agent/core/clock.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/context.h"
#include "agent/ust/filter.h"
#include "agent/ust/glob.h"
#include "agent/ust/patch.h"
#include "agent/ust/probes.h"
#include "agent/ust/sites.h"
#include "agent/ust/marker.h"

struct object {
	const void *note;
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
};

static struct spoor_tracepoint *tracepoint_of(const struct spoor_site *s)
{
	return (struct spoor_tracepoint *)SPOOR_SITE_TARGET(s, tracepoint);
}

static struct class *resolve(const struct spoor_site *s)
{
	struct spoor_tracepoint *tp = tracepoint_of(s);

	if (!tp->agent)
		tp->agent = class_of((const struct spoor_desc *)SPOOR_SITE_TARGET(s, desc),
				     (const char *)SPOOR_SITE_TARGET(s, file), s->line);
	return tp->agent;
}

static bool is_on(const struct class *c)
{
	return c->slot >= 0 || c->probes;
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
static void prepare(struct spoor_tracepoint *tp, struct class *c)
{
	tp->ops = &ops;
	tp->id = c->id;
	if (c->slot < 0) {
		__atomic_store_n(&tp->reserve, reserve_nothing, __ATOMIC_RELEASE);
	} else {
		tp->slot = (uint16_t)SPOOR_SLOT_OFFSET((unsigned)c->slot);
		barrier();
		__atomic_store_n(&tp->reserve, reserve_of(c), __ATOMIC_RELEASE);
	}
	__atomic_store_n(&tp->probes, c->probes, __ATOMIC_RELEASE);
	__atomic_store_n(&tp->enabled, is_on(c), __ATOMIC_RELEASE);
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

	return !code_is(s, SITE_ON) && (spoor_agent_state.way == SPOOR_AGENT_REFUSED || (c && is_on(c)));
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
		if (is_on(c) || tracepoint_of(s)->ops)
			prepare(tracepoint_of(s), c);
		failed = switch_site(p, s, is_on(c));
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

		if (!s->code || tracepoint_of(s)->agent)
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
static const char *pointed(const int32_t *at)
{
	return (const char *)at + *at;
}

static int read_note(const void *note, struct object *ret)
{
	const uint32_t *w = note;
	const int32_t *desc = (const int32_t *)note + 5;

	if (w[0] != 6 || w[1] != 16 || w[2] != SPOOR_NOTE_SITES || memcmp(w + 3, "Spoor", 6) ||
	    desc[0] != SPOOR_SITE_VERSION)
		return -EINVAL;
	ret->note = note;
	ret->begin = (struct spoor_site *)pointed(desc + 1);
	ret->end = (struct spoor_site *)pointed(desc + 2);
	return ret->begin <= ret->end ? 0 : -EINVAL;
}

static bool known(const void *note)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].note == note)
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

	if (known(note) || read_note(note, &o) || !make_room())
		return;
	objects[n_objects++] = o;
	patch_way(); /* so that it can be told from outside before anything is enabled */
	if (!rules && !probes_any() && !has_flags(&o))
		return;
	resolve_object(&o);
	switch_all(&o, 1, NULL);
}

void sites_object_out(const void *note)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++) {
		if (objects[i].note != note)
			continue;
		objects[i] = objects[--n_objects];
		return;
	}
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	int i;

	(void)size;
	(void)data;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + ph->p_vaddr, *end = at + ph->p_memsz;

		if (ph->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *n = (const void *)at;
			size_t align = ph->p_align == 8 ? 8 : 4;
			size_t name = (n->n_namesz + align - 1) & ~(align - 1),
			       desc = (n->n_descsz + align - 1) & ~(align - 1);

			if (n->n_namesz == 6 && (size_t)(end - at) >= sizeof(*n) + 24 && !memcmp(n + 1, "Spoor", 6))
				sites_object_in(at);
			if (name + desc > (size_t)(end - at))
				break;
			at += sizeof(*n) + name + desc;
		}
	}
	return 0;
}

void sites_find_objects(void)
{
	dl_iterate_phdr(look_at, NULL);
}

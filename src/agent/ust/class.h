/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Event classes: what the same declaration in many objects has in common. A class is known by provider, name and the
 * signature of its fields, outlives the objects that had it, and has the same id in all arenas. All under the process's
 * lock.
 */
#include "agent/core/output.h"
#include <spoor/site.h>

#define CLASS_MAX_DEFINITION 65536 /* bytes: so large a definition may be in a trace */

struct class
{
	struct class *next, *next_in_bucket;
	const char *full;                     /* "provider:name" */
	const char *provider, *name, *format; /* name: the end of full; format: "" of tracepoints */
	const char *file;
	uint32_t line;
	uint16_t id; /* 0: there are no more numbers */
	uint8_t kind, level;
	bool large; /* it cannot be defined, and its fields are not kept */
	uint64_t signature;
	const void *fields; /* spoor_def_field records */
	uint32_t fields_size;
	uint16_t n_fields;
	uint16_t more_ids[SPOOR_ARENA_MAX_CHANNELS - 1]; /* where one arena has it in several channels; 0: not yet */
	uint16_t ids[SPOOR_SLOTS];                       /* what it is called there, if the slot knows that */
	uint32_t slots;                                  /* a bit for each that it is recorded in */
	uint32_t refused;                                /* those whose arena, or filter, it cannot have: all is lost */
	const struct filter **filters;                   /* of each slot; NULL: all events (class_filter()) */
	const struct spoor_probe *probes;                /* to a NULL function; replaced (probes.c) */
	struct spoor_probe *other_probes;                /* to come; or to be freed when nobody can be in them */
	void (*record)(void); /* of a definition that is loaded (definition.c); NULL: there is none */
	struct marker_plan *plan;
};

/* The class of what a site says, made if it is new. NULL: malformed, or no memory. */
struct class *class_of(const struct spoor_desc *desc, const char *file, uint32_t line);

/* All of them, by `next`. */
struct class *classes(void);

/* Which of its events go to a slot; NULL: all. 0 or -ENOMEM: that slot goes without, too. */
int class_set_filter(struct class *c, unsigned slot, const struct filter *f);

/* As it was set. Async-signal-safe, without the lock. */
static inline const struct filter *class_filter(const struct class *c, unsigned slot)
{
	const struct filter **filters = __atomic_load_n(&c->filters, __ATOMIC_ACQUIRE);

	return filters ? __atomic_load_n(&filters[slot], __ATOMIC_RELAXED) : NULL;
}

/* Makes the class known to a slot's arena. 0 or -errno. */
int class_define(struct class *c, unsigned slot);

/* Bytes that the definitions of all classes need in an arena. */
uint64_t classes_room(const struct arena_wish *wish);

/* Memory that stays; NULL: none. Under the process's lock. */
void *keep(size_t size);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What the sessions that record this process want: rules in their order. Of those that are for a class and a channel
 * the last decides whether the class's events go into that channel. All under the process's lock.
 */
#include "agent/ust/class.h"

#define SPOOR_SESSIONS SPOOR_OUTPUTS

struct rule;

struct rule_wish {
	const char *globs; /* over provider:name, separated by commas */
	uint32_t max_level;
	uint32_t kind; /* 0: any; else 1 + enum spoor_desc_kind */
	bool enable;
	uint32_t channels;           /* a bit for each */
	const struct filter *filter; /* NULL: all events */
};

/* NULL: no memory. */
const struct rule *rules_add(unsigned session, const struct rule_wish *wish);
/* The session begins anew: its rules hold until rules_record(), those that are added from here on then take over. */
void rules_begin(unsigned session);
/* It does not, after all. */
void rules_keep(unsigned session);
/* It is over. */
void rules_forget(unsigned session);
bool rules_recording(unsigned session);
/* Are they? Else another one changes nothing yet. */
bool rules_in_force(unsigned session);
bool rules_any(void);
/* On, into the slots from first_slot on, or off. True: classes are to be assigned anew. */
bool rules_record(unsigned session, bool on, unsigned first_slot);

/* Gives the class the slots that all sessions' rules say. */
void rules_assign(struct class *c);

bool rule_is_for(const struct rule *r, const struct class *c);
/* A field that its filter names and no class has that it is for. NULL: there is none, or no class. */
const char *rule_field_missing(const struct rule *r);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The sites of all objects of this process, and which of them are on. Everything under the process's lock.
 */
#include "agent/ust/rules.h"

/*
 * An object came (note: its .note.spoor) or goes. Known or unknown ones are passed over. True: what goes recorded for
 * sites of other objects; wait, without the lock, until nobody can be in it (spoor_probe_synchronize).
 */
void sites_object_in(const void *note);
bool sites_object_out(const void *note);

/* Looks for objects that could not announce themselves. */
void sites_find_objects(void);

/*
 * Rules hold for present objects and for future ones. The number of sites concerned; -EPERM: there are some, but none
 * can be switched; -ENOMEM. A filter's field that none of these events has is said in text.
 */
int sites_rule(unsigned session, const struct rule_wish *wish, char *text, unsigned size);

/* Recording is on, into the slots from first_slot on, or off. As sites_rule(), of the sites that the rules enable. */
int sites_record(unsigned session, bool on, unsigned first_slot);

/* The class's sites, likewise. */
int sites_of(const struct class *c);

/* How many there are, and of these how many cannot be switched on (patch.h). */
unsigned sites_count(unsigned *ret_stuck);

/* A class's slot or probes were changed: switches its sites. NULL: all sites. */
int sites_refresh(struct class *c);

/* Classes for all that there is, so that they can be listed or found by name. */
void sites_resolve(void);

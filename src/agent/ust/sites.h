/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The sites of all objects of this process, and which of them are on. Everything under the process's lock.
 */
#include "agent/ust/class.h"

/* An object came (note: its .note.spoor) or goes. Known or unknown ones are passed over. */
void sites_object_in(const void *note);
void sites_object_out(const void *note);

/* Looks for objects that could not announce themselves. */
void sites_find_objects(void);

/*
 * Records what matches (comma-separated globs over provider:name) into a slot, in present objects and in future ones,
 * or no longer (slot -1). 0; -EPERM: some sites could not be switched, because code may not be written here.
 */
int sites_record(const char *globs, uint32_t max_level, int slot);

/* A class's slot or probes were changed: switches its sites. */
int sites_refresh(struct class *c);

/* Classes for all that there is, so that they can be listed or found by name. */
void sites_resolve(void);

/* fn for each site; stops when it returns not 0, and returns that. */
struct site_seen {
	const struct spoor_site *site;
	const struct class *class;
	bool on, by_flag;
};
int sites_each(int (*fn)(const struct site_seen *seen, void *data), void *data);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* User events counted by process (or application) and name. */
#include "analyze/processes.h"

struct spoor_userevents;

struct spoor_userevent_row {
	uint32_t process; /* number, as spoor_processes_get() takes it */
	const struct spoor_event_class *class; /* the first of this name; borrowed from the trace */
	uint64_t count;
	uint64_t first, last; /* ts */
};

int spoor_userevents_new(struct spoor_processes *processes, struct spoor_userevents **ret);
void spoor_userevents_free(struct spoor_userevents *u);
/* 0 or -ENOMEM. */
int spoor_userevents_add(struct spoor_userevents *u, const struct spoor_event *ev, uint32_t pid);
/* By process, in each the most frequent first. Borrowed. */
size_t spoor_userevents_rows(struct spoor_userevents *u, const struct spoor_userevent_row **ret);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What ended threads have left, by process: added up round by round, and handed out. The processes that have ended
 * stay apart for a while, then they are merged into one.
 */
#include <stdbool.h>

#include "collect/session/counted.h"

struct spoor_ended;

/* keep: the last thousands of ended processes stay apart; else each is merged once it was handed out or passed over. */
int spoor_ended_new(bool keep, struct spoor_ended **ret);
void spoor_ended_free(struct spoor_ended *e);

/* A sum of the round under way. */
void spoor_ended_add(struct spoor_ended *e, const struct spoor_counter_key *key, const struct spoor_counter_sum *s);
/* What the kernel says of a process (struct spoor_round_reader). -ENOMEM: it is not in. */
int spoor_ended_process(struct spoor_ended *e, const struct spoor_counter_owner *owner,
			const struct spoor_counter_process *k, unsigned bank, bool final);

/* Have processes ended that were not handed out by spoor_ended_finals() yet? */
bool spoor_ended_has_finals(const struct spoor_ended *e);
/* Hands these out, each once and complete, in the order of their end. v NULL: passes over them. Returns how many. */
size_t spoor_ended_finals(struct spoor_ended *e, const struct spoor_count_visitor *v);
/* Hands everything out that ended threads have left. */
void spoor_ended_visit(const struct spoor_ended *e, const struct spoor_count_visitor *v);
/* Calls that are in none of it, for want of memory. */
uint64_t spoor_ended_lost(const struct spoor_ended *e);

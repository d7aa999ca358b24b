/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Processes that found no room: each counts once, for who lives comes again and again. Not thread-safe. */
#include <stdbool.h>
#include <stdint.h>

struct spoor_turned_away {
	struct spoor_away *last; /* of each slot; NULL: nobody yet */
};

/*
 * Is whoever has connected one more to count? Not who has been turned away before, as far as is remembered, nor who
 * left without a word (a recorder that looks whether another one is there, say).
 */
bool spoor_turned_away_counts(struct spoor_turned_away *t, int sock, uint32_t pid);
void spoor_turned_away_forget(struct spoor_turned_away *t);

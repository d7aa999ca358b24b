/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What each user may have of a recorder's places, so that none of them keeps the others out. Another user than ours,
 * and root, gets one more while he has fewer than are free: alone he gets half of them, and each that comes then finds
 * some (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Trans. Networking 6 (1998) 130). Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spoor_shares {
	struct spoor_share *all; /* of users who have something */
	size_t n, room;
};

/* One more for that user, if he has fewer than `unused`. Ours and root may always. */
bool spoor_shares_take(struct spoor_shares *s, uid_t uid, size_t unused);
void spoor_shares_give_back(struct spoor_shares *s, uid_t uid);
/* To be said now: he has all that he may have, which was not said since he had nothing. */
bool spoor_shares_say(struct spoor_shares *s, uid_t uid);
void spoor_shares_done(struct spoor_shares *s);

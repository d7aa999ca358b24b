/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Tells when a program has filled a packet, so that bursts need not wait for the next round: a thread that sleeps on
 * the arenas' `wake` words and writes to an eventfd. It touches nothing else; all functions are for the hub's thread.
 * Arenas beyond the first hundred are looked at in rounds only.
 */
#include "collect/user/arena.h"

struct spoor_waker;

/* The thread is started with the first arena. -ENOMEM, -EMFILE. */
int spoor_waker_new(struct spoor_waker **ret);
void spoor_waker_free(struct spoor_waker *w);
int spoor_waker_fd(const struct spoor_waker *w);
/* After the fd was readable. */
void spoor_waker_heard(struct spoor_waker *w);
void spoor_waker_add(struct spoor_waker *w, struct spoor_user_arena *a);
/* Before the arena is unmapped. */
void spoor_waker_remove(struct spoor_waker *w, struct spoor_user_arena *a);

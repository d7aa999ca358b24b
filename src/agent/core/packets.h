/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Packets change hands here (arena.h draws how). All of it with the thread's signals blocked. */
#include "agent/core/output.h"

/* Takes back what p has and gives it a packet with room for size bytes. False: there is none. */
bool packet_next(struct slot *s, struct producer *p, unsigned level, size_t size);

/* Nothing has become free since p found neither a packet of its own nor a shared one. Signals need not be blocked. */
bool packets_gave_up(const struct slot *s, const struct producer *p);

/* Gives p's packet back: for others to go on in, or (full) for the consumer. */
void packet_give_back(struct slot *s, struct producer *p, bool full);

/*
 * Room in the packet of all who have none, NULL: not to be had. Between this and the commit, which lets others go on
 * and leaves the slot, the thread's signals stay blocked: `signals` are what it had.
 */
char *packet_shared_reserve(struct slot *s, size_t size, uint64_t signals);
/* size 0: it is not kept. */
void packet_shared_commit(struct slot *s, char *at, size_t size);
/* Where the record at `at` begins, if this thread has reserved it in a shared packet; else NULL. */
char *packet_shared_from(struct slot *s, char *at);

/* This thread ends: all that it has. */
void packets_give_back_all(struct block *b);

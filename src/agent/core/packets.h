/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Packets change hands here (arena.h draws how). All of it with the thread's signals blocked. */
#include <string.h>

#include "agent/core/clock.h"
#include "agent/core/output.h"

/* Takes back what p has and gives it a packet with room for size bytes. False: there is none. */
bool packet_next(struct slot *s, struct producer *p, unsigned level, size_t size);

/* Nothing has become free since p found neither a packet of its own nor a shared one. Signals need not be blocked. */
bool packets_gave_up(const struct slot *s, const struct producer *p);

/* Gives p's packet back: for others to go on in, or (full) for the consumer. */
void packet_give_back(struct slot *s, struct producer *p, bool full);

/*
 * Stamps a record and puts it into the packet of all who have none. False: there is no room. In the slot, with the
 * thread's signals blocked: the others wait for it.
 */
bool packet_shared_put(struct slot *s, const char *record, size_t size);

/* Of a record that was written elsewhere: its stamp is of now, so that stamps in a packet rise. */
static inline void packet_copy(char *at, const char *record, size_t size)
{
	memcpy(at, record, size);
	*(uint64_t *)at = clock_stamp();
}

/* This thread ends: all that it has. */
void packets_give_back_all(struct block *b);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What of programs' buffers is in a trace already, as the trace's packets say: for a recorder that follows one which
 * was killed after it wrote and before it gave the packets back. Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/user/arena.h"
#include "trace/schema.h"
#include "trace/writer.h"

struct spoor_written {
	struct spoor_packet_source *all;
	size_t n, room;
	int sorted;
};
/* Adds what a trace had when this writer resumed it. */
int spoor_written_add(struct spoor_written *w, const struct spoor_writer *writer);
/* The same for a trace at a relay, by its digest (trace/digest.h). */
int spoor_written_digest(struct spoor_written *w, const void *digest, size_t len, struct spoor_error *e);
void spoor_written_done(struct spoor_written *w);
/* How much that was: events, losses and what was overwritten as far as they were told with them, programs. */
struct spoor_written_sum {
	uint64_t events, lost, overwritten;
	unsigned programs;
};
void spoor_written_sum(struct spoor_written *w, struct spoor_written_sum *ret);
/* Has it something of this arena? */
bool spoor_written_knows(const struct spoor_written *w, const uint8_t uuid[16]);
/* Moves the positions of an arena's packets behind what is written. */
void spoor_written_apply(struct spoor_written *w, struct spoor_user_arena *a);
/* Of what an arena counts (SPOOR_SOURCE_LOST, SPOOR_SOURCE_OVERWRITTEN), how many are told. */
uint64_t spoor_written_told(struct spoor_written *w, const uint8_t uuid[16], uint64_t what);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Call stacks of a trace's part `ust`: from addresses of a program to frames (object, offset), each different stack and
 * each object under one id, defined in every segment that refers to it. Not thread-safe.
 *
 *	addresses, stamp --(remembered)--> id
 *	      | else: objects of the arena at that stamp
 *	      v
 *	frames ----------(by content)----> id, defined if it is not in this segment
 */
#include "collect/user/code.h"
#include "trace/writer.h"

struct spoor_user_stacks;
struct spoor_user_addresses; /* of one arena: what its addresses meant */

/* w NULL: ids are given, and nobody is told. -ENOMEM. */
int spoor_user_stacks_new(struct spoor_writer *w, struct spoor_user_stacks **ret);
void spoor_user_stacks_free(struct spoor_user_stacks *s);
/* A segment began: all that is referred to from here on is defined again. */
void spoor_user_stacks_segment(struct spoor_user_stacks *s);

void spoor_user_addresses_free(struct spoor_user_addresses *a);

/* Of one program. */
struct spoor_user_walker {
	struct spoor_code *code;
	struct spoor_user_addresses **addresses; /* NULL at first */
	uint32_t pid; /* to look at its files through; 0: it is gone */
};
struct spoor_user_walk {
	uint64_t stamp; /* of the event, as it stands in the arena */
	uint64_t ns;    /* the same, CLOCK_MONOTONIC */
	uint16_t status, way;
	uint16_t n; /* at most SPOOR_ARENA_MAX_FRAMES */
	const uint64_t *addresses;
};
/* The id of the walk's stack, defined. 0: it could not be. */
uint32_t spoor_user_stacks_id(struct spoor_user_stacks *s, struct spoor_user_walker *who,
			      const struct spoor_user_walk *walk);

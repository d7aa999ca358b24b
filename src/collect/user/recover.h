/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A trace of arenas that are left: of programs that recorded without a daemon, or that died. What the arena's file
 * holds is read, and what its program had spilled (NAME.arena, NAME.spill). Every event whose commit finished is in
 * it. The files are not changed.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/user/taker.h"

struct spoor_recovery {
	uint64_t events, lost, overwritten;
	uint64_t lost_child, children; /* of `lost`: by so many child processes that could have no buffers */
	uint64_t undescribed; /* of `lost`: of classes without a description that makes sense */
	struct spoor_user_damaged damaged;
	uint32_t uncounted; /* counters that some events could not have: bits of contexts */
	unsigned programs, running, crashed;
	unsigned unseen;             /* programs that ended without exit(): by a crash or not */
	unsigned stuck;              /* programs with sites that could not be switched on */
	unsigned cut;                /* files whose end is missing, */
	uint64_t cut_bytes, missing; /* so many bytes, and of these that were events', as far as is known */
	unsigned unreadable;         /* files that are no arenas, or copies of others */
	char why[512];               /* the first of those */
};

/*
 * paths: arenas, or directories, of which *.arena are taken. output must not exist. -ENODATA: there is no arena. If
 * only some of the files can be read, the others make a trace, and *ret says so.
 */
int spoor_recover(char *const *paths, size_t n, const char *output, const char *command, struct spoor_recovery *ret,
		  struct spoor_error *e);

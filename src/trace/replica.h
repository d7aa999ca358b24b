/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A trace directory that is written by the operations of a writer elsewhere (store.h). Names of files are made here,
 * from numbers that were checked, so that no operation reaches anything outside. Each operation can be repeated, also
 * by another process after this one was killed: it says where in which file its bytes belong.
 *
 * 0 or -errno: -EBADMSG: the operation makes no sense (a number, a gap in a file); -ENOENT: the trace was removed;
 * -ENOSPC, -EDQUOT, -EFBIG: nothing of it was done, it can be tried again. Not thread-safe.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/schema.h"

#define SPOOR_REPLICA_PARTS 2 /* SPOOR_STREAM_KERNEL, SPOOR_STREAM_UST */

struct spoor_replica;

/* parts: a bit for each. The directory at/name, locked as a writer's; what is missing in it is made. -EBUSY: locked. */
int spoor_replica_open(int at, const char *name, const char *host, unsigned parts, struct spoor_replica **ret);
/* Unlocks it; what was written stays. NULL is fine. */
void spoor_replica_close(struct spoor_replica *r);
int spoor_replica_fd(const struct spoor_replica *r);

int spoor_replica_segment(struct spoor_replica *r, unsigned part, unsigned segment);
int spoor_replica_metadata(struct spoor_replica *r, unsigned part, unsigned segment, uint64_t offset, const void *text,
			   size_t len);
int spoor_replica_ready(struct spoor_replica *r, unsigned part, unsigned segment);
int spoor_replica_data(struct spoor_replica *r, unsigned part, unsigned segment, unsigned instance, uint64_t offset,
		       const void *data, size_t len);
/* In pieces; with the last one it takes the place of the one before. */
int spoor_replica_manifest(struct spoor_replica *r, uint64_t offset, int last, const void *text, size_t len);
int spoor_replica_drop(struct spoor_replica *r, unsigned part, unsigned segment);

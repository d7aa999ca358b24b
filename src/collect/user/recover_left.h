/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Files that programs which recorded alone have left: their buffers, and what they spilled beside them. */
#include <sys/types.h>

#include "collect/user/taker.h"

struct spoor_left {
	char *path;
	struct spoor_source source;
	struct spoor_user_clock clock;
	int spill_fd;
	dev_t dev; /* which file it is */
	ino_t ino;
	uint64_t last; /* ns: where the last of its packets begins */
	bool runs;
};

struct spoor_lefts {
	struct spoor_left **all;
	size_t n;
	void *by_uuid; /* a tree of them: tsearch(3) */
	unsigned unreadable; /* files; the first one's reason: */
	char why[512];
};

/*
 * A file, or all files of a directory. One that cannot be read does not take the others with it. One that is there
 * already, also as a copy, is not taken again: of copies of different sizes the largest is, for others were cut. What
 * was spilled stands for the buffers that it is of. -ENOMEM.
 */
int spoor_lefts_add(struct spoor_lefts *all, const char *path, struct spoor_error *e);
void spoor_lefts_done(struct spoor_lefts *all);

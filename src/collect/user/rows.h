/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Unwind rows for programs that walk their own stacks: a thread that finds the files of their objects, has them
 * compiled (unwind/rows.h: by a child without privileges, cached on disk), and hands the rows out as memory that nobody
 * can change, the same for all programs. An object of which it is not the content that kept it from having rows is
 * tried again for the next who asks. Functions are for one thread, which never waits for it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/arena.h"
#include "base/error.h"

struct spoor_user_rows;

/* Starts the child; the thread begins when it is first asked. */
int spoor_user_rows_new(const char *cache_dir, struct spoor_user_rows **ret, struct spoor_error *e);
/* Waits for what the thread has in hand. NULL is fine. */
void spoor_user_rows_free(struct spoor_user_rows *r);
/* Readable when there are answers. */
int spoor_user_rows_fd(const struct spoor_user_rows *r);

struct spoor_user_rows_asker { /* comes back with the answer */
	uint64_t program;
	uint32_t session;
};

/* An object that process pid defines. -ENOBUFS: too many wait; -ENOMEM; -EAGAIN: there can be no thread. */
int spoor_user_rows_ask(struct spoor_user_rows *r, struct spoor_user_rows_asker owner, uint32_t pid,
			const struct spoor_def_object *d);

struct spoor_user_rows_answer {
	struct spoor_user_rows_asker owner;
	int fd; /* the receiver's; -1: it has no rows, or its file was not found */
	struct spoor_def_object *def; /* as it was asked for; the receiver's */
	char *why; /* the first time that it has none for another reason than its content; NULL; the receiver's */
};
/* One answer. Returns whether there was one. */
bool spoor_user_rows_take(struct spoor_user_rows *r, struct spoor_user_rows_answer *ret);

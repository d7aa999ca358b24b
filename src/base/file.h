/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Files: all of a write, however the kernel divides it; paths as another process sees them. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

/* All of it, at the descriptor's position. 0, or -errno: some of it may have been written. */
int spoor_write_whole(int fd, const void *buf, size_t len);

/*
 * Is it there? For who we are: access() asks for who called a set-user-id program, and takes no notice of capabilities.
 * errno says why not.
 */
bool spoor_file_exists(const char *path);

/* Whether it is a pipe (or a socket) without a reader. Only a write that fails at last would say so by errno. */
bool spoor_file_unread(int fd);

/* A directory and all that is in it, as far as that may be removed. */
void spoor_remove_tree(const char *path);

/* -errno of a write, or of what makes a file: a full disk, or as much of it as its owner may have. */
static inline bool spoor_is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

/* A device as the kernel numbers it, and traces do. */
static inline uint64_t spoor_kernel_dev(dev_t dev)
{
	return (uint64_t)major(dev) << 20 | minor(dev);
}

/* Opens a path in the root directory `root`, beyond which no link in it leads. As open(2) with these flags; -errno. */
int spoor_open_in_root(int root, const char *path, int flags);

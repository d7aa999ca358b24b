/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Bytes and the descriptors that go with them, as one message of a Unix socket (SCM_RIGHTS). */
#include <stddef.h>
#include <sys/types.h>

#define SPOOR_FDS_MOST 4 /* of a message */

/* fds stay the caller's. flags: of sendmsg(); no SIGPIPE comes. 0, or -errno. */
int spoor_fds_send(int sock, const void *bytes, size_t size, const int *fds, int n, int flags);

/*
 * One message: its size (0: the other end is closed), or -errno; -EBADMSG: it was larger than room, or had more
 * descriptors than may come; -EMFILE: there was no room in this process for its descriptors. fds gets up to n of
 * them, close-on-exec and the caller's, and -1 behind; what came beyond is closed. *ret_n (may be NULL): how many
 * came in all.
 */
ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags);

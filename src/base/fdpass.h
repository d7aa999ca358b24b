/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Bytes and the descriptors that go with them, as one message of a Unix socket (SCM_RIGHTS). */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SPOOR_FDS_MOST 4 /* of a message */

/* fds stay the caller's. flags: of sendmsg(); no SIGPIPE comes. 0, or -errno. */
int spoor_fds_send(int sock, const void *bytes, size_t size, const int *fds, int n, int flags);

/*
 * One message: its size (0: the other end is closed), or -errno; -EBADMSG: it was larger than room, or had more
 * descriptors than may come; -EMFILE: there was no room in this process for its descriptors. fds gets up to n of
 * them, close-on-exec and the caller's, and -1 behind; what came beyond is dropped. *ret_n (may be NULL): how many
 * came in all. n 0: a message with descriptors is -EBADMSG, and they never come to this process.
 */
ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags);

/* Is it a memfd? Whatever it is, nobody is asked who may not answer. */
bool spoor_fds_is_memory(int fd);
/*
 * Closes what another user may have sent (fd -1: nothing) and waits for nobody: a file of a file system of his can keep
 * who closes it waiting for ever. So all but memfds are closed by a thread.
 */
void spoor_fds_drop(int fd);
void spoor_fds_dropp(const int *fd);
/* A user has sent that (-1: nothing). Not thread-safe, nor is the next. */
void spoor_fds_note(int fd, uid_t uid);
/* Is no more to be received of him? He has sent what is no memory, and so many of these threads have not ended. */
bool spoor_fds_refused(uid_t uid);

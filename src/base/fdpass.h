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
 * came in all.
 */
ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags);
/*
 * The same of another user, with one. -EBADMSG, too: he has sent what is no memory, many of those closings have not
 * ended (spoor_fds_drop()), and this brings one more; it stays in the socket. Not thread-safe.
 */
ssize_t spoor_fds_receive_of(uid_t uid, int sock, void *bytes, size_t room, int *ret_fd, int flags);

/* Is it a memfd? Whatever it is, nobody is asked who may not answer. */
bool spoor_fds_is_memory(int fd);
/*
 * Closes what another user may have sent (fd -1: nothing) and waits for nobody: a file of a file system of his can keep
 * who closes it waiting for ever. So all but memfds are closed by threads, of which there is a bounded number: where
 * all are kept waiting it stays open until one is not. Not thread-safe.
 */
void spoor_fds_drop(int fd);
void spoor_fds_dropp(const int *fd);
/* Closes a connection, likewise: with it goes what its peer has sent, and nobody has read. */
void spoor_fds_hang_up(int sock);
void spoor_fds_hang_upp(const int *sock);
/* Closes a socket at which others connect: with it goes who has, and was not let in. */
void spoor_fds_hush(int listener);

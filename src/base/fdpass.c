/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_STUCK 64
#define MOST_SENDERS 64
#define THREAD_STACK 65536

union control {
	char buf[CMSG_SPACE(SPOOR_FDS_MOST * sizeof(int))];
	struct cmsghdr align;
};

int spoor_fds_send(int sock, const void *bytes, size_t size, const int *fds, int n, int flags)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n < 0 || n > SPOOR_FDS_MOST)
		return -EINVAL;
	if (n) {
		struct cmsghdr *c = &control.align;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	if (sent < 0)
		return -errno;
	return (size_t)sent == size ? 0 : -EIO;
}

static unsigned closing; /* threads that are at it */

static void *close_it(void *fd)
{
	close((int)(intptr_t)fd);
	__atomic_fetch_sub(&closing, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Where there is no room for a thread the descriptor stays. */
static void begin_closing(int fd)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	__atomic_fetch_add(&closing, 1, __ATOMIC_RELAXED);
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, &attr, close_it, (void *)(intptr_t)fd))
		__atomic_fetch_sub(&closing, 1, __ATOMIC_RELAXED);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

bool spoor_fds_is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

void spoor_fds_drop(int fd)
{
	if (fd >= 0 && spoor_fds_is_memory(fd))
		close(fd);
	else if (fd >= 0)
		begin_closing(fd);
}

void spoor_fds_dropp(const int *fd)
{
	spoor_fds_drop(*fd);
}

/* Who has sent what is no memory; beyond so many it may be anybody. */
static uid_t senders[MOST_SENDERS];
static unsigned n_senders;

static bool is_sender(uid_t uid)
{
	for (unsigned i = 0; i < n_senders; i++)
		if (senders[i] == uid)
			return true;
	return n_senders == MOST_SENDERS;
}

void spoor_fds_note(int fd, uid_t uid)
{
	if (fd >= 0 && !spoor_fds_is_memory(fd) && !is_sender(uid))
		senders[n_senders++] = uid;
}

bool spoor_fds_refused(uid_t uid)
{
	return uid && uid != geteuid() && __atomic_load_n(&closing, __ATOMIC_RELAXED) >= MOST_STUCK && is_sender(uid);
}

/* Those of the message, in their order: how many there were; the first `n` of them are kept. */
static int take(struct msghdr *msg, int *fds, int n)
{
	int count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t many = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < many; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (count < n)
				fds[count] = fd;
			else
				spoor_fds_drop(fd);
			count++;
		}
	}
	return count;
}

ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags)
{
	union control control;
	struct iovec iov = { .iov_base = bytes, .iov_len = room };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = n ? sizeof(control) : 0
	};
	ssize_t size;
	int count;

	for (int i = 0; i < n; i++)
		fds[i] = -1;
	do {
		size = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	count = take(&msg, fds, n);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (int i = 0; i < n; i++) {
			spoor_fds_drop(fds[i]);
			fds[i] = -1;
		}
		return n && msg.msg_flags & MSG_CTRUNC && count < SPOOR_FDS_MOST ? -EMFILE : -EBADMSG;
	}
	if (ret_n)
		*ret_n = count;
	return size;
}

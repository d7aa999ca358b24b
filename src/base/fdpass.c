/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_STUCK 64
#define MOST_HANGING 1024 /* connections: what lies in one may be stuck, too, and those of others are not to wait */
#define MOST_SENDERS 64
#define THREAD_STACK 65536
#define SENT_MOST 253 /* with one message: SCM_MAX_FD of the kernel */

union control {
	char buf[CMSG_SPACE(SENT_MOST * sizeof(int))];
	struct cmsghdr align;
};

/* All of a message, so that the kernel drops none for us: that waits as any closing does. */
struct came {
	int fds[SENT_MOST], n;
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

struct late {
	struct late *next;
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two */
static struct closers {
	unsigned n, most; /* threads that are at it */
	struct late *first;
} files, sockets;    /* apart: whose files are stuck keeps no connection */
static pid_t closer; /* whose all that is, as it begins: a child has no such threads, nor perhaps the descriptors */

static void *closes(void *closers)
{
	struct closers *c = closers;
	struct late *l;

	pthread_mutex_lock(&lock);
	while ((l = c->first)) {
		c->first = l->next;
		pthread_mutex_unlock(&lock);
		close(l->fd);
		free(l);
		pthread_mutex_lock(&lock);
	}
	c->n--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Where there is no room for a thread the next one does it. */
static void begin_thread(struct closers *c)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, &attr, closes, c)) {
		pthread_mutex_lock(&lock);
		c->n--;
		pthread_mutex_unlock(&lock);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

/* Without memory the descriptor stays. */
static void begin_closing(struct closers *c, int fd)
{
	struct late *l = malloc(sizeof(*l));
	bool begins;

	if (!l)
		return;
	if (closer != getpid()) { /* when that was forked somebody may have had the lock */
		closer = getpid();
		lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		files = (struct closers){ .most = MOST_STUCK };
		sockets = (struct closers){ .most = MOST_HANGING };
	}
	l->fd = fd;
	pthread_mutex_lock(&lock);
	l->next = c->first;
	c->first = l;
	begins = c->n < c->most;
	c->n += begins;
	pthread_mutex_unlock(&lock);
	if (begins)
		begin_thread(c);
}

bool spoor_fds_is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

static void drop(struct closers *c, int fd)
{
	if (fd >= 0 && spoor_fds_is_memory(fd))
		close(fd);
	else if (fd >= 0)
		begin_closing(c, fd);
}

void spoor_fds_drop(int fd)
{
	drop(&files, fd);
}

void spoor_fds_dropp(const int *fd)
{
	spoor_fds_drop(*fd);
}

void spoor_fds_hang_up(int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) && (!who.uid || who.uid == geteuid()))
		close(sock);
	else
		drop(&sockets, sock);
}

void spoor_fds_hang_upp(const int *sock)
{
	spoor_fds_hang_up(*sock);
}

void spoor_fds_hush(int listener)
{
	struct pollfd f = { .fd = listener, .events = POLLIN };

	if (poll(&f, 1, 0) == 1)
		drop(&sockets, listener);
	else
		close(listener);
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

static void note(const struct came *c, uid_t uid)
{
	for (int i = 0; i < c->n; i++)
		if (!spoor_fds_is_memory(c->fds[i]) && !is_sender(uid))
			senders[n_senders++] = uid;
}

static bool is_refused(uid_t uid)
{
	return uid && uid != geteuid() && closer == getpid() &&
	       __atomic_load_n(&files.n, __ATOMIC_RELAXED) >= MOST_STUCK && is_sender(uid);
}

static void take(struct msghdr *msg, struct came *c)
{
	for (struct cmsghdr *m = CMSG_FIRSTHDR(msg); m; m = CMSG_NXTHDR(msg, m)) {
		size_t many = m->cmsg_len > CMSG_LEN(0) ? (m->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS || many > (size_t)(SENT_MOST - c->n))
			continue;
		memcpy(c->fds + c->n, CMSG_DATA(m), many * sizeof(int));
		c->n += (int)many;
	}
}

/* Those beyond n are dropped. */
static void hand_over(const struct came *c, int *fds, int n)
{
	for (int i = 0; i < n; i++)
		fds[i] = i < c->n ? c->fds[i] : -1;
	for (int i = n; i < c->n; i++)
		spoor_fds_drop(c->fds[i]);
}

static ssize_t size_of(const struct msghdr *msg, const struct came *c, ssize_t size)
{
	if (msg->msg_flags & MSG_CTRUNC)
		return -EMFILE;
	return msg->msg_flags & MSG_TRUNC || c->n > SPOOR_FDS_MOST ? -EBADMSG : size;
}

/* uid: of whom; NULL: of one of us. */
static ssize_t receive(int sock, const uid_t *uid, void *bytes, size_t room, struct came *c, int flags)
{
	union control control;
	struct iovec iov = { .iov_base = bytes, .iov_len = room };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control)
	};
	ssize_t size;

	do {
		size = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	take(&msg, c);
	if (uid)
		note(c, *uid);
	size = size_of(&msg, c, size);
	if (size >= 0)
		return size;
	hand_over(c, NULL, 0);
	c->n = 0;
	return size;
}

ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags)
{
	struct came c = {};
	ssize_t size = receive(sock, NULL, bytes, room, &c, flags);

	hand_over(&c, fds, n);
	if (size >= 0 && ret_n)
		*ret_n = c.n;
	return size;
}

/* Does the next message bring any? While it is there none is closed. */
static bool brings_any(int sock)
{
	struct msghdr msg = {};
	ssize_t size;

	do {
		size = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
	} while (size < 0 && (errno == EINTR || errno == ECONNRESET));
	return size >= 0 && msg.msg_flags & MSG_CTRUNC;
}

ssize_t spoor_fds_receive_of(uid_t uid, int sock, void *bytes, size_t room, int *ret_fd, int flags)
{
	struct came c = {};
	ssize_t size = -EBADMSG;

	if (!is_refused(uid) || !brings_any(sock))
		size = receive(sock, &uid, bytes, room, &c, flags);
	hand_over(&c, ret_fd, 1);
	return size;
}

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

static unsigned closing; /* threads that are at it, at most MOST_STUCK */
static struct late {
	struct late *next;
	int fd;
} *late;             /* what waits for one of them */
static pid_t closer; /* whose all that is: a child has the descriptors perhaps, but no threads */

static void put_off(struct late *first, struct late *last)
{
	struct late *next = __atomic_load_n(&late, __ATOMIC_RELAXED);

	do
		last->next = next;
	while (!__atomic_compare_exchange_n(&late, &next, first, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static bool may_begin(void)
{
	if (__atomic_fetch_add(&closing, 1, __ATOMIC_SEQ_CST) < MOST_STUCK)
		return true;
	__atomic_fetch_sub(&closing, 1, __ATOMIC_SEQ_CST);
	return false;
}

/* One after another; what it does not close yet is there for others. */
static void close_late(void)
{
	struct late *l;

	while ((l = __atomic_exchange_n(&late, NULL, __ATOMIC_ACQUIRE))) {
		if (l->next) {
			struct late *last = l->next;

			while (last->next)
				last = last->next;
			put_off(l->next, last);
		}
		close(l->fd);
		free(l);
	}
}

static void *closes(void *unused)
{
	do {
		close_late();
		__atomic_fetch_sub(&closing, 1, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&late, __ATOMIC_SEQ_CST) && may_begin()); /* put off before that */
	return NULL;
}

/* Where there is no room for a thread it is for the next one. */
static void begin_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, &attr, closes, NULL))
		__atomic_fetch_sub(&closing, 1, __ATOMIC_SEQ_CST);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

/* Without memory the descriptor stays. */
static void begin_closing(int fd)
{
	struct late *l = malloc(sizeof(*l));

	if (!l)
		return;
	if (closer != getpid()) {
		closer = getpid();
		closing = 0;
		late = NULL;
	}
	l->fd = fd;
	put_off(l, l);
	if (may_begin())
		begin_thread();
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

void spoor_fds_hang_up(int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) && (!who.uid || who.uid == geteuid()))
		close(sock);
	else
		spoor_fds_drop(sock);
}

void spoor_fds_hang_upp(const int *sock)
{
	spoor_fds_hang_up(*sock);
}

void spoor_fds_hush(int listener)
{
	struct pollfd f = { .fd = listener, .events = POLLIN };

	if (poll(&f, 1, 0) == 1)
		spoor_fds_drop(listener);
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
	return uid && uid != geteuid() && __atomic_load_n(&closing, __ATOMIC_RELAXED) >= MOST_STUCK && is_sender(uid);
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

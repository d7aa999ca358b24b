/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/control/control.h"
#include "agent/core/descriptors.h"
#include "agent/core/self.h"

#define FD_FROM 501

static struct sockaddr_un places[2]; /* where a recorder may be, best first */
static unsigned n_places;
static bool private_one, secure;
static bool passing; /* who was met is of one command */
static unsigned met; /* a bit for each place where a recorder, or its board, was found; children inherit it */
static struct met_at {
	struct directory {
		dev_t dev;
		ino_t ino;
	} own, above; /* the place's, and what that is in, as they were then: after chroot(), say, others are there */
} met_at[2];

static struct {
	int fd;
	__u32 pid; /* whose it is: a child has its parent's descriptors */
	dev_t dev; /* which file the number was of: programs close what they do not know */
	ino_t ino;
	bool waits; /* at the other end is no recorder, but who keeps us for the next one */
	bool ended; /* at the other end: it was not lost on ours */
} connection = { .fd = -1 };

/* ---- where ---- */

static void add_place(const char *dir, const char *name)
{
	struct sockaddr_un *a = &places[n_places];
	size_t n = strlen(dir);

	if (n + 1 + strlen(name) >= sizeof(a->sun_path))
		return;
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, dir, n + 1);
	if (*name) {
		a->sun_path[n] = '/';
		strcpy(a->sun_path + n + 1, name);
	}
	n_places++;
}

/* Absolute, because programs change their directory. */
static void add_named(const char *path)
{
	char dir[sizeof(places->sun_path)];

	while (!strncmp(path, "./", 2))
		path += 2;
	if (*path != '/' && !sys_failed(sys3(SYS_getcwd, dir, sizeof(dir), 0)))
		add_place(dir, path);
	if (!n_places)
		add_place(path, "");
}

/* A program that has more rights than who started it obeys the machine's recorder alone. */
void connection_prepare(void)
{
	const char *path = NULL, *dir = NULL;

	n_places = 0;
	secure = getauxval(AT_SECURE);
	if (!secure) {
		path = getenv(SPOOR_CONTROL_VARIABLE);
		dir = getenv("XDG_RUNTIME_DIR");
	}
	private_one = path && *path;
	if (private_one) {
		add_named(path);
		return;
	}
	if (dir && *dir)
		add_place(dir, SPOOR_CONTROL_USER_SOCKET);
	add_place(SPOOR_CONTROL_SOCKET, "");
}

bool connection_is_private(void)
{
	return private_one;
}

/* What the path is in, which is cut to that. */
static long find_directory(char *path, struct directory *ret)
{
	struct stat st = {};
	char *end = strrchr(path, '/');
	long r;

	if (!end)
		return -EINVAL;
	*end = '\0';
	r = sys3(SYS_stat, *path ? path : "/", &st, 0);
	*ret = (struct directory){ st.st_dev, st.st_ino };
	return r;
}

/* 0, or what is wrong with the place's own. */
static long find_directories(unsigned place, struct met_at *ret)
{
	char path[sizeof(places->sun_path)];
	long r;

	memcpy(path, places[place].sun_path, sizeof(path));
	r = find_directory(path, &ret->own);
	find_directory(path, &ret->above);
	return r;
}

static void meet(unsigned place)
{
	met |= 1U << place;
	find_directories(place, &met_at[place]);
}

/* ---- the descriptor ---- */

static bool is_ours(void)
{
	struct stat st = {};

	return connection.fd >= 0 && !sys_failed(sys3(SYS_fstat, connection.fd, &st, 0)) &&
	       st.st_dev == connection.dev && st.st_ino == connection.ino;
}

int connection_fd(void)
{
	return connection.pid == sys_pid() && is_ours() ? connection.fd : -1;
}

void connection_close(void)
{
	if (is_ours())
		sys3(SYS_close, connection.fd, 0, 0);
	connection.fd = -1;
}

void connection_forget(void)
{
	if (connection.pid != sys_pid())
		connection_close();
}

static int keep(long fd)
{
	struct stat st = {};

	fd = fd_out_of_the_way(fd, FD_FROM);
	if (sys_failed(sys3(SYS_fstat, fd, &st, 0))) {
		sys3(SYS_close, fd, 0, 0);
		return -EBADF;
	}
	connection.fd = (int)fd;
	connection.pid = sys_pid();
	connection.dev = st.st_dev;
	connection.ino = st.st_ino;
	connection.ended = false;
	return connection.fd;
}

/* ---- HELLO ---- */

static int send_to(long sock, struct spoor_control_head *m, unsigned type, unsigned size, __u32 serial, int fd)
{
	struct iovec iov = { m, size };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	long r;

	*m = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, (__u16)type, size, serial };
	if (fd >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		memset(control, 0, sizeof(control));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
	}
	r = sys3(SYS_sendmsg, sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sys_failed(r) ? (int)r : 0;
}

static int send_hello(long sock, struct spoor_control_hello *m, __u32 generation)
{
	m->arena_version = SPOOR_ARENA_VERSION;
	m->pid = sys_pid();
	m->start_time = self_start_time();
	m->n_sites = spoor_agent_sites(&m->n_stuck);
	return send_to(sock, &m->head, SPOOR_CONTROL_HELLO, sizeof(*m), generation, -1);
}

/* It may be anybody, and hears that we do not obey it: so its trace says why we are not there. Names are not told. */
static void say_hello_to_stranger(long sock)
{
	struct spoor_control_hello m = { .flags = SPOOR_HELLO_STRANGER };

	send_hello(sock, &m, 0);
}

static int say_hello(unsigned flags, unsigned n_arenas, __u32 generation)
{
	struct spoor_control_hello m = { .flags = flags, .n_arenas = n_arenas };

	self_comm(m.comm);
	self_exe(m.exe, sizeof(m.exe));
	return send_hello(connection.fd, &m, generation);
}

/* ---- connecting ---- */

/* Nobody but root and our own user may switch what we do. */
static bool is_trusted(long fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	uid_t own;

	if (sys_failed(sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&len, 0)))
		return false;
	own = (uid_t)sys0(SYS_geteuid);
	return !peer.uid || (!secure && peer.uid == own && self_is_somebody(own));
}

/* Of the kernel's own names, which are no files, each byte counts. */
static size_t nameless_size(const struct sockaddr_un *a)
{
	return offsetof(struct sockaddr_un, sun_path) + 1 + strnlen(a->sun_path + 1, sizeof(a->sun_path) - 1);
}

static long connect_to(const struct sockaddr_un *a)
{
	/* Only a queue of connections that is full makes connect() wait. */
	struct {
		long sec, usec;
	} patience = { 0, 500 };
	long fd = sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (sys_failed(fd))
		return fd;
	sys6(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (long)&patience, sizeof(patience), 0);
	r = sys3(SYS_connect, fd, a, a->sun_path[0] ? sizeof(*a) : nameless_size(a));
	if (!sys_failed(r) && !is_trusted(fd)) {
		if (a->sun_path[0]) /* a name without a file anybody may have */
			say_hello_to_stranger(fd);
		r = -EPERM;
	}
	if (sys_failed(r)) {
		sys3(SYS_close, fd, 0, 0);
		return r;
	}
	return fd;
}

static bool is_nobody(long r)
{
	return r == -ECONNREFUSED || r == -ENOENT || r == -EPIPE || r == -ECONNRESET;
}

/* Where we wait for the recorder that is to be at that place. */
static long connect_waiting(const struct sockaddr_un *a)
{
	struct sockaddr_un there = *a;
	size_t n = strlen(a->sun_path);

	if (n + sizeof(SPOOR_CONTROL_WAITING) > sizeof(there.sun_path))
		return -ENAMETOOLONG;
	strcpy(there.sun_path + n, SPOOR_CONTROL_WAITING);
	return connect_to(&there);
}

/*
 * After chroot() the path leads elsewhere. A recorder of root's has the same name without a file, too. It is asked by
 * those alone who have found one by the path before: in a container that is not to be recorded nobody has.
 */
static long connect_beyond_root(const struct sockaddr_un *a)
{
	struct sockaddr_un there = { .sun_family = AF_UNIX };

	memcpy(there.sun_path + 1, a->sun_path, sizeof(there.sun_path) - 1); /* no path is as long */
	return connect_to(&there);
}

static int keep_and_greet(long fd, bool waits, unsigned flags, unsigned n_arenas, __u32 generation)
{
	int r = sys_failed(fd) ? (int)fd : keep(fd);

	if (r < 0)
		return r;
	connection.waits = waits;
	r = say_hello(flags, n_arenas, generation);
	if (r < 0)
		connection_close();
	return r < 0 ? r : connection.fd;
}

bool connection_board(unsigned place, struct board *ret)
{
	if (place >= n_places)
		return false;
	board_open(places[place].sun_path, secure, self_start_time(), ret);
	if (ret->fd >= 0) {
		passing = ret->passing;
		meet(place);
	}
	return true;
}

bool connection_reaches(unsigned place)
{
	long fd = connect_to(&places[place]);

	if (sys_failed(fd))
		return fd == -EAGAIN;
	sys3(SYS_close, fd, 0, 0);
	return true;
}

bool connection_was_refused(int error)
{
	return error == -EPIPE || error == -ECONNRESET;
}

int connection_begin(unsigned place, const struct board *board, unsigned flags)
{
	__u32 generation = board->fd >= 0 ? board->generation : 0;
	int r = keep_and_greet(connect_to(&places[place]), false, flags, 0, generation), waiting;

	if (r >= 0)
		meet(place);
	if (!(board->n_wanted || board->closed) || !is_nobody(r))
		return r;
	waiting = keep_and_greet(connect_waiting(&places[place]), true, flags, 0, generation);
	return waiting < 0 && connection_was_refused(r) ? r : waiting;
}

bool connection_waits(void)
{
	return connection.waits;
}

static int open_place(unsigned place, unsigned flags, unsigned n_arenas)
{
	const struct sockaddr_un *a = &places[place];
	int r = keep_and_greet(connect_to(a), false, flags, n_arenas, 0);

	if (r >= 0)
		meet(place);
	if (n_arenas && is_nobody(r))
		r = keep_and_greet(connect_waiting(a), true, flags, n_arenas, 0);
	if (r < 0 && met >> place & 1)
		r = keep_and_greet(connect_beyond_root(a), false, flags, n_arenas, 0);
	return r;
}

int connection_open(unsigned flags, unsigned n_arenas)
{
	unsigned i;
	int r = -ENOENT;

	if (connection_fd() >= 0)
		return connection_fd();
	connection_close();
	for (i = 0; i < n_places && r < 0; i++)
		r = open_place(i, flags, n_arenas);
	return r;
}

static bool is_same(const struct directory *a, const struct directory *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

static bool has_state(unsigned place)
{
	char path[sizeof(places->sun_path) + sizeof(SPOOR_CONTROL_STATE)];
	struct stat st;

	strcpy(path, places[place].sun_path);
	strcat(path, SPOOR_CONTROL_STATE);
	return sys3(SYS_stat, path, &st, 0) != -ENOENT;
}

static bool is_somebody(long fd)
{
	if (!sys_failed(fd))
		sys3(SYS_close, fd, 0, 0);
	return !is_nobody(fd);
}

/*
 * The recorder of one command has no state; if it is killed, what is left of it removes its directory. Who sees another
 * one in its place, after chroot(), say, cannot tell that from a recorder that is to come; of one command none is.
 */
static bool has_sessions(unsigned place, bool told)
{
	struct met_at now = {};
	long r = find_directories(place, &now);

	if (!r && is_same(&now.own, &met_at[place].own))
		return has_state(place) || is_somebody(connect_to(&places[place]));
	if ((passing && told) || (r == -ENOENT && is_same(&now.above, &met_at[place].above)))
		return is_somebody(connect_beyond_root(&places[place]));
	return true; /* or nobody knows */
}

bool connection_is_over(bool called)
{
	unsigned i;

	for (i = 0; i < n_places; i++)
		if (met >> i & 1 && has_sessions(i, called || connection.ended))
			return false;
	return met;
}

/* ---- messages ---- */

int connection_send(struct spoor_control_head *m, unsigned type, unsigned size, __u32 serial, int fd)
{
	return send_to(connection.fd, m, type, size, serial, fd);
}

/* The first descriptor of a message; others are closed. */
static int take_fd(struct msghdr *msg)
{
	struct cmsghdr *c;
	int fd = -1;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t i, n = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < n; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
			if (fd < 0)
				fd = one;
			else
				sys3(SYS_close, one, 0, 0);
		}
	}
	return fd;
}

int connection_receive(void *buf, int *ret_fd)
{
	const struct spoor_control_head *m = buf;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { buf, SPOOR_CONTROL_MAX_SIZE };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	long n = sys3(SYS_recvmsg, connection.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd;

	*ret_fd = -1;
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	connection.ended = !n || n == -ECONNRESET;
	if (sys_failed(n))
		return (int)n;
	fd = take_fd(&msg);
	if ((size_t)n >= sizeof(*m) && m->magic == SPOOR_CONTROL_MAGIC && m->size == n &&
	    !(msg.msg_flags & MSG_TRUNC)) {
		*ret_fd = fd;
		return (int)n;
	}
	if (fd >= 0)
		sys3(SYS_close, fd, 0, 0);
	return n ? -EBADMSG : -EPIPE;
}

bool connection_wait(int ms)
{
	struct pollfd p = { .fd = connection.fd, .events = POLLIN };

	return sys3(SYS_poll, &p, 1, ms) == 1;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"

#define MOST 20000
#define LINGER_MS 1000       /* with nothing to hold and nobody there */
#define ABANDONED_MS 3600000 /* nobody came for what is held */
#define PATIENCE_S 2

enum word { KEEP = 1, DROP, GET, HERE, END };

struct message {
	uint32_t word; /* enum word */
	uint32_t zero;
	struct spoor_kept kept;
};

/* ---- messages ---- */

static int send_one(int to, uint32_t word, const struct spoor_kept *k, int fd)
{
	struct message m = { .word = word };

	if (k)
		m.kept = *k;
	return spoor_fds_send(to, &m, sizeof(m), &fd, fd >= 0, 0);
}

static int receive(int from, struct message *m, int *ret_fd)
{
	ssize_t n = spoor_fds_receive(from, m, sizeof(*m), ret_fd, 1, NULL, 0);

	if (n < 0)
		return (int)n;
	return n == sizeof(*m) ? 0 : -EPIPE;
}

/* ---- the keeper's process ---- */

struct held {
	struct spoor_kept kept;
	int fd;
};

struct keeper {
	struct held *all;
	size_t n, room;
};

static void drop(struct keeper *k, const uint8_t *uuid)
{
	for (size_t i = 0; i < k->n; i++) {
		if (memcmp(k->all[i].kept.uuid, uuid, 16))
			continue;
		close(k->all[i].fd);
		k->all[i] = k->all[--k->n];
		return;
	}
}

static void keep(struct keeper *k, const struct spoor_kept *kept, int fd)
{
	drop(k, kept->uuid);
	if (k->n == k->room && k->room < MOST) {
		size_t room = k->room ? k->room * 2 : 64;
		void *grown = reallocarray(k->all, room, sizeof(*k->all));

		k->all = grown ? grown : k->all;
		k->room = grown ? room : k->room;
	}
	if (k->n < k->room)
		k->all[k->n++] = (struct held){ *kept, fd };
	else
		close(fd);
}

/* 0, or the daemon is gone. */
static int serve(struct keeper *k, int daemon)
{
	struct message m;
	int fd, r = receive(daemon, &m, &fd);

	if (r)
		return r;
	if (m.word == KEEP && fd >= 0)
		keep(k, &m.kept, fd);
	else if (fd >= 0)
		close(fd);
	if (m.word == DROP)
		drop(k, m.kept.uuid);
	for (size_t i = 0; m.word == GET && !r && i < k->n; i++)
		r = send_one(daemon, HERE, &k->all[i].kept, k->all[i].fd);
	if (m.word == GET && !r)
		r = send_one(daemon, END, NULL, -1);
	return r;
}

static void live(int listener)
{
	struct keeper k = {};
	int daemon = -1;

	for (;;) {
		struct pollfd p[] = { { .fd = listener, .events = POLLIN }, { .fd = daemon, .events = POLLIN } };
		int n = poll(p, 2, daemon >= 0 ? -1 : k.n ? ABANDONED_MS : LINGER_MS);

		if (!n)
			return;
		if (daemon >= 0 && p[1].revents && serve(&k, daemon)) {
			close(daemon);
			daemon = -1;
		}
		if (daemon < 0 && p[0].revents)
			daemon = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
}

static void be_keeper(int listener, const char *path)
{
	sigset_t none;

	setsid();
	prctl(PR_SET_NAME, "trace-keeper"); /* pkill(1) of Spoor is not to take it as well */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(listener, 3);
	listen(3, 4); /* who asks whom he talks to is told us, not our parent */
	close_range(4, ~0U, 0);
	if (chdir("/"))
		_exit(1);
	close(0);
	close(1);
	close(2); /* who waits for the end of the daemon's output does not wait for us */
	live(3);
	unlink(path);
	_exit(0);
}

/* ---- the daemon's side ---- */

static int address_of(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

static int connect_to(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = PATIENCE_S };

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return -errno;
	return TAKE_FD(fd);
}

static int start(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t pid;

	unlink(a->sun_path); /* nobody listens there */
	if (fd < 0 || bind(fd, (const struct sockaddr *)a, sizeof(*a)) || chmod(a->sun_path, 0600) || listen(fd, 4))
		return -errno;
	pid = fork();
	if (!pid) {
		if (!fork()) /* nobody's child, so that nobody finds a zombie */
			be_keeper(fd, a->sun_path);
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	waitpid(pid, NULL, 0);
	return connect_to(a);
}

int spoor_keeper_open(const char *path)
{
	struct sockaddr_un a;
	int fd = address_of(path, &a);

	if (fd)
		return fd;
	fd = connect_to(&a);
	return fd >= 0 ? fd : start(&a);
}

void spoor_keeper_keep(int keeper, const struct spoor_kept *k, int fd)
{
	if (keeper >= 0)
		send_one(keeper, KEEP, k, fd);
}

void spoor_keeper_drop(int keeper, const uint8_t uuid[16])
{
	struct spoor_kept k = {};

	memcpy(k.uuid, uuid, sizeof(k.uuid));
	if (keeper >= 0)
		send_one(keeper, DROP, &k, -1);
}

int spoor_keeper_get(int keeper, void (*each)(void *ctx, const struct spoor_kept *k, int fd), void *ctx)
{
	struct message m;
	int fd, r = send_one(keeper, GET, NULL, -1);

	while (!r) {
		r = receive(keeper, &m, &fd);
		if (r || m.word == END)
			break;
		if (m.word == HERE && fd >= 0)
			each(ctx, &m.kept, fd);
		else if (fd >= 0)
			close(fd);
	}
	return r;
}

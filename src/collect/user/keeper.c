/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#include "collect/user/keeper_internal.h"

#define LINGER_MS 1000       /* with nothing to hold and nobody there */
#define ABANDONED_MS 3600000 /* nobody came for what is held */
#define PATIENCE_S 2

/* ---- the keeper's process ---- */

static void live(int listener)
{
	struct keeper k = {};
	int daemon = -1;

	for (;;) {
		struct pollfd p[] = { { .fd = listener, .events = POLLIN }, { .fd = daemon, .events = POLLIN } };
		int n = poll(p, 2, daemon >= 0 ? -1 : k.n ? ABANDONED_MS : LINGER_MS);

		if (!n)
			break;
		if (daemon >= 0 && p[1].revents && keeper_serve(&k, daemon)) {
			close(daemon);
			daemon = -1;
		}
		if (daemon < 0 && p[0].revents)
			daemon = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
	keeper_let_go(&k);
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
		keeper_send(keeper, KEEPER_KEEP, k, fd);
}

void spoor_keeper_drop(int keeper, const uint8_t uuid[16])
{
	struct spoor_kept k = {};

	memcpy(k.uuid, uuid, sizeof(k.uuid));
	if (keeper >= 0)
		keeper_send(keeper, KEEPER_DROP, &k, -1);
}

int spoor_keeper_get(int keeper, void (*each)(void *ctx, const struct spoor_kept *k, int fd), void *ctx)
{
	struct keeper_message m = {};
	int fd, r = keeper_send(keeper, KEEPER_GET, NULL, -1);

	for (int i = 0; !r && m.word != KEEPER_END && i <= KEEPER_MOST; i++) {
		r = keeper_receive(keeper, &m, &fd);
		if (!r && m.word == KEEPER_HERE && fd >= 0)
			each(ctx, &m.kept, fd);
		else if (!r && fd >= 0)
			close(fd);
	}
	return r;
}

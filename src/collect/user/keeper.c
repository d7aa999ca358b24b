/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
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
#include "base/signals.h"
#include "base/time.h"
#include "collect/user/keeper_internal.h"

#define LINGER_MS 1000       /* with nothing to hold and nobody there */
#define ABANDONED_MS 3600000 /* nobody came for what is held */
#define PATIENCE_S 2
#define FREE_MS 10000 /* a machine may be so busy that the keeper gets to nothing for seconds */
#define STEP_MS 200
#define MOST_ANSWERS 1000000

/* ---- the keeper's process ---- */

/* How long to wait for a daemon yet. */
static int patience(const struct keeper *k, uint64_t alone)
{
	uint64_t ms = (spoor_now_monotonic() - alone) / 1000000, most;

	most = k->n || k->n_waiters || k->listener >= 0 ? ABANDONED_MS : LINGER_MS;
	return ms < most ? most - ms : 0;
}

static void wait_for_daemon(struct keeper *k, int listener, int *ret_daemon)
{
	static struct pollfd p[1 + WAITING_POLLED];
	uint64_t alone = spoor_now_monotonic();

	for (;;) {
		unsigned n = keeper_wait_for(k, p + 1);
		int ms = patience(k, alone);

		p[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
		if (!ms || poll(p, 1 + n, ms) < 0)
			return;
		if (p[0].revents)
			*ret_daemon = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (*ret_daemon >= 0)
			return;
		keeper_wait_done(k, p + 1);
	}
}

/* What programs say while a daemon is there is that one's business. */
static void live(int listener)
{
	struct keeper k;

	keeper_begin(&k);
	for (;;) {
		_cleanup_(spoor_closep) int daemon = -1;

		wait_for_daemon(&k, listener, &daemon);
		if (daemon < 0)
			break;
		while (!keeper_serve(&k, daemon))
			;
		keeper_daemon_left(&k);
	}
	keeper_let_go(&k);
}

static void be_keeper(int listener, const char *path, const struct spoor_socket_file *file)
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
	spoor_socket_file_remove(file, path);
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

/* Where others may make files anybody can listen: he would be given our sockets, and believed what programs left. */
static bool is_strangers(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || (peer.uid != geteuid() && peer.uid);
}

/* *ret_strange: another user listens there; then it is -ECONNREFUSED. */
static int connect_to(const struct sockaddr_un *a, bool *ret_strange)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = PATIENCE_S };

	*ret_strange = false;
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return -errno;
	*ret_strange = is_strangers(fd);
	return *ret_strange ? -ECONNREFUSED : TAKE_FD(fd);
}

static int start(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct spoor_socket_file file;
	bool strange;
	pid_t pid;

	if (fd < 0)
		return -errno;
	unlink(a->sun_path); /* nobody of ours listens there */
	if (bind(fd, (const struct sockaddr *)a, sizeof(*a)) || chmod(a->sun_path, 0600) || listen(fd, 4))
		return -errno;
	spoor_socket_file_note(&file, a->sun_path);
	pid = fork();
	if (!pid) {
		if (!fork()) /* nobody's child, so that nobody finds a zombie */
			be_keeper(fd, a->sun_path, &file);
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	waitpid(pid, NULL, 0);
	close(TAKE_FD(fd)); /* there may be no descriptor left but this */
	return connect_to(a, &strange);
}

int spoor_keeper_open(const char *path, bool *ret_begun, bool *ret_strange)
{
	struct sockaddr_un a;
	int fd = address_of(path, &a);

	*ret_begun = *ret_strange = false;
	if (!fd)
		fd = connect_to(&a, ret_strange);
	if (fd != -ENOENT && fd != -ECONNREFUSED)
		return fd; /* one may live there, with what it holds */
	*ret_begun = true;
	return start(&a);
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

int spoor_keeper_is_free(const char *path)
{
	struct pollfd p = { .events = POLLIN };
	struct keeper_message m = {};
	struct sockaddr_un a;
	_cleanup_(spoor_closep) int fd = -1, none = -1;
	bool strange;
	int r = address_of(path, &a);

	if (r)
		return r;
	p.fd = fd = connect_to(&a, &strange);
	r = fd < 0 ? fd : keeper_send(fd, KEEPER_ASK, NULL, -1);
	for (int ms = 0; !r && poll(&p, 1, STEP_MS) < 1; ms += STEP_MS)
		if (ms >= FREE_MS || spoor_signals_told_to_end())
			r = -EAGAIN;
	if (!r)
		r = keeper_receive(fd, &m, &none);
	return !r && m.word != KEEPER_END ? -EPIPE : r;
}

void spoor_keeper_met(int keeper, uint32_t id, int fd)
{
	if (keeper >= 0)
		keeper_send_number(keeper, KEEPER_MET, id, fd);
}

void spoor_keeper_heard(int keeper, uint32_t id)
{
	if (keeper >= 0)
		keeper_send_number(keeper, KEEPER_HEARD, id, -1);
}

int spoor_keeper_ask_in(int keeper, enum spoor_keeper_socket to, uint32_t id)
{
	struct keeper_message m = { .word = KEEPER_ACCEPT, .number = id, .kept.session = to };

	return keeper_send_message(keeper, &m, -1);
}

int spoor_keeper_let_in(int keeper, int ms)
{
	struct pollfd p = { .fd = keeper, .events = POLLIN };
	struct keeper_message m;
	int fd = -1, r;

	if (poll(&p, 1, ms) < 1)
		return -EAGAIN;
	do {
		r = keeper_receive(keeper, &m, &fd);
	} while (r == -ECONNRESET); /* it has ended, and what it sent before comes then */
	if (!r && m.word == KEEPER_LET_IN)
		return fd >= 0 ? fd : -ENOENT;
	if (!r && fd >= 0)
		close(fd);
	if (!r && m.word == KEEPER_HAS_HIM)
		return -EMFILE;
	return r == -EMFILE ? r : -EPIPE;
}

void spoor_keeper_own(int keeper, int fd)
{
	if (keeper >= 0)
		keeper_send(keeper, KEEPER_OWN, NULL, fd);
}

void spoor_keeper_own_too(int keeper, int fd)
{
	if (keeper >= 0 && fd >= 0)
		keeper_send(keeper, KEEPER_OWN_TOO, NULL, fd);
}

void spoor_keeper_listen(int keeper, int fd)
{
	if (keeper >= 0)
		keeper_send(keeper, fd >= 0 ? KEEPER_LISTEN : KEEPER_HUSH, NULL, fd);
}

void spoor_keeper_taken(int keeper)
{
	if (keeper >= 0)
		keeper_send(keeper, KEEPER_TAKEN, NULL, -1);
}

/* One message of the answer. 0: the last one. */
static int take(const struct spoor_keeper_taker *t, const struct keeper_message *m, int *fd)
{
	if (m->word == KEEPER_HERE && *fd >= 0)
		t->kept(t->ctx, &m->kept, TAKE_FD(*fd));
	else if (m->word == KEEPER_CAME && *fd >= 0)
		t->came(t->ctx, TAKE_FD(*fd), m->number);
	else if (m->word == KEEPER_SAID)
		t->said(t->ctx, m->said, m->number, TAKE_FD(*fd));
	else if (m->word == KEEPER_END)
		t->end(t->ctx, m->number, TAKE_FD(*fd), m->kept.session >= KEEPER_ACCEPTS);
	return m->word != KEEPER_END;
}

void spoor_keeper_is_slow(int keeper, bool slow)
{
	int flags = fcntl(keeper, F_GETFL);

	fcntl(keeper, F_SETFL, slow ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

int spoor_keeper_get(int keeper)
{
	return keeper_send(keeper, KEEPER_GET, NULL, -1);
}

int spoor_keeper_hear(int keeper, int ms, const struct spoor_keeper_taker *t)
{
	struct pollfd p = { .fd = keeper, .events = POLLIN };

	for (int i = 0; i < MOST_ANSWERS; i++) {
		_cleanup_(spoor_closep) int fd = -1;
		struct keeper_message m = {};
		int r;

		if (poll(&p, 1, ms) < 1)
			return -EAGAIN;
		r = keeper_receive(keeper, &m, &fd);
		if (r == -EMFILE) /* what there is no descriptor for is lost; and it may have been a program's coming */
			t->came(t->ctx, -1, false);
		if ((!r || (r == -EMFILE && m.word == KEEPER_END)) && !take(t, &m, &fd))
			return 0;
		if (r && r != -EMFILE && r != -ECONNRESET) /* behind its end comes what it sent before */
			return r;
	}
	return -EPIPE;
}

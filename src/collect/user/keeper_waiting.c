/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that come while no daemon is there. What they say is kept as it is, with the connection, for the daemon that
 * comes next; nothing of it is understood here, and they get no answer. Who finds no room is turned away, and counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/time.h"
#include "collect/user/beyond_root.h"
#include "collect/user/keeper_internal.h"

#define OTHERS_MOST (WAITING_MOST / 4) /* of a user who is not ours */
#define MOST_BYTES (512ULL << 20)      /* in what they sent: their buffers */
#define MOST_MESSAGES 64
#define MOST_FDS 16 /* of one: his buffers for each session */
#define LOOK_EVERY 16 /* who comes: how much it is by now; */
#define LOOK_NS 10000000ULL /* sooner, where they have had time to write much */
#define AT_A_TIME 64
#define SPARE_FDS 64

/* ---- room ---- */

static uint64_t bytes_of(const struct keeper_waiter *w)
{
	uint64_t sum = 0;
	struct stat st;

	for (unsigned i = 0; i < w->n; i++)
		if (w->said[i].fd >= 0 && !fstat(w->said[i].fd, &st))
			sum += st.st_blocks * 512ULL;
	return sum;
}

static bool has_fds(const struct keeper *k)
{
	struct rlimit l = {};

	return !getrlimit(RLIMIT_NOFILE, &l) && k->n + k->fds + SPARE_FDS < l.rlim_cur;
}

static bool may_have_one_more(const struct keeper *k, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n_waiters && uid && uid != geteuid(); i++)
		n += k->waiters[i].uid == uid;
	return n < OTHERS_MOST;
}

static bool has_room(struct keeper *k, uid_t uid)
{
	uint64_t now = spoor_now_monotonic();

	if (k->n_waiters % LOOK_EVERY == 0 || now - k->looked >= LOOK_NS) {
		k->looked = now;
		k->bytes = 0;
		for (size_t i = 0; i < k->n_waiters; i++)
			k->bytes += bytes_of(&k->waiters[i]);
	}
	return k->n_waiters < WAITING_MOST && k->bytes < MOST_BYTES && has_fds(k) && may_have_one_more(k, uid);
}

static struct keeper_waiter *add(struct keeper *k)
{
	if (k->n_waiters == k->waiters_room) {
		size_t room = k->waiters_room ? k->waiters_room * 2 : 64;
		void *grown = reallocarray(k->waiters, room, sizeof(*k->waiters));

		if (!grown)
			return NULL;
		k->waiters = grown;
		k->waiters_room = room;
	}
	return &k->waiters[k->n_waiters];
}

/* ---- coming, and speaking ---- */

static ino_t socket_of(int fd)
{
	struct stat st = {};

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static void wait_here(struct keeper *k, int fd, bool met)
{
	struct ucred who = {};
	socklen_t len = sizeof(who);
	bool known = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
	struct keeper_waiter *w = known && has_room(k, who.uid) ? add(k) : NULL;

	if (!w) {
		k->turned_away += spoor_turned_away_counts(&k->away, fd, who.pid);
		spoor_fds_hang_up(fd);
		return;
	}
	*w = (struct keeper_waiter){ .fd = fd, .socket = socket_of(fd), .uid = who.uid, .met = met };
	k->n_waiters++;
	k->fds++;
}

/* false: nobody is there. */
static bool take_in(struct keeper *k, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && !spoor_beyond_root_lets_in(listener, fd))
		spoor_fds_hang_up(fd);
	else if (fd >= 0)
		wait_here(k, fd, false);
	return fd >= 0;
}

static int note(struct keeper *k, struct keeper_waiter *w, const char *bytes, size_t size, int fd)
{
	struct keeper_said *grown = reallocarray(w->said, w->n + 1, sizeof(*grown));
	char *copy = malloc(size);

	if (grown)
		w->said = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, bytes, size);
	w->said[w->n++] = (struct keeper_said){ fd, size, copy };
	w->n_fds += fd >= 0;
	k->fds += fd >= 0;
	return 0;
}

static void free_waiter(struct keeper *k, struct keeper_waiter *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		k->fds -= w->said[i].fd >= 0;
		if (w->said[i].fd >= 0)
			close(w->said[i].fd);
		free(w->said[i].bytes);
	}
	free(w->said);
	spoor_fds_hang_up(w->fd);
	k->fds--;
}

/* What there is no room for stays in its socket. false: it left, and had nothing to say. */
static bool hear(struct keeper *k, struct keeper_waiter *w)
{
	char bytes[SPOOR_KEEPER_SAID];

	while (!w->heard) {
		_cleanup_(spoor_fds_dropp) int fd = -1;
		ssize_t n;

		w->heard = w->n == MOST_MESSAGES || w->n_fds == MOST_FDS || !has_fds(k);
		if (w->heard)
			break;
		n = spoor_fds_receive_of(w->uid, w->fd, bytes, sizeof(bytes), &fd, MSG_DONTWAIT);
		if (n == -EAGAIN)
			break;
		if (fd >= 0 && !spoor_fds_is_memory(fd)) { /* no buffers; else nothing else of a stranger's is held */
			spoor_fds_drop(fd);
			fd = -1;
		}
		w->heard = n <= 0 || note(k, w, bytes, n, fd);
		k->turned_away += n > 0 && w->heard;
		if (w->heard && !w->n)
			return false;
		if (!w->heard)
			fd = -1;
	}
	return true;
}

unsigned keeper_wait_for(const struct keeper *k, struct pollfd *p)
{
	p[0] = (struct pollfd){ .fd = k->listener, .events = POLLIN };
	for (size_t i = 0; i < k->n_waiters; i++) {
		const struct keeper_waiter *w = &k->waiters[i];

		p[1 + i] = (struct pollfd){ .fd = w->heard ? -1 : w->fd, .events = POLLIN };
	}
	return 1 + k->n_waiters;
}

void keeper_wait_done(struct keeper *k, const struct pollfd *p)
{
	for (size_t i = k->n_waiters; i-- > 0;) {
		if (!p[1 + i].revents || hear(k, &k->waiters[i]))
			continue;
		free_waiter(k, &k->waiters[i]);
		memmove(&k->waiters[i], &k->waiters[i + 1], (--k->n_waiters - i) * sizeof(*k->waiters));
	}
	for (int i = 0; i < AT_A_TIME && p[0].revents && take_in(k, k->listener); i++)
		;
}

/* ---- the daemon that was there ---- */

static bool has_room_for_met(struct keeper *k)
{
	struct keeper_met *grown = reallocarray(k->met, k->n_met + 1, sizeof(*grown));

	k->met = grown ? grown : k->met;
	return grown;
}

void keeper_meet(struct keeper *k, uint32_t id, int fd)
{
	if (has_room_for_met(k))
		k->met[k->n_met++] = (struct keeper_met){ id, fd };
	else
		spoor_fds_hang_up(fd);
}

int keeper_let_in(struct keeper *k, int listener, uint32_t id)
{
	int fd;

	for (size_t i = 0; i < k->n_met; i++)
		if (k->met[i].id == id)
			return k->met[i].fd;
	if (!has_room_for_met(k))
		return -ENOMEM;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (!spoor_beyond_root_lets_in(listener, fd)) { /* or he would wait here, if the daemon went before it looked */
		spoor_fds_hang_up(fd);
		return -EAGAIN;
	}
	k->met[k->n_met++] = (struct keeper_met){ id, fd };
	return fd;
}

void keeper_heard(struct keeper *k, uint32_t id)
{
	for (size_t i = 0; i < k->n_met; i++) {
		if (k->met[i].id != id)
			continue;
		spoor_fds_hang_up(k->met[i].fd);
		k->met[i] = k->met[--k->n_met];
		return;
	}
}

static struct keeper_waiter *waiter_of(struct keeper *k, int fd)
{
	ino_t socket = socket_of(fd);

	for (size_t i = 0; i < k->n_waiters; i++)
		if (k->waiters[i].socket == socket)
			return &k->waiters[i];
	return NULL;
}

/* Of those who waited it has told us, and may have heard something, and not that it has taken them over. */
static void wait_on(struct keeper *k, int fd)
{
	struct keeper_waiter *w = waiter_of(k, fd);

	if (!w) {
		wait_here(k, fd, true);
		return;
	}
	w->met = true;
	spoor_fds_hang_up(fd);
}

/* Whom it has let in, and not heard to the end, waits with what is in the socket. */
static void wait_again(struct keeper *k)
{
	for (size_t i = 0; i < k->n_met; i++)
		if (k->listener >= 0)
			wait_on(k, k->met[i].fd);
		else
			spoor_fds_hang_up(k->met[i].fd);
	free(k->met);
	k->met = NULL;
	k->n_met = 0;
}

/* Nobody connects to it from here on; who has, and the daemon did not get to him, waits if anybody does. */
static void close_own(struct keeper *k, int *own)
{
	int fd;

	if (*own < 0)
		return;
	shutdown(*own, SHUT_RD);
	while (k->listener >= 0 && take_in(k, *own))
		;
	while ((fd = accept4(*own, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		spoor_fds_hang_up(fd);
	if (errno == EAGAIN || errno == EINVAL)
		close(*own); /* nobody is in it: the next daemon is to have its name at once */
	else
		spoor_fds_hush(*own);
	*own = -1;
}

void keeper_daemon_left(struct keeper *k)
{
	wait_again(k);
	close_own(k, &k->own[0]);
	close_own(k, &k->own[1]);
}

/* ---- the daemon that comes ---- */

int keeper_tell_waiters(const struct keeper *k, int daemon)
{
	int r = 0;

	for (size_t i = 0; i < k->n_waiters && !r; i++) {
		const struct keeper_waiter *w = &k->waiters[i];

		r = keeper_send_number(daemon, KEEPER_CAME, w->met, w->fd);
		for (unsigned m = 0; m < w->n && !r; m++)
			r = keeper_send_said(daemon, &w->said[m]);
	}
	return r;
}

void keeper_waiters_taken(struct keeper *k)
{
	for (size_t i = 0; i < k->n_waiters; i++)
		free_waiter(k, &k->waiters[i]);
	free(k->waiters);
	spoor_turned_away_forget(&k->away);
	k->waiters = NULL;
	k->n_waiters = k->waiters_room = 0;
	k->turned_away = 0;
}

/* Where a socket is; "": nowhere that we could find. */
static void path_of(int sock, struct sockaddr_un *ret)
{
	socklen_t len = sizeof(*ret) - 1;

	*ret = (struct sockaddr_un){};
	if (getsockname(sock, (struct sockaddr *)ret, &len) || ret->sun_family != AF_UNIX || ret->sun_path[0] != '/')
		ret->sun_path[0] = '\0';
}

void keeper_listen(struct keeper *k, int listener)
{
	struct sockaddr_un a;

	keeper_hush(k);
	k->listener = listener;
	path_of(listener, &a);
	spoor_socket_file_note(&k->place, a.sun_path);
}

void keeper_hush(struct keeper *k)
{
	struct sockaddr_un a;

	if (k->listener < 0)
		return;
	path_of(k->listener, &a);
	spoor_socket_file_remove(&k->place, a.sun_path);
	spoor_fds_hush(k->listener);
	k->listener = -1;
}

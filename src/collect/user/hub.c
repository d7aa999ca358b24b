/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hub's sockets and its rounds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"
#include "collect/user/network.h"

#define PERIOD_LEAST (2 * 1000000ULL)
#define PERIOD_NEW (5 * 1000000ULL)
#define CROWD 40
#define PERIOD_MOST (100 * 1000000ULL) /* pairs of clocks are taken as often */
#define BUSY 120                       /* per mille of an arena in one round: look sooner */
#define IDLE 30
#define MOST_EVENTS 64
#define MOST_TURNS 16
#define PATIENCE_MS 2000 /* with a relay, where something ends */

/* ---- epoll ---- */

int spoor_hub_watch(struct spoor_hub *h, struct hub_fd *f, int fd, void *owner, enum hub_kind kind)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = f };

	*f = (struct hub_fd){ .kind = kind, .fd = fd, .owner = owner };
	return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void spoor_hub_unwatch(struct spoor_hub *h, struct hub_fd *f)
{
	if (f->fd < 0)
		return;
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, f->fd, NULL);
	close(f->fd);
	f->fd = -1;
}

int spoor_hub_fd(const struct spoor_hub *h)
{
	return h->epoll_fd;
}

/* ---- one peer's messages ---- */

/* The descriptor that came with it; others, and those of no use, are closed. */
static int take_fd(struct msghdr *msg)
{
	int taken = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (taken < 0)
				taken = fd;
			else
				close(fd);
		}
	}
	return taken;
}

static int check(const struct spoor_control_head *m, ssize_t size, int flags)
{
	if ((size_t)size < sizeof(*m) || flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EBADMSG;
	if (m->magic != SPOOR_CONTROL_MAGIC || m->size != size)
		return -EBADMSG;
	return 0;
}

/* One. Returns 0: there is none; 1; or -errno: the connection is to be closed. */
static int receive(struct hub_program *p)
{
	_Alignas(8) char text[SPOOR_CONTROL_MAX_SIZE];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
	struct iovec iov = { text, sizeof(text) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	_cleanup_(spoor_closep) int fd = -1;
	ssize_t n = recvmsg(p->sock.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int r;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	fd = take_fd(&msg);
	if (!n)
		return -EPIPE;
	r = check((void *)text, n, msg.msg_flags);
	if (!r)
		r = spoor_program_message(p, text, n, fd);
	return r < 0 ? r : 1;
}

/* A few at a time, so that nobody who talks without end keeps the others waiting. */
static void serve_peer(struct hub_program *p)
{
	for (int i = 0; i < 16 && p->sock.fd >= 0; i++) {
		int r = receive(p);

		if (!r)
			return;
		if (r < 0)
			spoor_program_hung_up(p);
	}
}

void spoor_hub_flush(struct hub_program *p)
{
	while (p->sock.fd >= 0 && receive(p) > 0)
		;
}

void spoor_hub_warn(struct spoor_hub *h, const char *text)
{
	if (h->o.warn)
		h->o.warn(h->o.ctx, text);
}

static void bury(struct spoor_hub *h)
{
	for (struct hub_program *p = h->first, *next; p; p = next) {
		next = p->next;
		if (p->dead && !p->gone)
			spoor_program_free(p);
	}
}

/*
 * With many programs a round is one merged run, and each round with somebody new in it, who wrote before he was known,
 * ends another lane: so they must not follow each other too soon, or lanes run out for who comes late.
 */
static uint64_t least_period(const struct spoor_hub *h)
{
	return h->n_programs > CROWD ? PERIOD_MOST / 2 : PERIOD_LEAST;
}

/* A program writes faster than rounds come. */
static void packet_is_full(struct spoor_hub *h)
{
	uint64_t soon = h->last + least_period(h);

	spoor_waker_heard(h->waker);
	h->due = soon < h->due ? soon : h->due;
}

static int serve_once(struct spoor_hub *h)
{
	struct epoll_event events[MOST_EVENTS];
	int n = epoll_wait(h->epoll_fd, events, MOST_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct hub_fd *f = events[i].data.ptr;

		if (f->kind == HUB_LISTENER)
			spoor_program_accept(h);
		else if (f->kind == HUB_WAKER)
			packet_is_full(h);
		else if (f->kind == HUB_ROWS)
			spoor_hub_tell_rows(h);
		else if (f->kind == HUB_PEER)
			serve_peer(f->owner);
		else
			spoor_program_ended(f->owner);
	}
	bury(h);
	return n;
}

/* Who came, what he says, and whether he is gone already, are three turns; talkers without end get some more. */
void spoor_hub_serve(struct spoor_hub *h)
{
	for (int i = 0; i < MOST_TURNS && serve_once(h) > 0; i++)
		;
}

/* ---- rounds ---- */

size_t spoor_hub_sources(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_source ***ret)
{
	size_t n = 0;

	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = spoor_program_member(p, s);

		n += m ? m->n_arenas : 0;
	}
	n += s->n_retired;
	*ret = calloc(n ? n : 1, sizeof(**ret));
	if (!*ret)
		return 0;
	for (n = 0; n < s->n_retired; n++)
		(*ret)[n] = s->retired[n].source;
	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = spoor_program_member(p, s);

		for (size_t i = 0; m && i < m->n_arenas; i++)
			(*ret)[n++] = m->arenas[i];
	}
	return n;
}

static uint64_t bytes_of_gone(const struct spoor_hub *h, const struct spoor_ust_session *s)
{
	uint64_t sum = 0;

	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = p->gone ? spoor_program_member(p, s) : NULL;

		for (size_t i = 0; m && i < m->n_arenas; i++)
			sum += m->arenas[i]->arena->size;
	}
	return sum;
}

static int drain(struct spoor_hub *h, struct spoor_ust_session *s, bool flight)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	struct spoor_error e = { "" };
	size_t n;
	int share, r = 0;

	if (s->flight && !flight)
		return 0;
	n = spoor_hub_sources(h, s, &sources);
	if (!flight && !spoor_ust_session_ready(s, sources, n, bytes_of_gone(h, s)))
		return 0;
	share = spoor_ust_session_drain(s, sources, n, &e);
	if (share >= 0 && !s->o.writer && spoor_writer_should_rotate(s->w, spoor_now_monotonic()))
		r = spoor_ust_session_rotate(s, sources, n, &e);
	if (share < 0 || r < 0)
		spoor_ust_session_fails(s, e.text);
	return share;
}

void spoor_hub_drain(struct spoor_hub *h, struct spoor_ust_session *s)
{
	drain(h, s, false);
}

void spoor_hub_hurry(struct spoor_hub *h)
{
	if (h->n_programs > CROWD)
		return;
	h->period = PERIOD_NEW;
	h->due = 0;
}

/* Often enough that no arena fills, and not oftener. */
static void adapt(struct spoor_hub *h, int most)
{
	uint64_t least = least_period(h);

	if (most > BUSY || h->period < least)
		h->period = h->period / 2 > least ? h->period / 2 : least;
	else if (most < IDLE)
		h->period = h->period * 5 / 4 < PERIOD_MOST ? h->period * 5 / 4 : PERIOD_MOST;
}

static void say_trouble(struct spoor_hub *h, struct spoor_ust_session *s)
{
	char text[640];

	if (spoor_network_trouble(s, text, sizeof(text)))
		spoor_hub_warn(h, text);
}

int spoor_hub_tick(struct spoor_hub *h)
{
	uint64_t now = spoor_now_monotonic();
	int most = 0;

	if (now < h->due)
		return (h->due - now) / 1000000 + 1;
	for (struct hub_program *p = h->first; p; p = p->next) {
		spoor_program_look(p, now);
		spoor_program_ask_rows(p);
	}
	spoor_orphans_look(h);
	for (struct spoor_ust_session *s = h->sessions; s; s = s->next) {
		int share = drain(h, s, false);

		most = share > most ? share : most;
		say_trouble(h, s);
	}
	for (struct hub_program *p = h->first; p; p = p->next)
		if (p->gone && spoor_program_is_taken(p))
			spoor_program_finish(p);
	adapt(h, most);
	spoor_requests_tick(h, now);
	bury(h);
	h->last = now;
	h->due = now + h->period;
	now = spoor_now_monotonic();
	return h->due > now ? (h->due - now) / 1000000 + 1 : 0;
}

/* ---- sessions ---- */

void spoor_hub_add(struct spoor_hub *h, struct spoor_ust_session *s)
{
	struct spoor_ust_session **at = &h->sessions;

	while (*at)
		at = &(*at)->next;
	s->next = NULL;
	while (!s->id)
		s->id = ++h->next_session;
	if (s->id > h->next_session)
		h->next_session = s->id;
	*at = s;
}

struct spoor_ust_session *spoor_hub_find(struct spoor_hub *h, const char *name)
{
	struct spoor_ust_session *s = h->sessions;

	while (s && strcmp(s->name, name))
		s = s->next;
	return s;
}

struct spoor_ust_session *spoor_hub_next(struct spoor_hub *h, struct spoor_ust_session *s)
{
	return s ? s->next : h->sessions;
}

static void unlink_session(struct spoor_hub *h, struct spoor_ust_session *s)
{
	struct spoor_ust_session **at = &h->sessions;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
}

void spoor_hub_segment(struct spoor_hub *h, struct spoor_ust_session *s)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	size_t n = spoor_hub_sources(h, s, &sources);

	spoor_ust_session_segment(s, sources, n);
}

int spoor_hub_snapshot(struct spoor_hub *h, struct spoor_ust_session *s, const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = NULL;
	size_t n = spoor_hub_sources(h, s, &sources);

	return spoor_ust_session_snapshot(s, sources, n, path, e);
}

int spoor_hub_end(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_result *ret, struct spoor_error *e)
{
	struct spoor_taker_counts counts;

	spoor_ust_session_settle(s, PATIENCE_MS);
	drain(h, s, true);
	spoor_ust_session_settle(s, PATIENCE_MS);
	for (struct hub_program *p = h->first; p; p = p->next)
		spoor_program_leave(p, s);
	spoor_hub_retired_finish(h, s);
	spoor_taker_counts(s->taker, &counts);
	if (ret) {
		*ret = (struct spoor_hub_result){
			.events = counts.events,
			.lost = s->lost + counts.late + (s->o.writer ? 0 : spoor_writer_lost(s->w)),
			.malformed = s->malformed,
			.bytes = spoor_writer_bytes(s->w),
			.programs = s->n_programs,
			.crashed = s->n_crashed,
			.damaged = s->n_damaged,
			.stuck = s->n_stuck,
			.resumed = s->o.resume,
		};
		memcpy(ret->why, s->why, sizeof(ret->why));
	}
	unlink_session(h, s);
	return spoor_ust_session_close(s, e);
}

int spoor_hub_suspend(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_error *e)
{
	drain(h, s, false);
	spoor_ust_session_settle(s, PATIENCE_MS);
	for (struct hub_program *p = h->first; p; p = p->next)
		spoor_program_forget(p, s);
	spoor_hub_retired_forget(s);
	unlink_session(h, s);
	return spoor_ust_session_close(s, e);
}

/* ---- opening, closing ---- */

static int address_of(const char *path, struct sockaddr_un *ret, struct spoor_error *e)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return spoor_fail(e, ENAMETOOLONG, "%s: too long for a socket's name: at most %zu characters", path,
				  sizeof(ret->sun_path) - 1);
	strcpy(ret->sun_path, path);
	return 0;
}

/* Whoever left it there is gone: it can be replaced. */
static bool is_abandoned(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED;
}

static int listen_at(const char *path, bool everybody, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	mode_t mask;
	int r = address_of(path, &a, e);

	if (r)
		return r;
	if (fd < 0)
		return spoor_fail(e, errno, "cannot make a socket: %s", strerror(errno));
	if (is_abandoned(&a))
		unlink(path);
	mask = umask(everybody ? 0111 : 0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
	umask(mask);
	if (r == -EADDRINUSE)
		return spoor_fail(e, EADDRINUSE, "%s: another recorder uses it", path);
	if (r || listen(fd, 1024))
		return spoor_fail(e, r ? -r : errno, "%s: cannot listen there: %s", path, strerror(r ? -r : errno));
	return TAKE_FD(fd);
}

/* No program takes our sessions for those of a recorder before us. */
static uint32_t first_session(void)
{
	uint32_t n = 0;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = (uint32_t)spoor_now_realtime();
	return n >> 2;
}

int spoor_hub_open(const struct spoor_hub_options *o, struct spoor_hub **ret, struct spoor_error *e)
{
	struct spoor_hub *h = calloc(1, sizeof(*h));
	int fd;

	if (!h)
		return spoor_fail(e, ENOMEM, "out of memory");
	h->o = *o;
	h->period = PERIOD_MOST / 5;
	h->next_session = first_session();
	h->listener.fd = h->wakes.fd = h->rows_done.fd = h->keeper = -1;
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (spoor_waker_new(&h->waker) || spoor_hub_watch(h, &h->wakes, spoor_waker_fd(h->waker), h, HUB_WAKER)) {
		spoor_hub_close(h);
		return spoor_fail(e, ENOMEM, "out of memory or descriptors");
	}
	fd = h->epoll_fd < 0 ? spoor_fail(e, errno, "cannot wait for programs: %s", strerror(errno)) :
			       listen_at(o->path, o->everybody, e);
	if (fd < 0) {
		spoor_hub_close(h);
		return fd;
	}
	snprintf(h->path, sizeof(h->path), "%s", o->path);
	spoor_hub_watch(h, &h->listener, fd, h, HUB_LISTENER);
	*ret = h;
	return 0;
}

void spoor_hub_close(struct spoor_hub *h)
{
	if (!h)
		return;
	while (h->first)
		spoor_program_free(h->first);
	if (h->listener.fd >= 0) {
		spoor_hub_unwatch(h, &h->listener);
		unlink(h->path);
	}
	while (h->requests) {
		struct spoor_hub_request *q = h->requests;

		h->requests = q->next;
		free(q);
	}
	spoor_orphans_free(h);
	spoor_hub_unwatch(h, &h->rows_done);
	spoor_user_rows_free(h->rows);
	spoor_waker_free(h->waker);
	if (h->epoll_fd >= 0)
		close(h->epoll_fd);
	free(h);
}

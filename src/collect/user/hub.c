/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hub's begin and end, and what its peers send. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/time.h"
#include "collect/user/beyond_root.h"
#include "collect/user/hub_internal.h"

#define FIRST_PERIOD (20 * 1000000ULL)
#define MOST_EVENTS 64
#define MOST_TURNS 16
#define MOST_MESSAGES 64 /* of one peer in a turn */
#define MOST_WAITS 50 /* for who is to read what he was told */
#define WAIT_US 10000

/* ---- epoll ---- */

int spoor_hub_watch(struct spoor_hub *h, struct hub_fd *f, int fd, void *owner, enum hub_kind kind)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = f };

	*f = (struct hub_fd){ .kind = kind, .fd = fd, .owner = owner };
	return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* Who connects while there is no descriptor for him waits, and does not wake us all the while: till the next round. */
void spoor_hub_listen_to_all(struct spoor_hub *h, bool yes)
{
	struct hub_fd *listeners[] = { &h->listener, &h->beyond_root, &h->waiting };

	if (h->deaf == !yes)
		return;
	h->deaf = !yes;
	for (size_t i = 0; i < sizeof(listeners) / sizeof(*listeners); i++) {
		struct epoll_event ev = { .events = yes ? EPOLLIN : 0, .data.ptr = listeners[i] };

		if (listeners[i]->fd >= 0)
			epoll_ctl(h->epoll_fd, EPOLL_CTL_MOD, listeners[i]->fd, &ev);
	}
}

void spoor_hub_unwatch(struct spoor_hub *h, struct hub_fd *f)
{
	if (f->fd < 0)
		return;
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, f->fd, NULL);
	if (f->kind == HUB_PEER)
		spoor_fds_hang_up(f->fd);
	else if (f->kind == HUB_LISTENER)
		spoor_fds_hush(f->fd);
	else
		close(f->fd);
	f->fd = -1;
}

int spoor_hub_fd(const struct spoor_hub *h)
{
	return h->epoll_fd;
}

/* ---- one peer's messages ---- */

static int check(const struct spoor_control_head *m, ssize_t size)
{
	if ((size_t)size < sizeof(*m) || m->magic != SPOOR_CONTROL_MAGIC || m->size != size)
		return -EBADMSG;
	return 0;
}

void spoor_hub_heard(struct hub_program *p, const void *message, size_t size, int fd)
{
	if (p->sock.fd >= 0 && (check(message, size) || spoor_program_message(p, message, size, fd) < 0))
		spoor_program_hung_up(p);
}

void spoor_hub_no_files(struct spoor_hub *h)
{
	if (!h->no_files)
		spoor_hub_warn(h, "this recorder may open no more files (ulimit -n): what programs write that come "
				  "now is lost, unless some end before them");
	h->no_files = true;
}

/* What a peer has not read, and ended, is told before what it sent, and once. */
ssize_t spoor_hub_receive(const struct hub_program *p, void *bytes, size_t room, int *ret_fd, int flags)
{
	ssize_t n;

	do {
		n = spoor_fds_receive_of(p->cred.uid, p->sock.fd, bytes, room, ret_fd, MSG_DONTWAIT | flags);
	} while (n == -ECONNRESET);
	return n;
}

static bool asks(const struct hub_program *p)
{
	struct spoor_control_head m;
	ssize_t n;

	if (p->program || p->sock.fd < 0)
		return false;
	do {
		n = recv(p->sock.fd, &m, sizeof(m), MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == ECONNRESET);
	return n == sizeof(m) && m.type == SPOOR_CONTROL_COMMAND;
}

/* One. Returns 0: there is none; 1; or -errno: the connection is to be closed. */
static int receive(struct hub_program *p)
{
	_Alignas(8) char text[SPOOR_CONTROL_MAX_SIZE];
	_cleanup_(spoor_fds_dropp) int fd = -1;
	ssize_t n;
	int r;

	if (p->hub->catching_up && asks(p)) /* it would be carried out before those that are not heard yet */
		return 0;
	spoor_program_look_ahead(p);
	n = spoor_hub_receive(p, text, sizeof(text), &fd, 0);
	if (n == -EMFILE)
		spoor_hub_no_files(p->hub);
	if (n <= 0)
		return n == -EAGAIN ? 0 : n ? (int)n : -EPIPE;
	r = check((void *)text, n);
	if (!r)
		r = spoor_program_message(p, text, n, fd);
	return r < 0 ? r : 1;
}

/* A few at a time, so that nobody who talks without end keeps the others waiting. */
static void serve_peer(struct hub_program *p)
{
	for (int i = 0; i < MOST_MESSAGES && p->sock.fd >= 0; i++) {
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

void spoor_hub_warn(struct spoor_hub *h, const char *format, ...)
{
	char text[PATH_MAX + 1024];
	va_list args;

	if (!h->o.warn)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	h->o.warn(h->o.ctx, text);
}

void spoor_hub_bury(struct spoor_hub *h)
{
	for (struct hub_program *p = h->first, *next; p; p = next) {
		next = p->next;
		if (p->dead && !p->gone)
			spoor_program_free(p);
	}
}

static int serve_once(struct spoor_hub *h)
{
	struct epoll_event events[MOST_EVENTS];
	int n = epoll_wait(h->epoll_fd, events, MOST_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct hub_fd *f = events[i].data.ptr;

		if (f->fd < 0)
			continue; /* of what came before it in this turn */
		if (f->kind == HUB_LISTENER)
			spoor_hub_accept(h, f->fd);
		else if (f->kind == HUB_WAKER)
			spoor_hub_full(h);
		else if (f->kind == HUB_ROWS)
			spoor_hub_tell_rows(h);
		else if (f->kind == HUB_KEEPER)
			spoor_hub_keeper_says(h);
		else if (f->kind == HUB_PEER)
			serve_peer(f->owner);
		else
			spoor_program_ended(f->owner);
	}
	spoor_hub_bury(h);
	return n;
}

static bool has_ended(const struct hub_program *p)
{
	struct pollfd f = { .fd = p->process.fd, .events = POLLIN };

	return p->process.fd >= 0 && poll(&f, 1, 0) == 1;
}

static void accept_all(struct spoor_hub *h, int listener)
{
	for (int i = 0; i < MOST_TURNS * 8 && spoor_hub_accept(h, listener); i++)
		;
}

void spoor_hub_catch_up(struct spoor_hub *h, const struct hub_program *but)
{
	h->catching_up = true;
	accept_all(h, h->listener.fd);
	accept_all(h, h->beyond_root.fd);
	accept_all(h, h->waiting.fd);
	spoor_hub_accept_late(h);
	for (struct hub_program *p = h->first; p; p = p->next) {
		if (p == but)
			continue;
		serve_peer(p);
		if (has_ended(p) && !asks(p))
			spoor_program_ended(p);
	}
	h->catching_up = false;
}

/* The next recorder can have the name before it can have the path. */
static void leave_beyond_root(struct spoor_hub *h)
{
	shutdown(h->beyond_root.fd, SHUT_RD);
	accept_all(h, h->beyond_root.fd);
	spoor_hub_unwatch(h, &h->beyond_root);
}

/*
 * Who connects is refused from here on, and who is connected cannot say more, so that nothing is in a socket that we
 * close: whoever has buffers for us then offers them where he waits for the next recorder.
 */
void spoor_hub_leave(struct spoor_hub *h)
{
	h->leaves = h->keeper >= 0 && h->sessions;
	if (h->leaves)
		spoor_hub_unwatch(h, &h->waiting);
	leave_beyond_root(h);
	shutdown(h->listener.fd, SHUT_RD);
	spoor_hub_catch_up(h, NULL);
	for (struct hub_program *p = h->first; p; p = p->next) {
		if (p->sock.fd < 0 || spoor_requests_have(h, p))
			continue;
		shutdown(p->sock.fd, SHUT_RD);
		spoor_hub_flush(p);
		spoor_program_heard(p);
		if (has_ended(p))
			spoor_program_ended(p);
	}
}

/* Who came, what he says, and whether he is gone already, are three turns; talkers without end get some more. */
void spoor_hub_serve(struct spoor_hub *h)
{
	for (int i = 0; i < MOST_TURNS && serve_once(h) > 0; i++)
		;
}

/* ---- opening, closing ---- */

/* No program takes our sessions for those of a recorder before us. */
static uint32_t random_number(void)
{
	uint32_t n = 0;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = (uint32_t)spoor_now_realtime();
	return n;
}

int spoor_hub_open_beyond_root(struct spoor_hub *h, struct spoor_error *e)
{
	int fd, r;

	if (!h->o.everybody || h->beyond_root.fd >= 0)
		return 0;
	fd = spoor_beyond_root_bind(h->path, e);
	if (fd < 0)
		return fd;
	spoor_hub_watch(h, &h->beyond_root, fd, h, HUB_LISTENER);
	spoor_keeper_own_too(h->keeper, fd);
	r = spoor_hub_listen(fd, h->path, e);
	if (r)
		spoor_hub_unwatch(h, &h->beyond_root);
	return r;
}

static int begin_waiting(struct spoor_hub *h, struct spoor_error *e)
{
	int r;

	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0)
		return spoor_fail(e, errno, "cannot wait for programs: %s", strerror(errno));
	r = spoor_waker_new(&h->waker);
	if (!r)
		r = spoor_hub_watch(h, &h->wakes, spoor_waker_fd(h->waker), h, HUB_WAKER);
	return r ? spoor_fail(e, -r, "cannot wait for what programs write: %s", strerror(-r)) : 0;
}

bool spoor_hub_has_place(const struct spoor_hub *h)
{
	return spoor_socket_file_is_there(&h->file, h->path);
}

/* Who comes is lost if we are killed before the keeper has the socket: it gets it first, and nobody comes before. */
static int begin_listening(struct spoor_hub *h, struct spoor_error *e)
{
	int fd = spoor_hub_bind(h->o.path, h->o.everybody, e), r;

	if (fd < 0)
		return fd;
	spoor_socket_file_note(&h->file, h->path);
	r = spoor_hub_watch(h, &h->listener, fd, h, HUB_LISTENER);
	if (r)
		return spoor_fail(e, -r, "%s: cannot wait for programs: %s", h->path, strerror(-r));
	spoor_orphans_begin(h);
	r = spoor_hub_listen(fd, h->path, e);
	if (!r && !spoor_hub_has_place(h))
		r = spoor_hub_taken(h->path, e);
	return r;
}

int spoor_hub_open(const struct spoor_hub_options *o, struct spoor_hub **ret, struct spoor_error *e)
{
	struct spoor_hub *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return spoor_fail(e, ENOMEM, "out of memory");
	h->o = *o;
	h->goes_on = o->goes_on;
	h->period = FIRST_PERIOD;
	h->next_session = random_number() >> 2;
	h->board.generation = random_number();
	h->listener.fd = h->wakes.fd = h->waiting.fd = h->kept.fd = h->rows_done.fd = h->keeper = h->board.fd = -1;
	h->beyond_root.fd = -1;
	snprintf(h->path, sizeof(h->path), "%s", o->path);
	r = begin_waiting(h, e);
	if (!r)
		r = begin_listening(h, e);
	if (r) {
		spoor_hub_close(h);
		return r;
	}
	spoor_hub_open_beyond_root(h, NULL); /* or spoor_hub_keep() does */
	*ret = h;
	return 0;
}

/* Who was busy when he was told of a session's end is called again, for a moment: nobody does it later. */
static void wait_for_readers(struct spoor_hub *h)
{
	bool any = true;

	for (int i = 0; any && i < MOST_WAITS; i++) {
		any = false;
		for (struct hub_program *p = h->first; p; p = p->next) {
			if (!p->kicked || p->is_taken || !spoor_program_has_unread(p))
				continue;
			any = true;
			spoor_program_kick_again(p, spoor_now_monotonic());
		}
		if (any)
			usleep(WAIT_US);
	}
}

void spoor_hub_close(struct spoor_hub *h)
{
	if (!h)
		return;
	wait_for_readers(h);
	while (h->first)
		spoor_program_free(h->first);
	h->goes_on = false; /* where they could not be added, nobody waits for us */
	spoor_waiting_close(h);
	spoor_hub_unwatch(h, &h->beyond_root);
	if (h->listener.fd >= 0) {
		if (h->board.fd >= 0)
			spoor_board_remove(h);
		spoor_socket_file_remove(&h->file, h->path);
		spoor_hub_unwatch(h, &h->listener);
	}
	while (h->requests) {
		struct spoor_hub_request *q = h->requests;

		h->requests = q->next;
		spoor_request_free(q);
	}
	spoor_orphans_free(h);
	spoor_shares_done(&h->shares);
	free(h->recalled);
	spoor_turned_away_forget(&h->away);
	spoor_hub_unwatch(h, &h->rows_done);
	spoor_user_rows_free(h->rows);
	spoor_waker_free(h->waker);
	if (h->epoll_fd >= 0)
		close(h->epoll_fd);
	free(h);
}

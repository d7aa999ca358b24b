/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/relay/server_internal.h"

#define TICK (250 * 1000000ULL)
#define MOST_EVENTS 64
/* Nobody needs a certificate, nor a trace, to be refused: he is not to fill a log. */
#define MOST_STRANGERS 10
#define STRANGERS_NS (10 * SPOOR_NS_PER_SEC)

static void say(struct spoor_relay *r, const char *fmt, va_list ap)
{
	char text[640];

	vsnprintf(text, sizeof(text), fmt, ap);
	r->o.say(r->o.ctx, text);
}

void spoor_relay_say(struct spoor_relay *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(r, fmt, ap);
	va_end(ap);
}

void spoor_relay_say_of_stranger(struct spoor_relay *r, const char *fmt, ...)
{
	va_list ap;

	if (r->n_strangers++ >= MOST_STRANGERS)
		return;
	va_start(ap, fmt);
	say(r, fmt, ap);
	va_end(ap);
}

static void tell_more_strangers(struct spoor_relay *r)
{
	if (r->n_strangers > MOST_STRANGERS)
		spoor_relay_say(r, "%u more connections were refused or broken off", r->n_strangers - MOST_STRANGERS);
	r->n_strangers = 0;
}

/* ---- clients come and go ---- */

static void watch(struct relay_client *c)
{
	uint32_t events = (spoor_served_wants_in(c) ? EPOLLIN : 0) | (spoor_served_wants_out(c) ? EPOLLOUT : 0);
	struct epoll_event ev = { .events = events, .data.ptr = c };

	if (events == c->events)
		return;
	c->events = events;
	epoll_ctl(c->relay->epoll_fd, EPOLL_CTL_MOD, c->channel.fd, &ev);
}

static void free_client(struct relay_client *c, uint64_t now)
{
	struct spoor_relay *r = c->relay;

	if (c->trace)
		relay_trace_leave(&r->traces, c->trace, now);
	spoor_channel_close(&c->channel);
	if (c->prev)
		c->prev->next = c->next;
	else
		r->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	r->n_clients--;
	free(c->digest);
	free(c->in);
	free(c);
}

static void makes_room(void *relay, const struct relay_trace *t)
{
	spoor_relay_say(relay, "%s/%s: too many senders are away: not ended in order, until its own is back", t->host,
			t->name);
}

static void bury(struct spoor_relay *r, uint64_t now)
{
	for (struct relay_client *c = r->first, *next; c; c = next) {
		next = c->next;
		if (c->dead)
			free_client(c, now);
	}
	relay_traces_limit(&r->traces, r->o.max_clients, makes_room, r);
}

/* All places are taken: who came first and has not said who he is leaves. */
static bool make_room(struct spoor_relay *r, uint64_t now)
{
	struct relay_client *oldest = NULL;

	if (r->n_clients < r->o.max_clients)
		return true;
	for (struct relay_client *c = r->first; c; c = c->next)
		if (!c->trace && (!oldest || c->came < oldest->came))
			oldest = c;
	if (!oldest)
		return false;
	spoor_relay_say_of_stranger(r, "%s: too many connections: disconnected", oldest->from);
	free_client(oldest, now);
	return true;
}

static void take_in(struct spoor_relay *r, int fd, const struct sockaddr *a, socklen_t len, uint64_t now)
{
	struct relay_client *c = make_room(r, now) ? calloc(1, sizeof(*c)) : NULL;
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	char host[64] = "?", port[8] = "?";
	int one = 1;

	getnameinfo(a, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	if (!c) {
		spoor_relay_say_of_stranger(r, "%s: refused: there are %u connections already", host, r->n_clients);
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (spoor_channel_init(&c->channel, fd, r->o.tls, NULL)) {
		free(c);
		return;
	}
	if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		spoor_channel_close(&c->channel);
		free(c);
		return;
	}
	c->relay = r;
	c->events = EPOLLIN;
	c->came = c->heard = now;
	snprintf(c->from, sizeof(c->from), "%s:%s", host, port);
	c->next = r->first;
	if (r->first)
		r->first->prev = c;
	r->first = c;
	r->n_clients++;
}

/* Senders for whom there is no descriptor wait, and do not wake us all the while: till the next tick. */
static void listen_to_all(struct spoor_relay *r, bool yes)
{
	struct epoll_event ev = { .events = yes ? EPOLLIN : 0 };

	if (r->deaf == !yes)
		return;
	r->deaf = !yes;
	epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, r->listen_fd, &ev);
}

static void no_files(struct spoor_relay *r)
{
	if (!r->no_files)
		spoor_relay_say(r, "this relay may open no more files (ulimit -n): who connects now has to wait");
	r->no_files = true;
	listen_to_all(r, false);
}

static void accept_clients(struct spoor_relay *r, uint64_t now)
{
	for (int i = 0; i < 64; i++) {
		struct sockaddr_storage a;
		socklen_t len = sizeof(a);
		int fd = accept4(r->listen_fd, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			no_files(r);
		if (fd < 0)
			return;
		take_in(r, fd, (struct sockaddr *)&a, len, now);
	}
}

/* ---- a turn ---- */

static void stays_away(void *relay, const struct relay_trace *t)
{
	spoor_relay_say(relay, "%s/%s: its sender does not come back: not ended in order", t->host, t->name);
}

static void tick(struct spoor_relay *r, uint64_t now)
{
	if (now < r->due)
		return;
	r->due = now + TICK;
	listen_to_all(r, true);
	for (struct relay_client *c = r->first; c; c = c->next)
		if (!c->dead)
			spoor_served_tick(c, now);
	relay_traces_tick(&r->traces, now, r->o.patience, stays_away, r);
	if (now < r->strangers_due)
		return;
	r->strangers_due = now + STRANGERS_NS;
	tell_more_strangers(r);
}

int spoor_relay_serve(struct spoor_relay *r)
{
	struct epoll_event events[MOST_EVENTS];
	int n = epoll_wait(r->epoll_fd, events, MOST_EVENTS, 0);
	uint64_t now = spoor_now_monotonic();

	for (int i = 0; i < n; i++) {
		struct relay_client *c = events[i].data.ptr;

		if (!c || c->dead)
			continue;
		if (c->held && events[i].events & (EPOLLHUP | EPOLLERR))
			c->dead = true;
		else
			spoor_served_turn(c, now);
	}
	for (struct relay_client *c = r->busy ? r->first : NULL; c; c = c->next)
		if (c->more && !c->dead)
			spoor_served_turn(c, now);
	bury(r, now);
	for (int i = 0; i < n; i++)
		if (!events[i].data.ptr)
			accept_clients(r, now);
	tick(r, now);
	bury(r, now);
	r->busy = false;
	for (struct relay_client *c = r->first; c; c = c->next) {
		watch(c);
		r->busy |= c->more;
	}
	return r->busy ? 0 : (int)((r->due > now ? r->due - now : 0) / 1000000) + 1;
}

/* ---- opening, closing ---- */

static int listen_at(const struct spoor_endpoint *at, struct spoor_error *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *a = NULL;
	_cleanup_(spoor_closep) int fd = -1;
	int one = 1, r = getaddrinfo(at->host, at->port, &hints, &a);

	if (r)
		return spoor_fail(e, EINVAL, "%s: %s", at->host, gai_strerror(r));
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : 0;
	if (!r) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 256))
			r = -errno;
	}
	freeaddrinfo(a);
	if (r)
		return spoor_fail(e, -r, "%s:%s: cannot listen there: %s", at->host, at->port, strerror(-r));
	return TAKE_FD(fd);
}

int spoor_relay_open(const struct spoor_relay_options *o, struct spoor_relay **ret, struct spoor_error *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct spoor_relay *r = calloc(1, sizeof(*r));
	int err;

	if (!r) {
		SSL_CTX_free(o->tls);
		return spoor_fail(e, ENOMEM, "out of memory");
	}
	r->o = *o;
	r->listen_fd = r->traces.dir_fd = -1;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = r->epoll_fd < 0 ? spoor_fail(e, errno, "cannot wait for senders: %s", strerror(errno)) :
				relay_traces_open(o->output, &r->traces, e);
	if (!err)
		err = r->listen_fd = listen_at(&o->at, e);
	if (err >= 0 && epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->listen_fd, &ev))
		err = spoor_fail(e, errno, "cannot wait for senders: %s", strerror(errno));
	if (err < 0) {
		spoor_relay_close(r);
		return err;
	}
	*ret = r;
	return 0;
}

void spoor_relay_close(struct spoor_relay *r)
{
	if (!r)
		return;
	while (r->first)
		free_client(r->first, 0);
	tell_more_strangers(r);
	relay_traces_close(&r->traces);
	if (r->listen_fd >= 0)
		close(r->listen_fd);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	SSL_CTX_free(r->o.tls);
	free(r);
}

int spoor_relay_fd(const struct spoor_relay *r)
{
	return r->epoll_fd;
}

void spoor_relay_address(const struct spoor_relay *r, char *text, size_t size)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[64] = "?", port[8] = "?";

	if (!getsockname(r->listen_fd, (struct sockaddr *)&a, &len))
		getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, size, strchr(host, ':') ? "%s://[%s]:%s" : "%s://%s:%s", r->o.tls ? "tls" : "tcp", host, port);
}

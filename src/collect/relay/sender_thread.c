/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sender's connection: made, used, lost and made again by a thread that does nothing else. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/relay/sender_internal.h"

#define MS 1000000ULL
#define FIRST_PAUSE (20 * MS)
#define LONGEST_PAUSE (2000 * MS)
#define PATIENCE (15000 * MS) /* with a connection on which nothing is heard */
#define ASK (4000 * MS)
#define OPENING (5000 * MS)

/* ---- what is known ---- */

void spoor_sender_say(struct spoor_sender *s, const char *text)
{
	pthread_mutex_lock(&s->lock);
	snprintf(s->stats.why, sizeof(s->stats.why), "%s", text);
	pthread_mutex_unlock(&s->lock);
}

void spoor_sender_to_state(struct spoor_sender *s, enum sender_state state, int error)
{
	pthread_mutex_lock(&s->lock);
	s->state = state;
	s->error = error;
	if (state == SENDER_FAILED)
		relay_queue_clear(&s->queue);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* The relay may listen at one of its host's addresses only. False: all have been tried; or the same is to be again. */
static bool to_another_address(struct spoor_sender *s)
{
	if (s->welcome)
		return false;
	s->address++;
	return ++s->n_tried < s->n_addresses;
}

static void make_pause(struct spoor_sender *s, uint64_t now)
{
	s->n_tried = 0;
	s->pause = s->pause ? s->pause * 2 : FIRST_PAUSE;
	s->pause = s->pause < LONGEST_PAUSE ? s->pause : LONGEST_PAUSE;
	s->next_try = now + s->pause;
}

static void lose_connection(struct spoor_sender *s)
{
	uint64_t now = spoor_now_monotonic();

	spoor_channel_close(&s->channel);
	if (!to_another_address(s))
		make_pause(s, now);
	s->n_in = s->n_out = s->out_at = s->sent = 0;
	s->sending = NULL;
	s->tried = false;
	s->welcome = false;
	free(s->digest);
	s->digest = NULL;
	s->digest_len = 0;
	pthread_mutex_lock(&s->lock);
	relay_queue_rewind(&s->queue);
	if (!s->away_since)
		s->away_since = now;
	pthread_mutex_unlock(&s->lock);
}

void spoor_sender_fail(struct spoor_sender *s, int error, const char *text)
{
	lose_connection(s);
	spoor_sender_say(s, text);
	spoor_sender_to_state(s, SENDER_FAILED, error);
}

static void trouble(struct spoor_sender *s, int error)
{
	char text[320];

	snprintf(text, sizeof(text), "%.80s:%s: %.200s", s->o.to.host, s->o.to.port,
		 error == EPROTO && s->channel.why[0] ? s->channel.why : strerror(error));
	spoor_sender_say(s, text);
	lose_connection(s);
}

/* ---- connecting ---- */

static const struct addrinfo *choose(struct spoor_sender *s, const struct addrinfo *all)
{
	s->n_addresses = 0;
	for (const struct addrinfo *a = all; a; a = a->ai_next)
		s->n_addresses++;
	s->address = s->n_addresses ? s->address % s->n_addresses : 0;
	for (unsigned i = 0; i < s->address; i++)
		all = all->ai_next;
	return all;
}

static int connect_to(struct spoor_sender *s, const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, r;

	if (fd < 0)
		return -errno;
	if (connect(fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS) {
		r = -errno;
		close(fd);
		return r;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->began = s->heard = s->asked = spoor_now_monotonic();
	return spoor_channel_init(&s->channel, fd, s->o.tls, s->o.to.host);
}

static int use_answer(struct spoor_sender *s, int r, const struct addrinfo *all)
{
	if (!r)
		return connect_to(s, choose(s, all));
	s->n_addresses = 0;
	snprintf(s->channel.why, sizeof(s->channel.why), "%s", gai_strerror(r));
	return -EPROTO;
}

static void say_no_answer(struct spoor_sender *s)
{
	char text[320];

	snprintf(text, sizeof(text), "%.80s:%s: no answer where its address is asked for yet", s->o.to.host,
		 s->o.to.port);
	spoor_sender_say(s, text);
}

static void connect_again(struct spoor_sender *s, uint64_t now)
{
	const struct addrinfo *all;
	int r = 0, answer;

	if (s->channel.fd >= 0 || now < s->next_try)
		return;
	s->channel.why[0] = '\0';
	if (!s->lookup) {
		s->began = now;
		r = spoor_lookup_begin(&s->o.to, &s->lookup);
	}
	if (!r && !spoor_lookup_answered(s->lookup, &answer, &all)) {
		if (now - s->began > OPENING)
			say_no_answer(s);
		return;
	}
	if (!r)
		r = use_answer(s, answer, all);
	spoor_lookup_free(s->lookup);
	s->lookup = NULL;
	if (r)
		trouble(s, -r);
}

static void say_hello(struct spoor_sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->hello.acked = s->queue.removed;
	pthread_mutex_unlock(&s->lock);
	memcpy(s->out, &s->hello, sizeof(s->hello));
	s->n_out = sizeof(s->hello);
	s->heard = spoor_now_monotonic();
}

/* ---- sending ---- */

/* The operation at hand is not removed before the relay has acknowledged it, which is after it was sent. */
static bool next_operation(struct spoor_sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->sending = s->queue.unsent;
	pthread_mutex_unlock(&s->lock);
	s->sent = 0;
	return s->sending;
}

static void was_sent(struct spoor_sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->stats.sent += s->sending->op.head.size;
	s->queue.unsent = s->sending->next;
	pthread_mutex_unlock(&s->lock);
	s->sending = NULL;
}

static int send_small(struct spoor_sender *s)
{
	while (s->out_at < s->n_out) {
		ssize_t n = spoor_channel_write(&s->channel, s->out + s->out_at, s->n_out - s->out_at);

		if (n < 0)
			return (int)n;
		s->out_at += n;
	}
	s->out_at = s->n_out = 0;
	return 0;
}

static int send_operations(struct spoor_sender *s)
{
	for (int i = 0; i < 64 && (s->sending || next_operation(s)); i++) {
		const uint8_t *bytes = (const uint8_t *)&s->sending->op;
		ssize_t n = spoor_channel_write(&s->channel, bytes + s->sent, s->sending->op.head.size - s->sent);

		s->tried = n < 0;
		if (n < 0)
			return (int)n;
		s->sent += n;
		s->heard = spoor_now_monotonic(); /* it takes something: a slow network is no silent one */
		if (s->sent == s->sending->op.head.size)
			was_sent(s);
	}
	return 0;
}

static int send_what_there_is(struct spoor_sender *s)
{
	int r = 0;

	if (!s->sending || !(s->sent || s->tried))
		r = send_small(s);
	if (!r && s->welcome)
		r = send_operations(s);
	return r == -EAGAIN ? 0 : r;
}

static bool has_to_send(struct spoor_sender *s)
{
	bool more;

	if (s->n_out || s->sending)
		return true;
	pthread_mutex_lock(&s->lock);
	more = s->welcome && s->queue.unsent;
	pthread_mutex_unlock(&s->lock);
	return more;
}

/* ---- the loop ---- */

static int keep_alive(struct spoor_sender *s, uint64_t now)
{
	struct spoor_relay_head ping = { .size = sizeof(ping), .type = SPOOR_RELAY_PING };

	if (!s->channel.open)
		return now - s->began > OPENING ? -ETIMEDOUT : 0;
	if (now - s->heard > PATIENCE)
		return -ETIMEDOUT;
	if (now - s->heard > ASK && now - s->asked > ASK && !s->n_out && s->welcome) {
		memcpy(s->out, &ping, sizeof(ping));
		s->n_out = sizeof(ping);
		s->asked = now;
	}
	return 0;
}

static int turn(struct spoor_sender *s)
{
	int r;

	if (!s->channel.open) {
		r = spoor_channel_open(&s->channel);
		if (r)
			return r == -EAGAIN ? 0 : r;
		say_hello(s);
	}
	r = spoor_sender_receive(s);
	return r ? r : send_what_there_is(s);
}

static void wait_for_something(struct spoor_sender *s, uint64_t now, bool idle)
{
	struct pollfd fds[] = { { .fd = s->wake, .events = POLLIN },
				{ .fd = s->channel.fd, .events = POLLIN },
				{ .fd = s->lookup ? spoor_lookup_fd(s->lookup) : -1, .events = POLLIN } };
	int timeout = 1000;
	uint64_t n;

	if (s->channel.fd < 0 && !s->lookup && !idle)
		timeout = s->next_try > now ? (int)((s->next_try - now) / MS) + 1 : 0;
	if (s->channel.fd >= 0 && !s->channel.open && (!s->channel.ssl || s->channel.wants_out))
		fds[1].events |= POLLOUT;
	if (s->channel.open && has_to_send(s))
		fds[1].events |= POLLOUT;
	poll(fds, 3, timeout);
	if (fds[0].revents && read(s->wake, &n, sizeof(n)) < 0)
		return;
}

/* All is there: the connection is not needed any more. */
static bool is_done(struct spoor_sender *s)
{
	bool done;

	pthread_mutex_lock(&s->lock);
	done = s->complete && !s->queue.first;
	pthread_mutex_unlock(&s->lock);
	if (done)
		spoor_channel_close(&s->channel);
	return done;
}

void *spoor_sender_run(void *sender)
{
	struct spoor_sender *s = sender;

	for (;;) {
		uint64_t now = spoor_now_monotonic();
		bool ends, idle;
		int r = 0;

		pthread_mutex_lock(&s->lock);
		ends = s->ends;
		pthread_mutex_unlock(&s->lock);
		if (ends)
			break;
		idle = s->state == SENDER_FAILED || is_done(s);
		if (!idle)
			connect_again(s, now);
		wait_for_something(s, now, idle);
		if (s->channel.fd < 0)
			continue;
		r = turn(s);
		if (!r)
			r = keep_alive(s, spoor_now_monotonic());
		if (r && r != -ECANCELED)
			trouble(s, -r);
	}
	lose_connection(s);
	spoor_lookup_free(s->lookup);
	return NULL;
}

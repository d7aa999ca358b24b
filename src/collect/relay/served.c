/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One sender, as the relay sees it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/time.h"
#include "collect/relay/server_internal.h"

#define MS 1000000ULL
#define TO_SAY_HELLO (10000 * MS)
#define PATIENCE (30000 * MS)
#define TELL (2000 * MS)
#define TURN (2u << 20) /* bytes of one client before another's turn */
#define EARLY 4096u     /* of who has not said who he is */

/* ---- sending ---- */

static void put(struct relay_client *c, const void *message, size_t size)
{
	if (c->n_out + size > sizeof(c->out))
		return; /* what was said before is not read: ACK and WAIT come again */
	memcpy(c->out + c->n_out, message, size);
	c->n_out += size;
}

static void put_refusal(struct relay_client *c, unsigned type, int error, const char *text)
{
	struct spoor_relay_refuse m = { .head = { .size = sizeof(m), .type = type },
					.version = SPOOR_RELAY_VERSION,
					.error = error };

	memcpy(m.magic, SPOOR_RELAY_MAGIC, sizeof(m.magic));
	snprintf(m.text, sizeof(m.text), "%s", text);
	put(c, &m, sizeof(m));
}

static const char *name_of(const struct relay_client *c, char *buf, size_t size)
{
	if (c->trace)
		snprintf(buf, size, "%s/%s (%s)", c->trace->host, c->trace->name, c->from);
	else
		snprintf(buf, size, "%s", c->from);
	return buf;
}

static void say_of(const struct relay_client *c, const char *what, const char *more)
{
	char name[320];

	if (c->trace)
		spoor_relay_say(c->relay, "%s: %s%s", name_of(c, name, sizeof(name)), what, more);
	else
		spoor_relay_say_of_stranger(c->relay, "%s: %s%s", c->from, what, more);
}

/* The last words. */
static void refuse(struct relay_client *c, int error, const char *text)
{
	say_of(c, text, ": disconnected");
	if (c->n_out > sizeof(c->out) / 2 || c->digest)
		c->dead = true; /* in the middle of something */
	put_refusal(c, SPOOR_RELAY_REFUSE, error, text);
	c->over = true;
}

static void put_ack(struct relay_client *c)
{
	struct spoor_relay_head m = { .size = sizeof(m), .type = SPOOR_RELAY_ACK };

	if (!c->trace || c->over || c->n_out || c->digest || c->acked == c->trace->applied)
		return;
	m.number = c->acked = c->trace->applied;
	put(c, &m, sizeof(m));
}

static int send_out(struct relay_client *c)
{
	while (c->out_at < c->n_out) {
		ssize_t n = spoor_channel_write(&c->channel, c->out + c->out_at, c->n_out - c->out_at);

		if (n < 0)
			return (int)n;
		c->out_at += n;
		c->heard = spoor_now_monotonic();
	}
	c->n_out = c->out_at = 0;
	return 0;
}

/* The next piece of the digest. */
static void put_digest(struct relay_client *c)
{
	size_t room = sizeof(c->out) - sizeof(struct spoor_relay_digest), left = c->digest_len - c->digest_at;
	struct spoor_relay_digest m = { .head.type = SPOOR_RELAY_DIGEST };
	size_t n = left < room ? left : room;

	m.head.size = sizeof(m) + n;
	m.last = n == left;
	put(c, &m, sizeof(m));
	put(c, c->digest + c->digest_at, n);
	c->digest_at += n;
	if (!m.last)
		return;
	free(c->digest);
	c->digest = NULL;
}

static int send_all(struct relay_client *c)
{
	int r;

	for (;;) {
		put_ack(c);
		if (!c->n_out && c->digest)
			put_digest(c);
		if (!c->n_out)
			return 0;
		r = send_out(c);
		if (r)
			return r == -EAGAIN ? 0 : r;
		if (c->over)
			return -ECONNRESET;
	}
}

/* ---- waiting ---- */

static bool can_wait(int err)
{
	return spoor_is_full(err) || err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

static void hold(struct relay_client *c, int err, uint64_t now)
{
	char name[320];

	if (!c->held)
		spoor_relay_say(c->relay, "%s: cannot write: %s; tried again until it can",
				name_of(c, name, sizeof(name)), strerror(-err));
	if (!c->held || now - c->told > TELL) {
		put_ack(c);
		put_refusal(c, SPOOR_RELAY_WAIT, -err, strerror(-err));
		c->told = now;
	}
	c->held = true;
	c->heard = now;
}

static void go_on(struct relay_client *c)
{
	char name[320];

	if (c->held)
		spoor_relay_say(c->relay, "%s: can write again", name_of(c, name, sizeof(name)));
	c->held = false;
}

/* ---- HELLO ---- */

static void on_other_version(struct relay_client *c, const struct spoor_relay_hello *m)
{
	char text[128];

	snprintf(text, sizeof(text), "the sender speaks version %u, this relay speaks version %u", m->version,
		 SPOOR_RELAY_VERSION);
	refuse(c, EPROTO, text);
}

static int get_room(struct relay_client *c, size_t room)
{
	uint8_t *grown = realloc(c->in, room);

	if (!grown)
		return -ENOMEM;
	c->in = grown;
	c->room = room;
	return 0;
}

static void take_over(struct relay_client *c, struct relay_trace *t)
{
	struct relay_client *before = t->client;

	if (before && before != c) { /* the same sender on a new connection; the old one is dead, if it knows or not */
		before->trace = NULL;
		before->dead = true;
	}
	t->client = c;
	c->trace = t;
	c->acked = t->applied;
}

/* 0; 1: held, and it is looked at again. */
static int on_hello(struct relay_client *c, const struct spoor_relay_hello *h, uint64_t now)
{
	struct spoor_relay_welcome m = { .head = { .size = sizeof(m), .type = SPOOR_RELAY_WELCOME } };
	struct relay_trace *t = NULL;
	struct spoor_error e = { "" };
	int r;

	if (c->trace)
		return -EBADMSG;
	spoor_channel_peer(&c->channel, c->peer, sizeof(c->peer));
	r = relay_traces_take(&c->relay->traces, h, c->peer, &t, (void **)&c->digest, &c->digest_len, &e);
	if (!r && get_room(c, SPOOR_RELAY_MOST + sizeof(struct spoor_relay_head)))
		r = spoor_fail(&e, ENOMEM, "out of memory");
	if (r) {
		free(c->digest);
		c->digest = NULL;
		if (can_wait(r)) {
			hold(c, r, now);
			return 1;
		}
		refuse(c, -r, e.text);
		return 0;
	}
	take_over(c, t);
	go_on(c);
	memcpy(m.magic, SPOOR_RELAY_MAGIC, sizeof(m.magic));
	m.version = SPOOR_RELAY_VERSION;
	m.applied = t->applied;
	snprintf(m.name, sizeof(m.name), "%s", t->name);
	put(c, &m, sizeof(m));
	spoor_relay_say(c->relay, "%s/%s: %s from %s", t->host, t->name,
			h->kind == SPOOR_RELAY_RESUME ? "a new sender goes on with it" :
			h->acked || t->applied        ? "its sender is back" :
							"receiving",
			c->from);
	return 0;
}

/* ---- operations ---- */

/* 0: done; 1: held; -EBADMSG; -ECANCELED: it was told why. */
static int on_operation(struct relay_client *c, const struct spoor_relay_op *op, uint64_t now)
{
	int r;

	if (!c->trace || op->head.number != c->trace->applied + 1)
		return -EBADMSG;
	r = relay_trace_apply(c->trace, op);
	if (can_wait(r)) {
		hold(c, r, now);
		return 1;
	}
	if (r == -EBADMSG)
		return r;
	if (r) {
		refuse(c, -r, r == -ENOENT ? "the trace was removed" : strerror(-r));
		return -ECANCELED;
	}
	go_on(c);
	c->trace->applied++;
	return 0;
}

static int on_message(struct relay_client *c, const void *message, size_t size, uint64_t now)
{
	const struct spoor_relay_head *h = message;
	struct spoor_relay_head pong = { .size = sizeof(pong), .type = SPOOR_RELAY_PONG };
	int r = spoor_relay_check(message, size);

	if (r == -EPROTO && h->type == SPOOR_RELAY_HELLO && !c->trace) {
		on_other_version(c, message);
		return -ECANCELED;
	}
	if (r)
		return r;
	if (h->type == SPOOR_RELAY_HELLO)
		return on_hello(c, message, now);
	if (h->type >= SPOOR_RELAY_SEGMENT)
		return on_operation(c, message, now);
	if (h->type != SPOOR_RELAY_PING || !c->trace)
		return -EBADMSG;
	if (!c->n_out)
		put(c, &pong, sizeof(pong));
	return 0;
}

/* Messages that are whole. 0; 1: the next one has to wait; or -errno. */
static int take_messages(struct relay_client *c, uint64_t now)
{
	size_t at = 0;
	int r = 0;

	while (!r && !c->over && c->n_in - at >= sizeof(struct spoor_relay_head)) {
		static _Alignas(8) uint8_t message[SPOOR_RELAY_MOST];
		int size = spoor_relay_size(c->in + at);

		if (size < 0 || (size_t)size > sizeof(message) || (!c->trace && (size_t)size > EARLY))
			return -EBADMSG;
		if ((size_t)size > c->n_in - at)
			break;
		memcpy(message, c->in + at, size);
		r = on_message(c, message, size, now);
		if (r <= 0)
			at += size;
	}
	memmove(c->in, c->in + at, c->n_in - at);
	c->n_in -= at;
	return r;
}

/* ---- a turn ---- */

static void end(struct relay_client *c, int err)
{
	char why[320];

	c->dead = true;
	if (err == -EBADMSG)
		snprintf(why, sizeof(why), "it does not keep to the protocol: disconnected");
	else if (err == -EPROTO)
		snprintf(why, sizeof(why), "%s", c->channel.why);
	else if (err == -ETIMEDOUT)
		snprintf(why, sizeof(why), "silent for too long: disconnected");
	else if (!c->trace)
		return; /* somebody who said nothing */
	else
		snprintf(why, sizeof(why), "%s",
			 !c->trace->ended   ? "its sender has left" :
			 c->trace->in_order ? "complete" :
					      "its sender has ended it, and not in order");
	say_of(c, why, "");
}

static int receive(struct relay_client *c, uint64_t now)
{
	size_t taken = 0;
	int r;

	if (!c->in && get_room(c, EARLY))
		return -ENOMEM;
	while (taken < TURN && !c->over) {
		ssize_t n;

		n = spoor_channel_read(&c->channel, c->in + c->n_in, c->room - c->n_in);
		if (n <= 0)
			return n == -EAGAIN ? 0 : n < 0 ? (int)n : -ECONNRESET;
		c->heard = now;
		c->n_in += n;
		taken += n;
		r = take_messages(c, now);
		if (r)
			return r == 1 || r == -ECANCELED ? 0 : r;
	}
	c->more = true;
	return 0;
}

void spoor_served_turn(struct relay_client *c, uint64_t now)
{
	int r = spoor_channel_open(&c->channel), r2;

	c->more = false;
	if (r == -EAGAIN)
		return;
	if (!r && !c->held)
		r = receive(c, now);
	if (c->dead)
		return;
	if (r == -EBADMSG) {
		refuse(c, EBADMSG, "it does not keep to the protocol");
		r = 0;
	}
	r2 = c->channel.open ? send_all(c) : 0;
	if (c->over && r2)
		c->dead = true;
	else if (r || r2)
		end(c, r ? r : r2);
}

void spoor_served_tick(struct relay_client *c, uint64_t now)
{
	if (c->held && !c->trace && now - c->told < TELL)
		return; /* to look what a trace has costs others time */
	if (c->held) {
		int r = take_messages(c, now);

		if (r < 0 && r != -ECANCELED)
			refuse(c, -r, "it does not keep to the protocol");
		c->more = !c->held;
		if (send_all(c))
			c->dead = true;
		return;
	}
	/* Something may have been heard since `now`. */
	if (c->trace ? now > c->heard + PATIENCE : now > c->came + TO_SAY_HELLO)
		end(c, -ETIMEDOUT);
}

bool spoor_served_wants_in(const struct relay_client *c)
{
	return !c->held && !c->over;
}

bool spoor_served_wants_out(const struct relay_client *c)
{
	return c->n_out || c->digest || c->channel.wants_out;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the relay says to a sender. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collect/relay/sender_internal.h"

#define MOST_DIGEST (256u << 20)
#define MOST_ERRNO 4095 /* the kernel's MAX_ERRNO */

static void come_in(struct spoor_sender *s)
{
	uint64_t now = spoor_now_monotonic();

	s->welcome = true;
	s->pause = 0;
	s->hello.kind = SPOOR_RELAY_BEGIN; /* from now on it is ours */
	pthread_mutex_lock(&s->lock);
	s->stats.reconnects += s->state == SENDER_WELCOME;
	s->stats.away_ns += now - s->away_since;
	s->away_since = 0;
	s->stats.why[0] = '\0';
	pthread_mutex_unlock(&s->lock);
	spoor_sender_to_state(s, SENDER_WELCOME, 0);
}

static int remove_acked(struct spoor_sender *s, uint64_t number)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = relay_queue_remove(&s->queue, number);
	if (!s->queue.first || s->stats.why[0])
		pthread_cond_broadcast(&s->changed);
	s->stats.why[0] = '\0';
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int on_welcome(struct spoor_sender *s, const struct spoor_relay_welcome *m)
{
	int r;

	if (s->welcome)
		return -EBADMSG;
	pthread_mutex_lock(&s->lock);
	r = m->applied < s->queue.removed ? -EBADMSG : 0;
	s->queue.unsent = NULL; /* the relay tells which were sent */
	if (!r)
		r = relay_queue_remove(&s->queue, m->applied);
	relay_queue_rewind(&s->queue);
	snprintf(s->stats.name, sizeof(s->stats.name), "%s", m->name);
	pthread_mutex_unlock(&s->lock);
	memcpy(s->hello.name, m->name, sizeof(s->hello.name));
	if (!r && s->hello.kind == SPOOR_RELAY_BEGIN)
		come_in(s);
	return r;
}

static int on_digest(struct spoor_sender *s, const struct spoor_relay_digest *m)
{
	size_t len = m->head.size - sizeof(*m);
	uint8_t *grown;

	if (s->welcome || s->digest_len + len > MOST_DIGEST)
		return -EBADMSG;
	grown = realloc(s->digest, s->digest_len + len + 1);
	if (!grown)
		return -ENOMEM;
	s->digest = grown;
	memcpy(grown + s->digest_len, m->data, len);
	s->digest_len += len;
	if (!m->last)
		return 0;
	s->store.digest = s->digest;
	s->store.digest_len = s->digest_len;
	s->digest = NULL;
	s->digest_len = 0;
	come_in(s);
	return 0;
}

static int on_refuse(struct spoor_sender *s, const struct spoor_relay_refuse *m)
{
	char text[320];

	snprintf(text, sizeof(text), "the relay refuses: %s", m->text);
	spoor_sender_fail(s, m->error && m->error <= MOST_ERRNO ? (int)m->error : EPROTO, text);
	return -ECANCELED;
}

static int on_other_version(struct spoor_sender *s, const struct spoor_relay_welcome *m)
{
	char text[128];

	snprintf(text, sizeof(text), "the relay speaks version %u, this Spoor speaks version %u", m->version,
		 SPOOR_RELAY_VERSION);
	spoor_sender_fail(s, EPROTO, text);
	return -ECANCELED;
}

static int on_wait(struct spoor_sender *s, const struct spoor_relay_refuse *m)
{
	char text[320];

	snprintf(text, sizeof(text), "the relay cannot write: %s; it tries again", m->text);
	spoor_sender_say(s, text);
	return 0;
}

static int on_message(struct spoor_sender *s, const void *message, size_t size)
{
	const struct spoor_relay_head *h = message;
	int r = spoor_relay_check(message, size);

	s->heard = spoor_now_monotonic();
	if (r == -EPROTO && h->type == SPOOR_RELAY_WELCOME)
		return on_other_version(s, message);
	if (r)
		return r;
	switch (h->type) {
	case SPOOR_RELAY_WELCOME:
		return on_welcome(s, message);
	case SPOOR_RELAY_DIGEST:
		return on_digest(s, message);
	case SPOOR_RELAY_REFUSE:
		return on_refuse(s, message);
	case SPOOR_RELAY_ACK:
		return s->welcome ? remove_acked(s, h->number) : -EBADMSG;
	case SPOOR_RELAY_WAIT:
		return on_wait(s, message);
	case SPOOR_RELAY_PONG:
		return 0;
	}
	return -EBADMSG;
}

static int take_messages(struct spoor_sender *s)
{
	size_t at = 0;
	int r = 0;

	while (!r && s->n_in - at >= sizeof(struct spoor_relay_head)) {
		int size = spoor_relay_size(s->in + at);

		if (size < 0)
			return size;
		if ((size_t)size > s->n_in - at)
			break;
		memcpy(s->message, s->in + at, size); /* aligned */
		r = on_message(s, s->message, size);
		at += size;
	}
	if (r)
		return r;
	memmove(s->in, s->in + at, s->n_in - at);
	s->n_in -= at;
	return 0;
}

int spoor_sender_receive(struct spoor_sender *s)
{
	for (int i = 0; i < 64; i++) {
		ssize_t n = spoor_channel_read(&s->channel, s->in + s->n_in, sizeof(s->in) - s->n_in);
		int r;

		if (n <= 0)
			return n == -EAGAIN ? 0 : n < 0 ? (int)n : -ECONNRESET;
		s->n_in += n;
		r = take_messages(s);
		if (r)
			return r;
	}
	return 0;
}

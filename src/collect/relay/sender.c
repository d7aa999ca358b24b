/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/sender.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/relay/sender_internal.h"
#include "trace/schema.h"

#define LEAST_RESERVE (8u << 20) /* definitions, manifests: without them what is there makes no sense */
#define BESIDE (2u << 20)        /* of a round: heads of packets, and where their events come from */
#define AT_ONCE (8u << 20)       /* is handed in, at most, before its writer looks what is acknowledged */

/* ---- operations ---- */

static struct spoor_sender *of(struct spoor_store *store)
{
	return (struct spoor_sender *)store;
}

static size_t reserve(const struct spoor_sender *s)
{
	return s->o.memory / 4 > LEAST_RESERVE ? s->o.memory / 4 : LEAST_RESERVE;
}

/* With the lock. */
static bool has_room(const struct spoor_sender *s, const struct spoor_relay_op *op, bool events, size_t len)
{
	const struct relay_queue *q = &s->queue;

	if (op->head.type != SPOOR_RELAY_PACKET || s->closing)
		return true;
	if (events)
		return q->events + relay_queue_cost(len) <= s->o.memory + BESIDE;
	return q->bytes - q->events + relay_queue_cost(len) <= 2 * reserve(s);
}

static void wake(const struct spoor_sender *s)
{
	uint64_t one = 1;

	if (write(s->wake, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

/* All messages of one operation, or none of them. With the lock. */
static int add(struct spoor_sender *s, struct spoor_relay_op *op, const struct iovec *iov, int n, size_t len,
	       bool events)
{
	struct relay_cursor c = { iov, n, 0 };
	const uint64_t end = op->offset + len, before_it = s->queue.added;
	int r;

	do {
		size_t before = end - op->offset;

		op->flag = op->flag && (op->head.type == SPOOR_RELAY_END || before <= SPOOR_RELAY_DATA);
		r = relay_queue_add(&s->queue, op, events, &c);
		op->flag |= op->head.type == SPOOR_RELAY_MANIFEST;
		op->offset += before < SPOOR_RELAY_DATA ? before : SPOOR_RELAY_DATA;
	} while (!r && op->offset < end);
	if (r)
		relay_queue_take_back(&s->queue, before_it);
	return r;
}

static int enqueue(struct spoor_store *store, const struct spoor_relay_op *op, const struct iovec *iov, int n,
		   bool events)
{
	struct spoor_sender *s = of(store);
	struct spoor_relay_op o = *op;
	bool idle;
	size_t len = 0;
	int r = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	pthread_mutex_lock(&s->lock);
	idle = !s->queue.unsent;
	if (s->state == SENDER_FAILED) {
		r = -EIO;
	} else if (!has_room(s, op, events, len)) {
		s->stats.refused += events;
		r = -ENOBUFS;
	} else {
		r = add(s, &o, iov, n, len, events);
		s->complete |= !r && o.head.type == SPOOR_RELAY_END;
	}
	pthread_mutex_unlock(&s->lock);
	if (!r && idle)
		wake(s);
	return r;
}

static int on_segment(struct spoor_store *s, unsigned part, unsigned segment)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_SEGMENT, .part = part, .segment = segment };

	return enqueue(s, &op, NULL, 0, false);
}

static int on_metadata(struct spoor_store *s, unsigned part, unsigned segment, uint64_t offset, const void *text,
		       size_t len)
{
	const struct spoor_relay_op op = {
		.head.type = SPOOR_RELAY_METADATA, .part = part, .segment = segment, .offset = offset
	};

	return enqueue(s, &op, &(struct iovec){ (void *)text, len }, len ? 1 : 0, false);
}

static int on_ready(struct spoor_store *s, unsigned part, unsigned segment)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_READY, .part = part, .segment = segment };

	return enqueue(s, &op, NULL, 0, false);
}

static int on_packet(struct spoor_store *s, unsigned part, unsigned segment, unsigned instance, uint64_t offset,
		     const struct iovec *iov, int n)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_PACKET,
					   .part = part,
					   .segment = segment,
					   .instance = instance,
					   .offset = offset };

	return enqueue(s, &op, iov, n, instance < SPOOR_INSTANCE_DEFS(0));
}

static int on_manifest(struct spoor_store *s, const char *text, size_t len)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_MANIFEST, .flag = 1 };

	return enqueue(s, &op, &(struct iovec){ (void *)text, len }, 1, false);
}

static int on_drop(struct spoor_store *s, unsigned part, unsigned segment)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_DROP, .part = part, .segment = segment };

	return enqueue(s, &op, NULL, 0, false);
}

static int on_end(struct spoor_store *s, int in_order)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_END, .flag = in_order };

	return enqueue(s, &op, NULL, 0, false);
}

static const struct spoor_store_ops operations = {
	.segment = on_segment,
	.metadata = on_metadata,
	.ready = on_ready,
	.packet = on_packet,
	.manifest = on_manifest,
	.drop = on_drop,
	.end = on_end,
};

/* ---- beginning and end ---- */

static int fill_hello(struct spoor_sender *s)
{
	struct spoor_relay_hello *h = &s->hello;

	h->head = (struct spoor_relay_head){ .size = sizeof(*h), .type = SPOOR_RELAY_HELLO };
	memcpy(h->magic, SPOOR_RELAY_MAGIC, sizeof(h->magic));
	h->version = SPOOR_RELAY_VERSION;
	h->kind = s->o.resume ? SPOOR_RELAY_RESUME : SPOOR_RELAY_BEGIN;
	h->parts = s->o.parts;
	h->window = 2 * (s->o.memory + BESIDE) + AT_ONCE;
	spoor_boot_id(h->boot_id);
	spoor_relay_make_host(s->o.host, h->host);
	spoor_relay_make_name(s->o.name, h->name, sizeof(h->name));
	if (getrandom(h->incarnation, sizeof(h->incarnation), 0) != sizeof(h->incarnation))
		return -EIO;
	if (s->o.token)
		memcpy(h->token, s->o.token, sizeof(h->token));
	else if (getrandom(h->token, sizeof(h->token), 0) != sizeof(h->token))
		return -EIO;
	snprintf(s->store.host, sizeof(s->store.host), "%s", h->host);
	snprintf(s->stats.name, sizeof(s->stats.name), "%s", h->name);
	return 0;
}

static int start(struct spoor_sender *s)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&s->thread, NULL, spoor_sender_run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

static void init_condition(struct spoor_sender *s)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &a);
	pthread_condattr_destroy(&a);
}

int spoor_sender_new(const struct spoor_sender_options *o, struct spoor_sender **ret, struct spoor_error *e)
{
	struct spoor_sender *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return spoor_fail(e, ENOMEM, "out of memory");
	s->o = *o;
	s->store.ops = &operations;
	s->channel.fd = -1;
	s->away_since = spoor_now_monotonic();
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&s->lock, NULL);
	init_condition(s);
	r = s->wake < 0 ? -errno : fill_hello(s);
	if (r >= 0)
		r = start(s);
	if (r < 0) {
		spoor_closep(&s->wake);
		free(s);
		return spoor_fail(e, -r, "no thread for the relay: %s", strerror(-r));
	}
	s->o.host = s->o.name = NULL;
	s->o.token = NULL;
	*ret = s;
	return 0;
}

void spoor_sender_free(struct spoor_sender *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->ends = true;
	pthread_mutex_unlock(&s->lock);
	wake(s);
	pthread_join(s->thread, NULL);
	relay_queue_clear(&s->queue);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	close(s->wake);
	free(s->store.digest);
	free(s);
}

const uint8_t *spoor_sender_token(const struct spoor_sender *s)
{
	return s->hello.token;
}

struct spoor_store *spoor_sender_store(struct spoor_sender *s)
{
	return &s->store;
}

/* ---- waiting, looking ---- */

static struct timespec in_ms(unsigned ms)
{
	uint64_t ns = spoor_now_monotonic() + ms * 1000000ULL;

	return (struct timespec){ ns / SPOOR_NS_PER_SEC, ns % SPOOR_NS_PER_SEC };
}

int spoor_sender_welcome(struct spoor_sender *s, unsigned ms, struct spoor_error *e)
{
	struct timespec until = in_ms(ms);
	int r = 0;

	pthread_mutex_lock(&s->lock);
	while (s->state == SENDER_TRYING && !r)
		r = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	if (s->state == SENDER_FAILED)
		r = spoor_fail(e, s->error, "%s", s->stats.why);
	else if (s->state == SENDER_TRYING)
		r = spoor_fail(e, ETIMEDOUT, "%s", s->stats.why[0] ? s->stats.why : "the relay does not answer");
	else
		r = 0;
	pthread_mutex_unlock(&s->lock);
	return r;
}

uint64_t spoor_sender_mark(struct spoor_sender *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->queue.added;
	pthread_mutex_unlock(&s->lock);
	return n;
}

uint64_t spoor_sender_acked(struct spoor_sender *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->state == SENDER_FAILED ? UINT64_MAX : s->queue.removed;
	pthread_mutex_unlock(&s->lock);
	return n;
}

size_t spoor_sender_room(struct spoor_sender *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	if (s->state == SENDER_FAILED)
		n = SIZE_MAX;
	else if (s->queue.bytes - s->queue.events > reserve(s))
		n = 0; /* a round would say more of that kind */
	else
		n = s->queue.events < s->o.memory ? s->o.memory - s->queue.events : 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

size_t spoor_sender_memory(const struct spoor_sender *s)
{
	return s->o.memory;
}

void spoor_sender_closing(struct spoor_sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_mutex_unlock(&s->lock);
}

int spoor_sender_flush(struct spoor_sender *s, unsigned ms)
{
	struct timespec until = in_ms(ms);
	int r = 0;

	pthread_mutex_lock(&s->lock);
	while (s->state != SENDER_FAILED && s->queue.first && !r)
		r = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	r = s->queue.first ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&s->lock);
	return r;
}

void spoor_sender_stats(struct spoor_sender *s, struct spoor_sender_stats *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->stats;
	ret->waiting = s->queue.bytes;
	ret->failed = s->state == SENDER_FAILED;
	ret->connected = !s->away_since;
	if (s->away_since)
		ret->away_ns += spoor_now_monotonic() - s->away_since;
	pthread_mutex_unlock(&s->lock);
}

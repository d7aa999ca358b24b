/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t relay_queue_cost(size_t len)
{
	size_t messages = len ? (len + SPOOR_RELAY_DATA - 1) / SPOOR_RELAY_DATA : 1;

	return len + messages * sizeof(struct relay_queued);
}

static size_t left(const struct relay_cursor *c)
{
	size_t len = 0;

	for (int i = 0; i < c->n && len < SPOOR_RELAY_DATA; i++)
		len += c->iov[i].iov_len - (i ? 0 : c->at);
	return len < SPOOR_RELAY_DATA ? len : SPOOR_RELAY_DATA;
}

static void copy(struct relay_cursor *c, uint8_t *to, size_t len)
{
	while (len > 0) {
		size_t n = c->iov->iov_len - c->at;

		n = n < len ? n : len;
		memcpy(to, (const uint8_t *)c->iov->iov_base + c->at, n);
		to += n;
		len -= n;
		c->at += n;
		if (c->at < c->iov->iov_len)
			continue;
		c->iov++;
		c->n--;
		c->at = 0;
	}
}

static size_t size_of(const struct relay_queued *k)
{
	return sizeof(*k) + k->op.head.size - sizeof(k->op);
}

int relay_queue_add(struct relay_queue *q, const struct spoor_relay_op *op, bool events, struct relay_cursor *c)
{
	size_t len = left(c);
	struct relay_queued *k = malloc(sizeof(*k) + len);

	if (!k)
		return -ENOMEM;
	k->next = NULL;
	k->events = events;
	k->op = *op;
	k->op.head.size = sizeof(k->op) + len;
	k->op.head.number = ++q->added;
	copy(c, k->op.data, len);
	if (q->last)
		q->last->next = k;
	else
		q->first = k;
	q->last = k;
	if (!q->unsent)
		q->unsent = k;
	q->bytes += size_of(k);
	q->events += events ? size_of(k) : 0;
	return 0;
}

void relay_queue_take_back(struct relay_queue *q, uint64_t added)
{
	struct relay_queued **at = &q->first, *k;

	q->last = NULL;
	for (; *at && (*at)->op.head.number <= added; at = &(*at)->next)
		q->last = *at;
	k = *at;
	*at = NULL;
	if (q->unsent && q->unsent->op.head.number > added)
		q->unsent = NULL;
	while (k) {
		struct relay_queued *next = k->next;

		q->bytes -= size_of(k);
		q->events -= k->events ? size_of(k) : 0;
		free(k);
		k = next;
	}
	q->added = added;
}

int relay_queue_remove(struct relay_queue *q, uint64_t number)
{
	uint64_t most = q->unsent ? q->unsent->op.head.number - 1 : q->added;

	if (number > most)
		return -EBADMSG;
	while (q->first && q->first->op.head.number <= number) {
		struct relay_queued *k = q->first;

		q->removed = k->op.head.number;
		q->bytes -= size_of(k);
		q->events -= k->events ? size_of(k) : 0;
		q->first = k->next;
		free(k);
	}
	if (!q->first)
		q->last = NULL;
	return 0;
}

void relay_queue_rewind(struct relay_queue *q)
{
	q->unsent = q->first;
}

void relay_queue_clear(struct relay_queue *q)
{
	q->unsent = NULL;
	relay_queue_remove(q, q->added);
}

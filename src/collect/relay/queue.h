/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Operations that a relay has not carried out yet, in their order: those that were sent, and behind them those that
 * were not. One thread adds, another sends and removes; the lock is the caller's.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "collect/relay/protocol.h"

struct relay_queued {
	struct relay_queued *next;
	bool events;              /* a packet of events: what may be refused */
	struct spoor_relay_op op; /* with its data */
};

struct relay_queue {
	struct relay_queued *first, *last;
	struct relay_queued *unsent; /* NULL: all was sent */
	size_t bytes, events;        /* that it takes in memory; of these, packets of events */
	uint64_t added, removed;     /* numbers of operations */
};

/* What an operation with so many bytes of data takes, split where it is too large for one message. */
size_t relay_queue_cost(size_t len);
/* Of iov as many bytes as one message takes. -ENOMEM. */
struct relay_cursor {
	const struct iovec *iov;
	int n;
	size_t at; /* of the first */
};
int relay_queue_add(struct relay_queue *q, const struct spoor_relay_op *op, bool events, struct relay_cursor *c);
/* Those behind the first `added` are not to be, as if they had never been added: none of them was sent. */
void relay_queue_take_back(struct relay_queue *q, uint64_t added);
/* All up to this number were carried out. -EBADMSG: they were not sent. */
int relay_queue_remove(struct relay_queue *q, uint64_t number);
/* A new connection: everything that is left is to be sent. */
void relay_queue_rewind(struct relay_queue *q);
void relay_queue_clear(struct relay_queue *q);

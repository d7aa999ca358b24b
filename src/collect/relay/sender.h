/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * One trace on its way to a relay. A writer writes to its store; a thread sends what is written, keeps it until the
 * relay has carried it out, and connects again, as often as it takes: nothing here waits for a network, but where said.
 *
 *   writer -> store -> queue (bounded) -> thread -> relay
 *                      acked <------------ ACK <-----
 *
 * Packets of events may be refused: who asks for room() first loses none. Packets of definitions may be, too, and are
 * tried again. All else is taken: it follows from what was.
 *
 * What the relay has not carried out yet is lost with this process. So who takes events out of buffers that outlive it
 * gives them back only when `acked` has come to what `mark` was behind them.
 */
#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "base/error.h"
#include "collect/relay/endpoint.h"
#include "trace/store.h"

struct spoor_sender;

struct spoor_sender_options {
	struct spoor_endpoint to;
	SSL_CTX *tls; /* borrowed; NULL: plain */
	const char *host, *name;
	const uint8_t *token; /* 16 bytes: whose the trace is, for those who go on with it; NULL: one is made */
	bool resume;          /* it is there already */
	size_t memory;        /* bytes of events that may wait */
	unsigned parts;       /* as of struct spoor_relay_hello */
};

struct spoor_sender_stats {
	bool connected, failed;
	uint64_t waiting; /* bytes */
	uint64_t refused; /* packets for which there was no room */
	uint64_t reconnects;
	uint64_t away_ns; /* without a connection, once there had been one or should have been */
	uint64_t sent;    /* bytes, what was sent again too */
	char why[320];    /* of the last trouble; "": none */
	char name[128];   /* what the relay calls it */
};

int spoor_sender_new(const struct spoor_sender_options *o, struct spoor_sender **ret, struct spoor_error *e);
/* Ends the connection; what was not acknowledged is forgotten. NULL is fine. */
void spoor_sender_free(struct spoor_sender *s);
const uint8_t *spoor_sender_token(const struct spoor_sender *s);

/*
 * Waits until the relay has answered; the store of one that goes on then has its digest. -ETIMEDOUT: it goes on trying.
 * Others: it has failed for good. -ENOENT: there is no such trace.
 */
int spoor_sender_welcome(struct spoor_sender *s, unsigned ms, struct spoor_error *e);
struct spoor_store *spoor_sender_store(struct spoor_sender *s);

/* The number of the last operation, and of the last that was carried out. One that failed acknowledges everything. */
uint64_t spoor_sender_mark(struct spoor_sender *s);
uint64_t spoor_sender_acked(struct spoor_sender *s);
/* Bytes of events that it takes now, with the packets around them. */
size_t spoor_sender_room(struct spoor_sender *s);
size_t spoor_sender_memory(const struct spoor_sender *s);
/* Its writer is about to end: what it has to say yet is taken as it comes. A trace without its end makes no sense. */
void spoor_sender_closing(struct spoor_sender *s);
/* Waits until everything was carried out. -ETIMEDOUT. */
int spoor_sender_flush(struct spoor_sender *s, unsigned ms);
void spoor_sender_stats(struct spoor_sender *s, struct spoor_sender_stats *ret);

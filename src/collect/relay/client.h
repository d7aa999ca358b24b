/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A recorder's way to its relay: where that is, as whom it goes there, and the traces that have ended and are not all
 * there yet. Not thread-safe.
 */
#include "collect/relay/sender.h"
#include "collect/relay/tls.h"

struct spoor_relay_client;

struct spoor_relay_client_options {
	const char *url;
	struct spoor_tls_files tls;
	const char *host; /* NULL: the machine's name */
	uint64_t memory;  /* of each trace; 0: SPOOR_RELAY_MEMORY */
};
#define SPOOR_RELAY_MEMORY (64ULL << 20)
#define SPOOR_RELAY_MEMORY_MOST (4ULL << 30) /* else a relay cannot tell what of it is there: SPOOR_RELAY_WINDOW */

/* -EINVAL, -EPERM: options. */
int spoor_relay_client_new(const struct spoor_relay_client_options *o, struct spoor_relay_client **ret,
			   struct spoor_error *e);
/* Waits for traces that have ended, up to so long. Returns bytes that did not get there. NULL is fine. */
uint64_t spoor_relay_client_free(struct spoor_relay_client *c, unsigned ms);
const char *spoor_relay_client_url(const struct spoor_relay_client *c);

/* name: of the trace; token, resume: as of struct spoor_sender_options. */
int spoor_relay_client_send(struct spoor_relay_client *c, const char *name, const uint8_t *token, bool resume,
			    struct spoor_sender **ret, struct spoor_error *e);
/* The trace has ended: what waits is sent still; s is freed then. NULL is fine. */
void spoor_relay_client_leave(struct spoor_relay_client *c, struct spoor_sender *s);
/* each() gets those of which something waits yet. */
void spoor_relay_client_leaving(struct spoor_relay_client *c, void (*each)(void *ctx, struct spoor_sender *s),
				void *ctx);

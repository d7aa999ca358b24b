/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A relay: receives traces of senders (sender.h) and writes them. One thread around epoll. From a sender whose
 * operation is not written yet nothing more is read; who is silent, or breaks the protocol, is disconnected, and it is
 * said. Not thread-safe.
 */
#include <openssl/ssl.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/relay/endpoint.h"

struct spoor_relay;

struct spoor_relay_options {
	struct spoor_endpoint at;
	const char *output; /* a directory; it is made */
	SSL_CTX *tls;       /* taken over; NULL: plain */
	unsigned max_clients;
	uint64_t patience; /* ns: so long a trace whose sender is away counts as being written */
	void (*say)(void *ctx, const char *text);
	void *ctx;
};

int spoor_relay_open(const struct spoor_relay_options *o, struct spoor_relay **ret, struct spoor_error *e);
/* Disconnects all; traces stay as they are, for their senders to go on with at another relay process. */
void spoor_relay_close(struct spoor_relay *r);
int spoor_relay_fd(const struct spoor_relay *r);
/* "tcp://127.0.0.1:7176", as it listens. */
void spoor_relay_address(const struct spoor_relay *r, char *text, size_t size);
/* What there is to do. Returns ms until it is due again. */
int spoor_relay_serve(struct spoor_relay *r);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/relay/protocol.h"

#define PART_UST 2 /* a bit: struct spoor_relay_hello */

struct leaving {
	struct leaving *next;
	struct spoor_sender *sender;
};

struct spoor_relay_client {
	struct spoor_endpoint to;
	SSL_CTX *tls;
	char url[384], host[SPOOR_RELAY_HOST];
	size_t memory;
	struct leaving *leaving;
};

static int init(struct spoor_relay_client *c, const struct spoor_relay_client_options *o, struct spoor_error *e)
{
	char name[256] = "localhost";
	int r = spoor_endpoint_parse(o->url, &c->to, e);

	if (r)
		return r;
	if (!c->to.tls && (o->tls.ca || o->tls.cert || o->tls.key))
		return spoor_fail(e, EINVAL, "%s: certificates are for tls://", o->url);
	if (c->to.tls)
		r = spoor_tls_new(&o->tls, false, &c->tls, e);
	if (r)
		return r;
	gethostname(name, sizeof(name) - 1);
	spoor_relay_make_host(o->host ? o->host : name, c->host);
	snprintf(c->url, sizeof(c->url), "%s", o->url);
	c->memory = o->memory ? o->memory : SPOOR_RELAY_MEMORY;
	return 0;
}

int spoor_relay_client_new(const struct spoor_relay_client_options *o, struct spoor_relay_client **ret,
			   struct spoor_error *e)
{
	struct spoor_relay_client *c = calloc(1, sizeof(*c));
	int r = c ? init(c, o, e) : spoor_fail(e, ENOMEM, "out of memory");

	if (r) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

/* Those that are done. */
static void reap(struct spoor_relay_client *c)
{
	for (struct leaving **at = &c->leaving, *l; (l = *at);) {
		if (spoor_sender_flush(l->sender, 0)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		spoor_sender_free(l->sender);
		free(l);
	}
}

uint64_t spoor_relay_client_free(struct spoor_relay_client *c, unsigned ms)
{
	uint64_t until = spoor_now_monotonic() + ms * 1000000ULL, lost = 0;

	if (!c)
		return 0;
	while (c->leaving) {
		struct leaving *l = c->leaving;
		uint64_t now = spoor_now_monotonic();
		struct spoor_sender_stats stats;

		spoor_sender_flush(l->sender, now < until ? (until - now) / 1000000 : 0);
		spoor_sender_stats(l->sender, &stats);
		lost += stats.waiting;
		c->leaving = l->next;
		spoor_sender_free(l->sender);
		free(l);
	}
	SSL_CTX_free(c->tls);
	free(c);
	return lost;
}

const char *spoor_relay_client_url(const struct spoor_relay_client *c)
{
	return c->url;
}

int spoor_relay_client_send(struct spoor_relay_client *c, const char *name, const uint8_t *token, bool resume,
			    struct spoor_sender **ret, struct spoor_error *e)
{
	struct spoor_sender_options o = {
		.to = c->to,
		.tls = c->tls,
		.host = c->host,
		.name = name,
		.token = token,
		.resume = resume,
		.memory = c->memory,
		.parts = PART_UST,
	};

	reap(c);
	return spoor_sender_new(&o, ret, e);
}

void spoor_relay_client_leave(struct spoor_relay_client *c, struct spoor_sender *s)
{
	struct leaving *l = s ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		spoor_sender_free(s);
		return;
	}
	*l = (struct leaving){ c->leaving, s };
	c->leaving = l;
	reap(c);
}

void spoor_relay_client_leaving(struct spoor_relay_client *c, void (*each)(void *ctx, struct spoor_sender *s),
				void *ctx)
{
	reap(c);
	for (struct leaving *l = c->leaving; l; l = l->next)
		each(ctx, l->sender);
}

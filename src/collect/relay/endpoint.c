/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"
#include "collect/relay/protocol.h"

static bool is_loopback(const char *host)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (!strcmp(host, "localhost"))
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int wrong(const char *text, struct spoor_error *e)
{
	char shown[128];

	spoor_escape_terminal(text, strlen(text), shown, sizeof(shown));
	return spoor_fail(e, EINVAL,
			  "%s: no address of a relay: tcp://HOST[:PORT] or tls://HOST[:PORT], IPv6 in brackets", shown);
}

/* Host, and what is behind it. */
static const char *take_host(const char *at, struct spoor_endpoint *ep)
{
	const char *end = *at == '[' ? strchr(at, ']') : at + strcspn(at, ":");
	const char *rest;

	if (!end)
		return NULL;
	rest = end;
	if (*at == '[') {
		struct in6_addr v6;

		at++;
		rest++;
		if ((size_t)(end - at) >= sizeof(ep->host))
			return NULL;
		snprintf(ep->host, sizeof(ep->host), "%.*s", (int)(end - at), at);
		return inet_pton(AF_INET6, ep->host, &v6) == 1 ? rest : NULL;
	}
	if (end == at || (size_t)(end - at) >= sizeof(ep->host))
		return NULL;
	snprintf(ep->host, sizeof(ep->host), "%.*s", (int)(end - at), at);
	return spoor_relay_is_name(ep->host, sizeof(ep->host)) ? rest : NULL;
}

int spoor_endpoint_parse(const char *text, struct spoor_endpoint *ret, struct spoor_error *e)
{
	struct spoor_endpoint ep = { .tls = !strncmp(text, "tls://", 6), .port = SPOOR_RELAY_PORT };
	const char *rest;
	uint64_t port;

	if (!ep.tls && strncmp(text, "tcp://", 6))
		return wrong(text, e);
	rest = take_host(text + 6, &ep);
	if (!rest || (*rest && *rest != ':'))
		return wrong(text, e);
	if (*rest) {
		if (spoor_parse_number(rest + 1, 0, 65535, &port))
			return wrong(text, e);
		snprintf(ep.port, sizeof(ep.port), "%u", (unsigned)port);
	}
	if (!ep.tls && !is_loopback(ep.host))
		return spoor_fail(e, EPERM,
				  "%s: a trace goes to another machine only encrypted: tls%s, with certificates", text,
				  text + 3);
	*ret = ep;
	return 0;
}

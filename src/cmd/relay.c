/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor relay`: receives what `spoor daemon --relay` on other machines records. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "collect/relay/protocol.h"
#include "collect/relay/server.h"
#include "collect/relay/tls.h"

#define CLIENTS 256
#define MOST_CLIENTS 10000
#define PATIENCE (60 * SPOOR_NS_PER_SEC)

struct relay_options {
	struct spoor_relay_options o;
	struct spoor_tls_files tls;
	const char *listen;
};

static void say(void *ctx, const char *text)
{
	spoor_cmd_say("relay", text);
}

#define AT(member) SPOOR_AT(struct relay_options, member)

static const struct spoor_option options[] = {
	{ "listen", 0, SPOOR_OPTION_TEXT, AT(listen) },
	{ "output", 'o', SPOOR_OPTION_TEXT, AT(o.output) },
	{ "ca", 0, SPOOR_OPTION_TEXT, AT(tls.ca) },
	{ "cert", 0, SPOOR_OPTION_TEXT, AT(tls.cert) },
	{ "key", 0, SPOOR_OPTION_TEXT, AT(tls.key) },
	{ "max-clients", 0, SPOOR_OPTION_COUNT, AT(o.max_clients), .least = 1, .most = MOST_CLIENTS },
	{ "patience", 0, SPOOR_OPTION_DURATION, AT(o.patience) },
	{},
};

static int parse(int argc, char **argv, struct relay_options *o, struct spoor_error *e)
{
	const struct spoor_command_line line = { .verb = "relay", .options = options };
	int r = spoor_options_parse(&line, argc, argv, o, NULL, e);

	if (r)
		return r;
	if (optind < argc)
		return spoor_fail(e, EINVAL, "it takes no arguments");
	if (!o->o.output)
		return spoor_fail(e, EINVAL, "where to? -o DIR");
	r = spoor_endpoint_parse(o->listen, &o->o.at, e);
	if (r)
		return r;
	if (o->o.at.tls ? !o->tls.ca || !o->tls.cert : o->tls.ca || o->tls.cert || o->tls.key)
		return spoor_fail(e, EINVAL,
				  o->o.at.tls ? "tls:// needs --ca and --cert" : "certificates are for tls://");
	return 0;
}

static void run(struct spoor_relay *r, int signal_fd)
{
	for (;;) {
		struct pollfd fds[] = { { .fd = spoor_relay_fd(r), .events = POLLIN },
					{ .fd = signal_fd, .events = POLLIN } };

		poll(fds, 2, spoor_relay_serve(r));
		if (fds[1].revents)
			return;
	}
}

int spoor_cmd_relay(int argc, char **argv)
{
	struct relay_options o = { .o = { .max_clients = CLIENTS, .patience = PATIENCE, .say = say },
			     .listen = "tcp://127.0.0.1:" SPOOR_RELAY_PORT };
	struct spoor_error e = { "" };
	struct spoor_relay *relay;
	char address[96];
	int r = parse(argc, argv, &o, &e), signal_fd;

	if (r > 0)
		return spoor_cmd_usage("relay");
	if (r)
		return spoor_cmd_misuse("relay", &e);
	spoor_descriptors_raise();
	r = signal_fd = spoor_signals_serve(&e);
	if (r >= 0 && o.o.at.tls)
		r = spoor_tls_new(&o.tls, true, &o.o.tls, &e);
	if (r >= 0)
		r = spoor_relay_open(&o.o, &relay, &e);
	if (r < 0) {
		say(NULL, e.text);
		return SPOOR_EXIT_FAILED;
	}
	spoor_relay_address(relay, address, sizeof(address));
	fprintf(stderr, "spoor relay: ready at %s\n", address);
	run(relay, signal_fd);
	spoor_relay_close(relay);
	return SPOOR_EXIT_OK;
}

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

struct options {
	struct spoor_relay_options o;
	struct spoor_tls_files tls;
	const char *listen;
};

static void say(void *ctx, const char *text)
{
	spoor_cmd_say("relay", text);
}

static int parse_option(int c, const char *arg, struct options *o, struct spoor_error *e)
{
	uint64_t n;

	switch (c) {
	case 'l':
		o->listen = arg;
		return 0;
	case 'o':
		o->o.output = arg;
		return *arg ? 0 : spoor_fail(e, EINVAL, "-o: an empty name");
	case 'a':
		o->tls.ca = arg;
		return 0;
	case 'c':
		o->tls.cert = arg;
		return 0;
	case 'k':
		o->tls.key = arg;
		return 0;
	case 'm':
		if (spoor_parse_number(arg, 1, MOST_CLIENTS, &n))
			return spoor_fail(e, EINVAL, "--max-clients %s: a number from 1 to %d", arg, MOST_CLIENTS);
		o->o.max_clients = n;
		return 0;
	case 'p':
		if (spoor_parse_duration(arg, &o->o.patience))
			return spoor_fail(e, EINVAL, "--patience %s: a time such as 60s", arg);
		return 0;
	}
	return spoor_fail(e, EINVAL, "it does not have that option, or it needs a value; 'spoor relay -h' lists them");
}

static int parse(int argc, char **argv, struct options *o, struct spoor_error *e)
{
	static const struct option options[] = { { "listen", required_argument, NULL, 'l' },
						 { "output", required_argument, NULL, 'o' },
						 { "ca", required_argument, NULL, 'a' },
						 { "cert", required_argument, NULL, 'c' },
						 { "key", required_argument, NULL, 'k' },
						 { "max-clients", required_argument, NULL, 'm' },
						 { "patience", required_argument, NULL, 'p' },
						 { "help", no_argument, NULL, 'h' },
						 {} };
	int c, r = 0;

	opterr = 0;
	while (!r && (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
		if (c == 'h')
			return 1;
		r = parse_option(c, optarg, o, e);
	}
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
	struct options o = { .o = { .max_clients = CLIENTS, .patience = PATIENCE, .say = say },
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

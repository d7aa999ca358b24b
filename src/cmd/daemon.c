/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor daemon`: a recorder that stays. Sessions come and go by `spoor ust start` and so on (daemon_commands.c). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/daemon.h"
#include "cmd/options.h"
#include "cmd/target_options.h"
#include "cmd/ust.h"
#include "collect/user/keeper.h"
#include "collect/user/state.h"

#define PATIENCE_MS 5000
#define SAVE_EVERY (100 * 1000000ULL) /* ns */
#define SAVE_AGAIN SPOOR_NS_PER_SEC   /* where it could not be */

static void warn(void *ctx, const char *text)
{
	spoor_cmd_say("daemon", text);
}

/* /run/spoor for root; else the user's own directory. */
static int standard_socket(char *path, size_t size, struct spoor_error *e)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");

	if (!geteuid()) {
		if (mkdir("/run/spoor", 0755) && errno != EEXIST)
			return spoor_fail(e, errno, "/run/spoor: cannot be created: %s", strerror(errno));
		snprintf(path, size, "%s", SPOOR_CONTROL_SOCKET);
		return 0;
	}
	if (!dir || !*dir)
		return spoor_fail(e, ENOENT, "XDG_RUNTIME_DIR is not set: give --socket PATH");
	snprintf(path, size, "%s/%s", dir, SPOOR_CONTROL_USER_SOCKET);
	return 0;
}

/* Absolute, as programs take it that are told of it by a relative one; they change their directory. */
static void named_socket(const char *name, char path[PATH_MAX])
{
	const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path);
	char cwd[PATH_MAX];

	while (!strncmp(name, "./", 2))
		name += 2;
	if (*name == '/' || !getcwd(cwd, sizeof(cwd)) || strlen(cwd) + 1 + strlen(name) >= most)
		snprintf(path, PATH_MAX, "%s", name);
	else
		snprintf(path, PATH_MAX, "%s/%s", cwd, name);
}

int spoor_daemon_save(struct spoor_daemon *d, struct spoor_error *e)
{
	int r = spoor_state_save(d->hub, d->state, e);

	d->saved = spoor_now_monotonic();
	d->unsaved = r;
	return r;
}

/* What can be told of programs that came can be told by the next daemon, too, if this one is killed. */
static void save_comings(struct spoor_daemon *d)
{
	uint64_t since = spoor_now_monotonic() - d->saved;

	if (d->unsaved ? since >= SAVE_AGAIN : since >= SAVE_EVERY && spoor_state_is_old(d->hub))
		spoor_daemon_save(d, NULL);
}

/* So is what cannot be written: its trace has no room for that. */
static void save_unwritten(void *daemon)
{
	spoor_daemon_save(daemon, NULL);
}

/* Told to end, it waits yet for who is just being told of a session's end. */
static void run(struct spoor_daemon *d, int signal_fd)
{
	bool told = false;

	while (!told || spoor_hub_recalls(d->hub)) {
		struct pollfd fds[] = { { .fd = spoor_hub_fd(d->hub), .events = POLLIN },
					{ .fd = told ? -1 : signal_fd, .events = POLLIN } };

		poll(fds, 2, spoor_hub_tick(d->hub));
		told |= fds[1].revents != 0;
		if (fds[0].revents)
			spoor_hub_serve(d->hub);
		save_comings(d);
	}
}

static void say_asking(const char *url)
{
	struct spoor_error text;

	spoor_fail(&text, 0, "asking %s what it has", url);
	spoor_cmd_say("daemon", text.text);
}

/* The keeper holds the socket of a daemon that was killed just now. */
static int open_again(struct spoor_daemon *d, const struct spoor_hub_options *o, struct spoor_error *e)
{
	int r = spoor_keeper_is_free(o->keeper);

	if (!r)
		return spoor_hub_open(o, &d->hub, e);
	if (r == -EAGAIN)
		spoor_fail(e, EADDRINUSE,
			   "%s: another recorder uses it; or one that was killed did, and trace-keeper, which has it "
			   "still (%s), does not answer",
			   d->socket, o->keeper);
	return -EADDRINUSE;
}

static int begin(struct spoor_daemon *d, const struct spoor_relay_client_options *relay, bool everybody,
		 struct spoor_error *e)
{
	struct spoor_hub_options o = {
		.path = d->socket,
		.everybody = everybody,
		.cache_dir = spoor_cache_directory(d->cache),
		.command = spoor_daemon_command,
		.ended = spoor_daemon_ended,
		.unwritten = save_unwritten,
		.warn = warn,
		.ctx = d,
	};
	char keeper[PATH_MAX + 8];
	int r = relay->url ? spoor_relay_client_new(relay, &d->relay, e) : 0;

	snprintf(d->state, sizeof(d->state), "%s" SPOOR_CONTROL_STATE, d->socket);
	snprintf(keeper, sizeof(keeper), "%s.keeper", d->socket);
	o.keeper = keeper;
	o.goes_on = !access(d->state, F_OK);
	if (!r)
		r = spoor_hub_open(&o, &d->hub, e);
	if (r == -EADDRINUSE && !spoor_hub_maker_lives(d->socket))
		r = open_again(d, &o, e);
	if (r)
		return r;
	if (d->relay && o.goes_on)
		say_asking(relay->url);
	r = spoor_state_load(d->hub, d->state, d->relay, e);
	if (r < 0)
		return r;
	spoor_hub_publish(d->hub);
	spoor_hub_keep(d->hub);
	if (r) {
		fprintf(stderr, "spoor daemon: %d %s on\n", r, spoor_plural(r, "session goes", "sessions go"));
		spoor_daemon_save(d, NULL);
		spoor_hub_kick(d->hub, NULL, 0, NULL);
	}
	spoor_hub_recall(d->hub, 0);
	return 0;
}

/* Programs go on; what they write stays in their buffers for the daemon that comes next. */
static void suspend(struct spoor_daemon *d)
{
	struct spoor_error e = { "" };
	struct spoor_ust_session *s;

	/* Who has ended does not come again. Once, before the first session is gone: another's programs are told so. */
	spoor_hub_leave(d->hub);
	for (s = spoor_hub_next(d->hub, NULL); s; s = spoor_hub_next(d->hub, s))
		spoor_hub_drain(d->hub, s);
	if (spoor_daemon_save(d, &e) && spoor_hub_next(d->hub, NULL))
		spoor_cmd_say("daemon", e.text);
	while ((s = spoor_hub_next(d->hub, NULL)))
		spoor_hub_suspend(d->hub, s, NULL);
}

static void leave_relay(struct spoor_daemon *d)
{
	uint64_t lost = spoor_relay_client_free(d->relay, PATIENCE_MS);

	if (lost)
		fprintf(stderr,
			"spoor daemon: %" PRIu64 " %s did not get to the relay; what programs still hold of them "
			"is not lost\n",
			lost, spoor_plural(lost, "byte", "bytes"));
}

static int check_relay(const struct spoor_relay_client_options *o, struct spoor_error *e)
{
	struct spoor_endpoint any;

	if (o->url) {
		int r = spoor_endpoint_parse(o->url, &any, e);

		if (!r && any.tls && (!o->tls.ca || !o->tls.cert))
			r = spoor_fail(e, EINVAL, "%s needs certificates: --relay-ca and --relay-cert", o->url);
		if (!r && o->memory > SPOOR_RELAY_MEMORY_MOST)
			r = spoor_fail(e, EINVAL, "--relay-memory: at most 4G");
		return r;
	}
	if (o->host || o->memory || o->tls.ca || o->tls.cert || o->tls.key)
		return spoor_fail(e, EINVAL, "that option is for --relay URL");
	return 0;
}

struct daemon_options {
	const char *socket;
	struct spoor_relay_client_options relay;
};

#define AT(member) SPOOR_AT(struct daemon_options, member)

static const struct spoor_option options[] = {
	{ "socket", 0, SPOOR_OPTION_TEXT, AT(socket) },
	{ "relay", 0, SPOOR_OPTION_TEXT, AT(relay.url) },
	{ "relay-ca", 0, SPOOR_OPTION_TEXT, AT(relay.tls.ca) },
	{ "relay-cert", 0, SPOOR_OPTION_TEXT, AT(relay.tls.cert) },
	{ "relay-key", 0, SPOOR_OPTION_TEXT, AT(relay.tls.key) },
	{ "relay-memory", 0, SPOOR_OPTION_SIZE, AT(relay.memory), .least = 1 << 20 },
	{ "host-name", 0, SPOOR_OPTION_TEXT, AT(relay.host) },
	{},
};

static int parse(struct daemon_options *o, int argc, char **argv, struct spoor_error *e)
{
	const struct spoor_command_line line = { .verb = "daemon", .options = options };
	int r = spoor_options_parse(&line, argc, argv, o, NULL, e);

	if (r)
		return r;
	if (optind < argc)
		return spoor_fail(e, EINVAL, "it takes no arguments; 'spoor ust start' and so on give it commands");
	return check_relay(&o->relay, e);
}

int spoor_cmd_daemon(int argc, char **argv)
{
	struct daemon_options o = {};
	static struct spoor_daemon d;
	struct spoor_error e = { "" };
	char ready[sizeof(d.socket) + 16];
	int r = parse(&o, argc, argv, &e), signal_fd;

	if (r > 0)
		return spoor_cmd_usage("daemon");
	if (r)
		return spoor_cmd_misuse("daemon", &e);
	spoor_descriptors_raise();
	r = signal_fd = spoor_signals_serve(&e);
	if (!o.socket)
		o.socket = getenv(SPOOR_CONTROL_VARIABLE);
	if (o.socket && *o.socket)
		named_socket(o.socket, d.socket);
	else if (r >= 0)
		r = standard_socket(d.socket, sizeof(d.socket), &e);
	if (r >= 0)
		r = begin(&d, &o.relay, !geteuid(), &e);
	if (r < 0) {
		spoor_cmd_say("daemon", e.text);
		spoor_hub_close(d.hub);
		spoor_relay_client_free(d.relay, 0);
		return SPOOR_EXIT_FAILED;
	}
	snprintf(ready, sizeof(ready), "ready at %s", d.socket);
	spoor_cmd_say("daemon", ready);
	run(&d, signal_fd);
	suspend(&d);
	spoor_hub_close(d.hub);
	leave_relay(&d);
	return SPOOR_EXIT_OK;
}

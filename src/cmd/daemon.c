/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor daemon`: a recorder that stays. Sessions come and go by `spoor ust start` and so on (daemon_commands.c). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/daemon.h"
#include "cmd/ust.h"
#include "collect/user/state.h"

static int misuse(const char *text)
{
	fprintf(stderr, "spoor daemon: %s\n", text);
	return SPOOR_EXIT_USAGE;
}

static void warn(void *ctx, const char *text)
{
	spoor_ust_say(text);
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

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A program costs two descriptors, and there may be thousands. */
static void raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

static void run(struct spoor_daemon *d, int signal_fd)
{
	for (;;) {
		struct pollfd fds[] = { { .fd = spoor_hub_fd(d->hub), .events = POLLIN },
					{ .fd = signal_fd, .events = POLLIN } };

		poll(fds, 2, spoor_hub_tick(d->hub));
		if (fds[1].revents)
			return;
		if (fds[0].revents)
			spoor_hub_serve(d->hub);
	}
}

static int begin(struct spoor_daemon *d, bool everybody, struct spoor_error *e)
{
	struct spoor_hub_options o = {
		.path = d->socket,
		.everybody = everybody,
		.command = spoor_daemon_command,
		.warn = warn,
		.ctx = d,
	};
	char keeper[PATH_MAX + 8];
	int r = spoor_hub_open(&o, &d->hub, e);

	if (r)
		return r;
	snprintf(d->state, sizeof(d->state), "%s.state", d->socket);
	snprintf(keeper, sizeof(keeper), "%s.keeper", d->socket);
	r = spoor_state_load(d->hub, d->state, e);
	if (r < 0)
		return r;
	spoor_hub_keep(d->hub, keeper);
	if (r) {
		fprintf(stderr, "spoor daemon: %d session%s go%s on\n", r, r == 1 ? "" : "s", r == 1 ? "es" : "");
		spoor_state_save(d->hub, d->state, NULL);
		spoor_hub_kick(d->hub, 0, NULL);
	}
	return 0;
}

/* Programs go on; what they write stays in their buffers for the daemon that comes next. */
static void suspend(struct spoor_daemon *d)
{
	struct spoor_ust_session *s;

	spoor_state_save(d->hub, d->state, NULL);
	while ((s = spoor_hub_next(d->hub, NULL)))
		spoor_hub_suspend(d->hub, s, NULL);
}

int spoor_cmd_daemon(int argc, char **argv)
{
	static const struct option options[] = { { "socket", required_argument, NULL, 's' },
						 { "help", no_argument, NULL, 'h' },
						 {} };
	static struct spoor_daemon d;
	struct spoor_error e = { "" };
	bool standard = true;
	int c, r, signal_fd;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return spoor_cmd_usage("daemon");
		if (c != 's' || !*optarg)
			return misuse("it has the options --socket PATH and -h");
		snprintf(d.socket, sizeof(d.socket), "%s", optarg);
		standard = false;
	}
	if (optind < argc)
		return misuse("it takes no arguments; 'spoor ust start' and so on give it commands");
	raise_limit();
	signal_fd = block_signals();
	r = standard ? standard_socket(d.socket, sizeof(d.socket), &e) : 0;
	if (!r)
		r = begin(&d, !geteuid(), &e);
	if (r < 0) {
		fprintf(stderr, "spoor daemon: %s\n", e.text);
		spoor_hub_close(d.hub);
		return SPOOR_EXIT_FAILED;
	}
	fprintf(stderr, "spoor daemon: ready at %s\n", d.socket);
	run(&d, signal_fd);
	suspend(&d);
	spoor_hub_close(d.hub);
	return SPOOR_EXIT_OK;
}

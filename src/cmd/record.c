/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor record`: options in, a recording (src/collect/session/session.c), one line out. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/record_options.h"
#include "cmd/target_options.h"
#include "cmd/ust.h"
#include "collect/kernel/control.h"
#include "collect/session/check.h"
#include "collect/session/remote.h"

/* ---- the last line ---- */

static uint64_t sum(const void *counters, int count)
{
	const uint64_t *n = counters;
	uint64_t s = 0;

	for (int i = 0; i < count; i++)
		s += n[i];
	return s;
}

/* Of names that hold what a terminal would obey. */
static const char *show(const char *text, char *buf, size_t size)
{
	spoor_escape_line(text, strlen(text), buf, size);
	return buf;
}

static void say_end(const struct spoor_record_options *o, const struct spoor_session_result *r)
{
	uint64_t kernel = sum(r->kernel.walks, SPOOR_WALK_STATUS_MAX);
	uint64_t user = sum(r->objects.walks, SPOOR_WALK_STATUS_MAX);
	uint64_t lost = r->kernel.raw_lost, late = r->objects.overflow;
	char user_time[32], system_time[32], losses[64], dropped[48], shown[PATH_MAX];

	spoor_format_duration(r->user_ns, user_time, sizeof(user_time));
	spoor_format_duration(r->system_ns, system_time, sizeof(system_time));
	fprintf(stderr,
		"spoor: %lu %s, %lu lost%s; %lu %s walked in the kernel, %lu in user space; %.1f MB in %s; "
		"own cost %s user, %s system\n",
		r->consumer.events, spoor_plural(r->consumer.events, "event", "events"), r->consumer.discarded,
		spoor_ust_dropped(r->dropped, dropped, sizeof(dropped)), kernel,
		spoor_plural(kernel, "stack", "stacks"), user, r->bytes / 1e6, show(o->s.output, shown, sizeof(shown)),
		user_time, system_time);
	if (o->s.ust)
		fprintf(stderr, "spoor: and %lu user %s of %u %s, %s\n", r->user.events,
			spoor_plural(r->user.events, "event", "events"), r->user.programs,
			spoor_plural(r->user.programs, "program", "programs"),
			spoor_ust_losses(r->user.lost, r->user.overwritten, losses, sizeof(losses)));
	if (o->s.ust)
		spoor_ust_say_end(&r->user);
	if (lost)
		fprintf(stderr,
			"spoor: %lu %s lost: no room for the raw copies to be walked in user space; give more "
			"--buffers\n",
			(unsigned long)lost, spoor_plural(lost, "stack was", "stacks were"));
	if (late)
		fprintf(stderr,
			"spoor: %lu %s lost: user space walked more slowly than they came, until the programs' unwind "
			"rows were loaded\n",
			(unsigned long)late, spoor_plural(late, "stack was", "stacks were"));
	if (r->kernel.thread_misses)
		fprintf(stderr,
			"spoor: %lu %s not recorded, nor perhaps what they started: no kernel memory for them\n",
			(unsigned long)r->kernel.thread_misses,
			spoor_plural(r->kernel.thread_misses, "thread was", "threads were"));
	if (r->consumer.damaged)
		fprintf(stderr, "spoor: %lu %s of a buffer made no sense: lost; this is an error of Spoor's\n",
			(unsigned long)r->consumer.damaged, spoor_plural(r->consumer.damaged, "stretch", "stretches"));
	if (r->full)
		fprintf(stderr,
			"spoor: there were more than %u programs and libraries: stacks end in those that came later; "
			"record for a shorter time\n",
			SPOOR_KERNEL_OBJECTS - 2);
	spoor_say_forbidden(r->objects.forbidden);
	if (r->objects.no_memory)
		fprintf(stderr,
			"spoor: the unwind rows of %lu %s did not fit: walks end there with \"no rows\"; "
			"give more --row-memory\n",
			r->objects.no_memory, spoor_plural(r->objects.no_memory, "object", "objects"));
	if (r->overhead)
		fprintf(stderr,
			"spoor: --overhead %u.%u%% could not be held: up to %u.%u%% without any stack; record fewer "
			"calls (-e)\n",
			o->s.overhead / 10, o->s.overhead % 10, r->overhead / 10, r->overhead % 10);
	if (r->warning[0])
		fprintf(stderr, "spoor: %s; the recording ended early\n", show(r->warning, shown, sizeof(shown)));
}

static int exit_code(const struct spoor_record_options *o, const struct spoor_session_result *r)
{
	if (r->warning[0])
		return o->s.targets.argv ? SPOOR_EXIT_INTERNAL : SPOOR_EXIT_FAILED;
	if (r->end != SPOOR_END_COMMAND)
		return SPOOR_EXIT_OK;
	return WIFEXITED(r->wait_status) ? WEXITSTATUS(r->wait_status) : 128 + WTERMSIG(r->wait_status);
}

static void say_ready(const struct spoor_session_options *o, long threads)
{
	char shown[PATH_MAX];

	fprintf(stderr, "spoor: recording into %s, %ld %s so far; %s\n", show(o->output, shown, sizeof(shown)), threads,
		spoor_plural(threads, "thread", "threads"), o->duration_ns ? "it ends by itself" : "Ctrl-C ends it");
}

static void say_hidden(const struct spoor_session_options *o, size_t processes)
{
	const char *why = spoor_check_capable(CAP_SYS_PTRACE) ? "a security module or a namespace forbids it" :
								"CAP_SYS_PTRACE is missing";

	fprintf(stderr, "spoor: %zu %s cannot be looked into (%s); known by comm alone, with stacks that may be cut\n",
		processes, spoor_plural(processes, "process", "processes"), why);
}

static void say(const struct spoor_session_options *o, const char *text)
{
	char shown[2 * PATH_MAX];

	fprintf(stderr, "spoor: %s\n", show(text, shown, sizeof(shown)));
}

static void say_progress(const struct spoor_session_options *o, uint64_t ns, uint64_t events, uint64_t lost,
			 uint64_t bytes)
{
	fprintf(stderr, "\r%" PRIu64 "s  %" PRIu64 " %s  %" PRIu64 " lost  %.1f MB \033[K", ns / SPOOR_NS_PER_SEC,
		events, spoor_plural(events, "event", "events"), lost, (double)bytes / 1e6);
}

static int send_sets(const struct spoor_record_options *o)
{
	struct spoor_error e = { "" };

	if (!spoor_remote_send(o->s.targets.argv[0], o->sets, o->n_sets, &e))
		return SPOOR_EXIT_OK;
	spoor_cmd_say("record", e.text);
	return SPOOR_EXIT_FAILED;
}

int spoor_cmd_record(int argc, char **argv)
{
	static struct spoor_record_options o;
	struct spoor_session_result result;
	struct spoor_error e = { "" };
	int r = spoor_record_parse(&o, argc, argv);

	if (r)
		return r - 1;
	if (o.n_sets)
		return send_sets(&o);
	spoor_signals_survive(SIGPIPE);
	o.s.ready = say_ready;
	o.s.hidden = say_hidden;
	o.s.say = say;
	if (isatty(STDERR_FILENO) && !o.s.targets.argv) /* a command has the terminal for itself */
		o.s.progress = say_progress;
	do
		r = spoor_session_run(&o.s, &result, &e);
	while (r == -EEXIST && !access(o.s.output, F_OK) && spoor_record_choose_output(&o));
	if (o.s.progress)
		fputs("\r\033[K", stderr);
	if (r) {
		spoor_cmd_say("record", spoor_error_text(&e, r));
		return o.s.targets.argv ? SPOOR_EXIT_INTERNAL : SPOOR_EXIT_FAILED;
	}
	say_end(&o, &result);
	return exit_code(&o, &result);
}

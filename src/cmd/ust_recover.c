/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust recover`: a trace of what programs without a daemon, or programs that died, left. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/ust.h"
#include "collect/user/hub.h"
#include "collect/user/recover.h"

static const struct spoor_option options[] = {
	{ "output", 'o', SPOOR_OPTION_TEXT, .at = 0, .size = sizeof(const char *) },
	{},
};

static void say_unreadable(const struct spoor_recovery *r)
{
	char text[sizeof(r->why) + 64];

	if (!r->unreadable)
		return;
	snprintf(text, sizeof(text), "%u %s left out: %s", r->unreadable,
		 spoor_plural(r->unreadable, "file is", "files are"), r->why);
	spoor_ust_say(text);
}

static void say_cut(const struct spoor_recovery *r)
{
	char text[192];

	if (!r->cut)
		return;
	snprintf(text, sizeof(text),
		 "%u %s cut: %" PRIu64 " bytes are missing, at least %" PRIu64
		 " of them with events; the trace has what is there",
		 r->cut, spoor_plural(r->cut, "file is", "files are"), r->cut_bytes, r->missing);
	spoor_ust_say(text);
}

static void say_result(const struct spoor_recovery *r, const char *output)
{
	char losses[64], text[384];

	printf("%" PRIu64 " %s of %u %s in %s", r->events, spoor_plural(r->events, "event", "events"), r->programs,
	       spoor_plural(r->programs, "program", "programs"), output);
	if (r->lost || r->overwritten)
		printf(", %s", spoor_ust_losses(r->lost, r->overwritten, losses, sizeof(losses)));
	if (r->crashed)
		printf("; %u ended by a crash", r->crashed);
	if (r->unseen)
		printf("; %u ended by a crash, or by _exit() or execve()", r->unseen);
	if (r->running)
		printf("; %u still running", r->running);
	putchar('\n');
	if (r->children)
		fprintf(stderr,
			"spoor ust: %" PRIu64 " child %s could have no buffers: not recorded, %" PRIu64
			" of these %s lost; must the directory be writable for more users?\n",
			r->children, spoor_plural(r->children, "process", "processes"), r->lost_child,
			spoor_plural(r->lost_child, "event is", "events are"));
	if (r->stuck)
		fprintf(stderr, "spoor ust: %u %s could not be traced wholly: " SPOOR_HUB_STUCK "\n", r->stuck,
			spoor_plural(r->stuck, "program", "programs"));
	if (r->damaged.n)
		spoor_ust_say(spoor_ust_damaged(&r->damaged, text, sizeof(text)));
	if (r->undescribed)
		spoor_ust_say(spoor_ust_undescribed(r->undescribed, text, sizeof(text)));
	spoor_ust_say_uncounted(r->uncounted);
	say_cut(r);
	say_unreadable(r);
}

int spoor_ust_cmd_recover(int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "ust recover", .options = options };
	char name[64], date[32];
	const char *output = NULL;
	struct spoor_error e = { "" };
	struct spoor_recovery result;
	int r = spoor_options_parse(&line, argc, argv, &output, NULL, &e);

	if (r > 0)
		return spoor_cmd_usage("ust");
	if (!r && optind == argc)
		r = spoor_fail(&e, EINVAL, "which files? spoor ust recover DIR|FILE... [-o NAME.spoor]");
	if (r)
		return spoor_cmd_misuse("ust", &e);
	if (!output) {
		spoor_format_date(spoor_now_realtime(), date, sizeof(date));
		snprintf(name, sizeof(name), "ust-%s.spoor", date);
		for (int i = 2; i < 1000 && !access(name, F_OK); i++)
			snprintf(name, sizeof(name), "ust-%s-%d.spoor", date, i);
		output = name;
	}
	spoor_descriptors_raise(); /* what programs spilled stays open */
	if (spoor_recover(argv + optind, argc - optind, output, "spoor ust recover", &result, &e)) {
		spoor_ust_say(e.text);
		return SPOOR_EXIT_FAILED;
	}
	say_result(&result, output);
	return SPOOR_EXIT_OK;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cmd/cmd.h"

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{ "record", spoor_cmd_record, "record an application's system calls and who in its code made them" },
	{ "report", spoor_cmd_report, "show a trace by call site, or event by event" },
	{ "stat", spoor_cmd_stat, "count system calls in the kernel, by thread, with their times" },
	{ "ust", spoor_cmd_ust, "record what programs say of themselves" },
	{ "daemon", spoor_cmd_daemon, "record what programs say of themselves, as sessions ask for it" },
	{ "relay", spoor_cmd_relay, "receive traces of other machines" },
	{ "pack", spoor_cmd_pack, "put into a trace what its reading needs on another machine" },
	{ "repair", spoor_cmd_repair, "cut what a killed recording left torn, for other readers" },
	{ "check", spoor_cmd_check, "what works on this machine, what does not, and why" },
	{ "help", spoor_cmd_help, "the page of a verb: spoor help VERB" },
	{ "version", spoor_cmd_version, "which Spoor this is" },
};
#define N_VERBS (sizeof(verbs) / sizeof(*verbs))

static void print_verbs(FILE *out)
{
	fputs("usage: spoor VERB [OPTION...] [ARGUMENT...]\n\n", out);
	for (size_t i = 0; i < N_VERBS; i++)
		fprintf(out, "  %-8s  %s\n", verbs[i].name, verbs[i].help);
	fputs("\n'spoor VERB -h' shows a verb's options and examples, 'spoor help VERB' its whole page.\n", out);
}

static int unknown_verb(const char *word)
{
	const char *names[N_VERBS], *nearest;
	char shown[128];

	for (size_t i = 0; i < N_VERBS; i++)
		names[i] = verbs[i].name;
	nearest = spoor_nearest(word, names, N_VERBS);
	spoor_escape_terminal(word, strlen(word), shown, sizeof(shown));
	if (nearest)
		fprintf(stderr, "spoor: there is no verb '%s'; did you mean 'spoor %s'?\n", shown, nearest);
	else
		fprintf(stderr, "spoor: there is no verb '%s'; 'spoor --help' lists them\n", shown);
	return SPOOR_EXIT_USAGE;
}

int spoor_cmd_version(int argc, char **argv)
{
	puts("spoor " SPOOR_VERSION);
	return SPOOR_EXIT_OK;
}

/* What was said only into a buffer, or onto a full disk, was not said. A reader who left early is no error. */
static int finish(int code)
{
	int failed = ferror(stdout), err = 0;

	if (fflush(stdout) != 0) {
		failed = 1;
		err = errno;
	}
	if (code != SPOOR_EXIT_OK || !failed || err == EPIPE || spoor_file_unread(STDOUT_FILENO))
		return code;
	fprintf(stderr, "spoor: cannot write to standard output%s%s\n", err ? ": " : "", err ? strerror(err) : "");
	return SPOOR_EXIT_FAILED;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	spoor_signals_begin();
	spoor_signals_survive(SIGXFSZ);
	if (!word) {
		print_verbs(stderr);
		return SPOOR_EXIT_USAGE;
	}
	if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
		print_verbs(stdout);
		return finish(SPOOR_EXIT_OK);
	}
	if (!strcmp(word, "-V") || !strcmp(word, "--version"))
		word = "version";
	for (size_t i = 0; i < N_VERBS; i++)
		if (!strcmp(word, verbs[i].name))
			return finish(verbs[i].run(argc - 1, argv + 1));
	return unknown_verb(word);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		print_verbs(stderr);
		return SPOOR_EXIT_USAGE;
	}
	if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
		print_verbs(stdout);
		return SPOOR_EXIT_OK;
	}
	if (!strcmp(word, "-V") || !strcmp(word, "--version"))
		word = "version";
	for (size_t i = 0; i < N_VERBS; i++)
		if (!strcmp(word, verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	return unknown_verb(word);
}

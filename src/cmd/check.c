/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "collect/session/check.h"

#define MAX_CHECKS 64

static bool coloured(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no && *no);
}

static void print_text(const struct spoor_check *checks, size_t n, bool possible)
{
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
	bool colour = coloured();

	for (size_t i = 0; i < n; i++) {
		const struct spoor_check *c = &checks[i];

		printf("%s%-8s%s %-20s %s%s%s\n", colour ? colours[c->state] : "", spoor_check_state_name(c->state),
		       colour ? "\033[0m" : "", c->name, c->detail, *c->advice ? "; " : "", c->advice);
	}
	if (possible)
		puts("Recording is possible here.");
	else
		puts("Recording is not possible here: see the lines that begin with 'no'.");
}

static void print_json(const struct spoor_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct spoor_check *c = &checks[i];
		json_t *line =
			json_pack("{s:s, s:s, s:s, s:s?}", "check", c->name, "state", spoor_check_state_name(c->state),
				  "detail", c->detail, "advice", *c->advice ? c->advice : NULL);

		json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(line);
	}
}

/* 0, or the exit code of a misuse; -1: help was asked for. */
static int parse(int argc, char **argv, bool *ret_json)
{
	static const struct option options[] = {
		{ "format", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};

	for (int o; (o = getopt_long(argc, argv, "f:h", options, NULL)) != -1;) {
		if (o == 'h')
			return -1;
		if (o != 'f')
			return spoor_cmd_misuse("check");
		*ret_json = !strcmp(optarg, "json");
		if (!*ret_json && strcmp(optarg, "text")) {
			fprintf(stderr, "spoor check: format '%s': text or json\n", optarg);
			return SPOOR_EXIT_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "spoor check: takes no argument, not '%s'\n", argv[optind]);
	return spoor_cmd_misuse("check");
}

int spoor_cmd_check(int argc, char **argv)
{
	struct spoor_check checks[MAX_CHECKS];
	bool json = false, possible = true;
	int err = parse(argc, argv, &json);
	size_t n;

	if (err < 0)
		return spoor_cmd_usage("check");
	if (err)
		return err;
	n = spoor_check_machine(checks, MAX_CHECKS);
	for (size_t i = 0; i < n; i++)
		possible = possible && checks[i].state != SPOOR_CHECK_NO;
	if (json)
		print_json(checks, n);
	else
		print_text(checks, n, possible);
	return possible ? SPOOR_EXIT_OK : SPOOR_EXIT_FAILED;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
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

struct options {
	bool json;
};

static int parse(int argc, char **argv, struct options *o, struct spoor_error *e)
{
	static const struct spoor_option options[] = {
		{ "format", 'f', SPOOR_OPTION_WORD, SPOOR_AT(struct options, json), .words = spoor_format_words },
		{},
	};
	static const struct spoor_command_line line = { .verb = "check", .options = options };
	int r = spoor_options_parse(&line, argc, argv, o, NULL, e);

	if (!r && optind < argc)
		r = spoor_fail(e, EINVAL, "it takes no argument, not '%s'", argv[optind]);
	return r;
}

int spoor_cmd_check(int argc, char **argv)
{
	struct spoor_check checks[MAX_CHECKS];
	struct spoor_error e = { "" };
	struct options o = {};
	bool possible = true;
	int r = parse(argc, argv, &o, &e);
	size_t n;

	if (r)
		return r > 0 ? spoor_cmd_usage("check") : spoor_cmd_misuse("check", &e);
	n = spoor_check_machine(checks, MAX_CHECKS);
	for (size_t i = 0; i < n; i++)
		possible = possible && checks[i].state != SPOOR_CHECK_NO;
	if (o.json)
		print_json(checks, n);
	else
		print_text(checks, n, possible);
	return possible ? SPOOR_EXIT_OK : SPOOR_EXIT_FAILED;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

static const struct spoor_page *find_page(const char *verb)
{
	for (size_t i = 0; i < spoor_pages_n; i++)
		if (!strcmp(spoor_pages[i].verb, verb))
			return &spoor_pages[i];
	return NULL;
}

static bool is_heading(const char *line)
{
	return *line >= 'A' && *line <= 'Z';
}

static bool wanted(const char *heading)
{
	static const char *const sections[] = { "SYNOPSIS\n", "OPTIONS\n", "EXAMPLES\n" };

	for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++)
		if (!strncmp(heading, sections[i], strlen(sections[i])))
			return true;
	return false;
}

int spoor_cmd_usage(const char *verb)
{
	const struct spoor_page *page = find_page(verb);
	bool printing = false;

	if (!page)
		return SPOOR_EXIT_FAILED;
	for (const char *line = page->text, *end; *line; line = end) {
		end = strchrnul(line, '\n');
		end += *end == '\n';
		if (is_heading(line))
			printing = wanted(line);
		if (printing)
			fwrite(line, 1, end - line, stdout);
	}
	printf("The whole page: spoor help %s\n", verb);
	return SPOOR_EXIT_OK;
}

int spoor_cmd_help(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "spoor";
	const struct spoor_page *page = find_page(verb);
	struct spoor_pager pager;
	struct spoor_error e;

	if (argc == 2 && (!strcmp(verb, "-h") || !strcmp(verb, "--help")))
		return spoor_cmd_usage("spoor");
	if (argc > 2) {
		fprintf(stderr, "spoor help: one verb at a time: spoor help [VERB]\n");
		return SPOOR_EXIT_USAGE;
	}
	if (!page) {
		spoor_fail(&e, ENOENT, "there is no page '%s'; 'spoor help' lists the verbs", verb);
		spoor_cmd_say("help", e.text);
		return SPOOR_EXIT_USAGE;
	}
	pager = spoor_pager_open();
	fputs(page->text, pager.out);
	spoor_pager_close(&pager);
	return SPOOR_EXIT_OK;
}

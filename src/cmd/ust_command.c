/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/ust_command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"

static const char unnamed[] = "default";

#define MOST_NAME 64 /* characters of a session's */
#define AT(member) SPOOR_AT(struct spoor_ust_command, member)

static const struct spoor_option options[] = {
	SPOOR_UST_OPTIONS(struct spoor_ust_command, o),
	{ "all", 'a', SPOOR_OPTION_FLAG, AT(all) },
	{ "session", 's', SPOOR_OPTION_TEXT, AT(session) },
	{ "socket", 0, SPOOR_OPTION_TEXT, AT(socket) },
	{},
};

/* What words there may be behind a command, and which options say something with it. */
static const struct takes {
	const char *word;
	bool events, pids;
	const char *options; /* beside the session and the socket; NULL: all */
} takes[] = {
	{ "create", true, true, NULL },
	{ "start", true, true, NULL },
	{ "enable", true, true, "event level filter channel all" },
	{ "disable", true, true, "event channel all" },
	{ "stop", false, true, "all" },
	{ "status", false, true, "all" },
	{ "snapshot", false, false, "output" },
	{ "end", false, false, "" },
};

static const struct takes *find_command(const char *word)
{
	for (unsigned i = 0; i < sizeof(takes) / sizeof(*takes); i++)
		if (!strcmp(word, takes[i].word))
			return &takes[i];
	return NULL;
}

static bool is_among(const char *word, const char *list)
{
	size_t n = strlen(word);

	for (; *list; list += strspn(list, " ")) {
		size_t len = strcspn(list, " ");

		if (len == n && !memcmp(list, word, n))
			return true;
		list += len;
	}
	return false;
}

/* What was typed means something: an option that is passed over would not do what who typed it waits for. */
static int check_options(const struct spoor_ust_command *c, uint64_t given, struct spoor_error *e)
{
	const struct takes *t = find_command(c->word);

	for (unsigned i = 0; t && t->options && options[i].name; i++)
		if (given >> i & 1 && !is_among(options[i].name, t->options) &&
		    !is_among(options[i].name, "session socket"))
			return spoor_fail(e, EINVAL, "--%s says nothing of '%s'; 'spoor help ust' tells more",
					  options[i].name, c->word);
	return 0;
}

static int check_arguments(const struct spoor_ust_command *c, struct spoor_error *e)
{
	const struct takes *t = find_command(c->word);
	bool events = t && t->events, pids = t && t->pids;

	if (c->n_names && !events)
		return spoor_fail(e, EINVAL, "%s %s: it takes no such word; -s NAME says which session", c->word,
				  c->names[0]);
	if (c->n_pids && !pids)
		return spoor_fail(e, EINVAL, "%s %u: it is for a whole session (-s NAME), not for a process", c->word,
				  c->pids[0]);
	for (unsigned i = 0; i < c->n_names; i++)
		if (!spoor_ust_may_be_events(c->names[i]))
			return spoor_fail(e, EINVAL, "%s %s: neither a process nor an event (PROVIDER:NAME)", c->word,
					  c->names[i]);
	return 0;
}

/* It is shown, and kept in a file: nothing that would mean something there. */
static int check_session(const char *name, struct spoor_error *e)
{
	static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = strlen(name);

	if (n && n <= MOST_NAME && name[0] != '.' && strspn(name, may) == n)
		return 0;
	return spoor_fail(e, EINVAL,
			  "that is no name of a session: letters, digits, '.', '_' and '-', at most %d of them, no '.' "
			  "first",
			  MOST_NAME);
}

static int take_arguments(struct spoor_ust_command *c, int argc, char **argv, struct spoor_error *e)
{
	int r;

	for (int i = optind; i < argc; i++) {
		uint64_t pid;

		if (c->n_pids + c->n_names == SPOOR_UST_MOST_WORDS)
			return spoor_fail(e, E2BIG, "more than %d arguments", SPOOR_UST_MOST_WORDS);
		if (!spoor_parse_number(argv[i], 1, INT_MAX, &pid))
			c->pids[c->n_pids++] = pid;
		else
			c->names[c->n_names++] = argv[i];
	}
	if (c->all && c->n_pids)
		return spoor_fail(e, EINVAL, "-a and PIDs do not go together");
	r = check_arguments(c, e);
	for (unsigned i = 0; i < c->n_names && !r; i++) /* as behind -e */
		r = spoor_take_ust_event(&c->o, c->names[i], e);
	return r;
}

int spoor_ust_command_parse(struct spoor_ust_command *c, int argc, char **argv, struct spoor_error *e)
{
	struct spoor_command_line line = { .options = options };
	uint64_t given = 0;
	char verb[64];
	int r;

	*c = (struct spoor_ust_command){ .word = argv[0], .session = unnamed };
	spoor_ust_options_init(&c->o);
	snprintf(verb, sizeof(verb), "ust %s", argv[0]);
	line.verb = verb;
	optind = 0; /* getopt begins anew */
	r = spoor_options_parse(&line, argc, argv, c, &given, e);
	c->named = c->session != unnamed;
	if (!r)
		r = check_session(c->session, e);
	if (!r)
		r = check_options(c, given, e);
	return r ? r : take_arguments(c, argc, argv, e);
}

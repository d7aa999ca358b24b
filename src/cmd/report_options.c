/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/report_options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

/* ---- values ---- */

/* "1,2,3" */
static int take_ids(const char *option, const char *list, struct spoor_select *s,
		    int (*add)(struct spoor_select *s, uint32_t id), struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *copy = strdup(list);
	char *save = NULL, *word = copy ? strtok_r(copy, ",", &save) : NULL;
	uint64_t id;

	if (!word || strspn(list, ",") || strstr(list, ",,") || list[strlen(list) - 1] == ',')
		return spoor_fail(e, EINVAL, "%s takes numbers, separated by commas", option);
	for (; word; word = strtok_r(NULL, ",", &save)) {
		if (spoor_parse_number(word, 0, UINT32_MAX, &id))
			return spoor_fail(e, EINVAL, "%s takes numbers, not '%s'", option, word);
		if (add(s, (uint32_t)id) < 0)
			return spoor_fail(e, ENOMEM, "out of memory");
	}
	return 0;
}

static int take_pids(void *select, const char *arg, struct spoor_error *e)
{
	return take_ids("--pid", arg, select, spoor_select_add_pid, e);
}

static int take_tids(void *select, const char *arg, struct spoor_error *e)
{
	return take_ids("--tid", arg, select, spoor_select_add_tid, e);
}

static int take_functions(void *globs, const char *arg, struct spoor_error *e)
{
	if (spoor_globs_add(globs, arg) < 0)
		return spoor_fail(e, EINVAL, "--function takes names or globs, separated by commas");
	return 0;
}

static int take_events(void *globs, const char *arg, struct spoor_error *e)
{
	if (spoor_globs_add(globs, arg) < 0)
		return spoor_fail(e, EINVAL, "--event takes names or globs of user events, separated by commas");
	return 0;
}

static int take_errno(void *ret, const char *arg, struct spoor_error *e)
{
	int named = spoor_errno_by_name(arg);
	uint64_t number = 0;

	if (named <= 0 && !isdigit((unsigned char)arg[0]))
		return spoor_fail(e, EINVAL, "--errno: there is no '%s'; an example is ENOENT", arg);
	if (named <= 0 && spoor_parse_number(arg, 1, 4095, &number))
		return spoor_fail(e, EINVAL, "--errno: %s is no error number", arg);
	*(int *)ret = named > 0 ? named : (int)number;
	return 0;
}

static bool has_modes(const struct spoor_filter *f)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (f->mode[id] > SPOOR_FILTER_DEFAULT)
			return true;
	return f->other > SPOOR_FILTER_DEFAULT;
}

static int take_calls(void *filter, const char *arg, struct spoor_error *e)
{
	int r = spoor_filter_parse(filter, arg, e);

	if (!r && has_modes(filter))
		return spoor_fail(e, EINVAL, "-e: '%s': a mode is for recording, not for reports", arg);
	return r;
}

static int take_folded(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_report_options *o = options;

	o->folded = true;
	o->view.by_time = arg && !strcmp(arg, "time");
	if (arg && !o->view.by_time && strcmp(arg, "count"))
		return spoor_fail(e, EINVAL, "--folded=%s: by count or time", arg);
	return 0;
}

/* ---- the command line ---- */

#define AT(member) SPOOR_AT(struct spoor_report_options, member)

static const char *const groups[] = { "process", "app", "all", NULL };
static const char *const sorts[] = { "time", "calls", "errors", "max", NULL };

static const struct spoor_option options[] = {
	{ "events", 0, SPOOR_OPTION_FLAG, AT(events) },
	{ "format", 'f', SPOOR_OPTION_WORD, AT(json), .words = spoor_format_words },
	{ "folded", 0, SPOOR_OPTION_OWN, .take = take_folded, .optional = true },
	{ "follow", 0, SPOOR_OPTION_FLAG, AT(view.follow) },
	{ "blocked", 0, SPOOR_OPTION_FLAG, AT(blocked) },
	{ "stacks", 'k', SPOOR_OPTION_FLAG, AT(view.stacks) },
	{ "by", 0, SPOOR_OPTION_WORD, AT(view.by), .words = groups },
	{ "sort", 0, SPOOR_OPTION_WORD, AT(view.sort), .words = sorts },
	{ "top", 0, SPOOR_OPTION_COUNT, AT(view.top), .most = UINT32_MAX },
	{ "from", 0, SPOOR_OPTION_TEXT, AT(from) },
	{ "to", 0, SPOOR_OPTION_TEXT, AT(to) },
	{ "pid", 'p', SPOOR_OPTION_OWN, AT(select), .take = take_pids },
	{ "tid", 0, SPOOR_OPTION_OWN, AT(select), .take = take_tids },
	{ "syscall", 'e', SPOOR_OPTION_OWN, AT(filter), .take = take_calls },
	{ "function", 0, SPOOR_OPTION_OWN, AT(select.functions), .take = take_functions },
	{ "event", 0, SPOOR_OPTION_OWN, AT(select.events), .take = take_events },
	{ "errno", 0, SPOOR_OPTION_OWN, AT(select.errno_), .take = take_errno },
	{ "failed", 0, SPOOR_OPTION_FLAG, AT(select.failed) },
	{ "min-duration", 0, SPOOR_OPTION_DURATION, AT(select.min_duration) },
	{ "debug-root", 0, SPOOR_OPTION_TEXT, AT(debug_root) },
	{},
};

/* Of options that say how tables look, the one that was given; NULL: none. */
static const char *table_option(uint64_t given)
{
	static const char *const names[] = { "by", "sort", "top" };

	for (unsigned i = 0; options[i].name; i++)
		for (unsigned k = 0; k < sizeof(names) / sizeof(*names); k++)
			if (given >> i & 1 && !strcmp(options[i].name, names[k]))
				return names[k];
	return NULL;
}

static int check(const struct spoor_report_options *o, uint64_t given, struct spoor_error *e)
{
	bool tables = !o->events && !o->folded && !o->blocked && !o->json;

	if (!tables && table_option(given))
		return spoor_fail(e, EINVAL, "--%s is for tables: not with --events, --folded, --blocked or -f json",
				  table_option(given));
	if (spoor_filter_is_empty(&o->filter))
		return spoor_fail(e, EINVAL, "-e: this leaves no system call to be shown");
	if (o->events + o->folded + o->blocked > 1)
		return spoor_fail(e, EINVAL, "--events, --folded and --blocked exclude each other");
	if (o->view.stacks && !o->events)
		return spoor_fail(e, EINVAL, "-k shows the stacks of --events; add it");
	if (o->view.follow && !o->events && !(o->json && !o->blocked))
		return spoor_fail(e, EINVAL, "--follow shows what comes, one by one: not with --folded or --blocked");
	if (o->json && o->folded)
		return spoor_fail(e, EINVAL, "--folded has a format of its own");
	return 0;
}

static void select_calls(struct spoor_report_options *o)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		o->select.calls[id] = o->filter.mode[id] != SPOOR_FILTER_NONE;
	o->select.calls[SPOOR_SYSCALL_MAX] = o->filter.other != SPOOR_FILTER_NONE;
	o->select.n_numbers = o->filter.n_numbers;
	memcpy(o->select.numbers, o->filter.numbers, sizeof(o->select.numbers));
	o->select.some_calls = memchr(o->select.calls, 0, sizeof(o->select.calls)) != NULL;
}

int spoor_report_parse(struct spoor_report_options *o, int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "report", .options = options };
	struct spoor_error e = { "" };
	uint64_t given;
	int r;

	o->view.top = 30;
	spoor_filter_init(&o->filter);
	r = spoor_options_parse(&line, argc, argv, o, &given, &e);
	if (r > 0)
		return 1 + spoor_cmd_usage("report");
	if (!r)
		r = spoor_options_trace(&line, argc, argv, &o->trace, &e);
	if (o->view.follow && !o->folded && !o->blocked && !o->json)
		o->events = true;
	if (!r)
		r = check(o, given, &e);
	if (r)
		return 1 + spoor_cmd_misuse("report", &e);
	select_calls(o);
	return 0;
}

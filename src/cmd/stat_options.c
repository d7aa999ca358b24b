/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/stat_options.h"

#include <errno.h>
#include <getopt.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/target_options.h"

#define AT(member) SPOOR_AT(struct spoor_stat_options, member)

static int set_level(struct spoor_stat_view *v, enum spoor_stat_level level, struct spoor_error *e)
{
	if (v->level != SPOOR_STAT_APPLICATION && v->level != level)
		return spoor_fail(e, EINVAL, "--per-thread, --per-process and --tree: one of them");
	v->level = level;
	return 0;
}

static int take_per_process(void *view, const char *arg, struct spoor_error *e)
{
	return set_level(view, SPOOR_STAT_PROCESS, e);
}

static int take_per_thread(void *view, const char *arg, struct spoor_error *e)
{
	return set_level(view, SPOOR_STAT_THREAD, e);
}

static int take_tree(void *view, const char *arg, struct spoor_error *e)
{
	return set_level(view, SPOOR_STAT_TREE, e);
}

static const char *const sorts[] = { "time", "calls", "errors", "max", "name", NULL };
static const char *const groups[] = { "site", NULL };

static const struct spoor_option options[] = {
	SPOOR_TARGET_OPTIONS(struct spoor_stat_options, c.targets),
	{ "app", 0, SPOOR_OPTION_OWN, AT(c.app), .take = spoor_take_app },
	{ "by", 0, SPOOR_OPTION_WORD, AT(view.by_site), .least = 1, .words = groups },
	{ "duration", 0, SPOOR_OPTION_DURATION, AT(c.duration_ns), .least = 1 },
	{ "each-exit", 0, SPOOR_OPTION_FLAG, AT(c.each_exit) },
	{ "errors", 0, SPOOR_OPTION_FLAG, AT(view.errors) },
	{ "expr", 'e', SPOOR_OPTION_OWN, AT(c.filter), .take = spoor_take_filter },
	{ "format", 'f', SPOOR_OPTION_WORD, AT(view.json), .words = spoor_format_words },
	{ "histogram", 0, SPOOR_OPTION_FLAG, AT(view.histogram) },
	{ "interval", 0, SPOOR_OPTION_DURATION, AT(c.interval_ns), .least = 1 },
	{ "mode", 'm', SPOOR_OPTION_OWN, AT(c.mode), .take = spoor_take_mode },
	{ "no-blocked", 0, SPOOR_OPTION_FLAG, AT(c.no_blocked) },
	{ "output", 'o', SPOOR_OPTION_TEXT, AT(output) },
	{ "per-process", 0, SPOOR_OPTION_FLAG, AT(view), .take = take_per_process },
	{ "per-thread", 0, SPOOR_OPTION_FLAG, AT(view), .take = take_per_thread },
	{ "sites", 0, SPOOR_OPTION_COUNT, AT(c.budget), .least = 1, .most = SPOOR_MAX_FRAMES },
	{ "sort", 'S', SPOOR_OPTION_WORD, AT(view.sort), .words = sorts },
	{ "tree", 0, SPOOR_OPTION_FLAG, AT(view), .take = take_tree },
	{ "unwind", 0, SPOOR_OPTION_WORD, AT(c.unwind), .words = spoor_unwind_words },
	{ "watch", 0, SPOOR_OPTION_FLAG, AT(watch) },
	{},
};

static int check(struct spoor_stat_options *o, struct spoor_error *e)
{
	bool walks = o->c.app.n || o->c.budget || o->c.mode || o->c.unwind;

	if (spoor_filter_is_empty(&o->c.filter))
		return spoor_fail(e, EINVAL, "-e: this leaves no system call to be counted");
	if (walks && !o->view.by_site)
		return spoor_fail(e, EINVAL, "-m, --sites, --app and --unwind are for --by site");
	if (o->c.mode == SPOOR_MODE_ALL || o->c.mode == SPOOR_MODE_CUSTOM)
		return spoor_fail(e, EINVAL, "-m %s: --by site takes app, app-all or lib", spoor_mode_name(o->c.mode));
	if (o->view.by_site &&
	    (spoor_filter_uses(&o->c.filter, SPOOR_MODE_ALL) || spoor_filter_uses(&o->c.filter, SPOOR_MODE_CUSTOM)))
		return spoor_fail(e, EINVAL, "-e ...=MODE: --by site takes app, app-all or lib");
	if (o->watch && (o->output || o->view.json || o->c.each_exit))
		return spoor_fail(e, EINVAL,
				  "--watch is a screen: it does not go with -o, --format json or --each-exit");
	if (o->view.level == SPOOR_STAT_TREE && (o->view.histogram || o->view.errors || o->view.by_site))
		return spoor_fail(e, EINVAL,
				  "--tree has a line a process: it does not go with --histogram, --errors "
				  "or --by site");
	return spoor_targets_settle(&o->c.targets, "count", e);
}

int spoor_stat_parse(struct spoor_stat_options *o, int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "stat", .options = options, .has_command = true };
	struct spoor_error e = { "" };
	int r;

	spoor_filter_init(&o->c.filter);
	r = spoor_options_parse(&line, argc, argv, o, NULL, &e);
	if (r > 0)
		return 1 + spoor_cmd_usage("stat");
	if (!r && optind < argc)
		o->c.targets.argv = argv + optind;
	if (!r)
		r = check(o, &e);
	if (r)
		return 1 + spoor_cmd_misuse("stat", &e);
	if (o->view.by_site) {
		o->c.by_site = true;
		o->c.mode = o->c.mode ? o->c.mode : SPOOR_MODE_APP;
		o->c.budget = o->c.budget ? o->c.budget : 5;
		o->c.row_memory = 256 << 20;
		o->c.cache_dir = spoor_cache_directory(o->cache);
	}
	o->c.by_process = o->view.level != SPOOR_STAT_APPLICATION;
	o->view.blocked = !o->c.no_blocked;
	return 0;
}

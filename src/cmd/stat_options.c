/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/stat_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/target_options.h"

enum {
	OPT_APP = 256,
	OPT_BY,
	OPT_DURATION,
	OPT_EACH_EXIT,
	OPT_ERRORS,
	OPT_FORMAT,
	OPT_HISTOGRAM,
	OPT_INTERVAL,
	OPT_NO_BLOCKED,
	OPT_PER_PROCESS,
	OPT_PER_THREAD,
	OPT_SITES,
	OPT_TREE,
	OPT_UNWIND,
	OPT_WATCH,
};

static const struct option long_options[] = {
	SPOOR_TARGET_OPTIONS,
	{ "app", required_argument, NULL, OPT_APP },
	{ "by", required_argument, NULL, OPT_BY },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "each-exit", no_argument, NULL, OPT_EACH_EXIT },
	{ "errors", no_argument, NULL, OPT_ERRORS },
	{ "expr", required_argument, NULL, 'e' },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "help", no_argument, NULL, 'h' },
	{ "histogram", no_argument, NULL, OPT_HISTOGRAM },
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "mode", required_argument, NULL, 'm' },
	{ "no-blocked", no_argument, NULL, OPT_NO_BLOCKED },
	{ "output", required_argument, NULL, 'o' },
	{ "per-process", no_argument, NULL, OPT_PER_PROCESS },
	{ "per-thread", no_argument, NULL, OPT_PER_THREAD },
	{ "sites", required_argument, NULL, OPT_SITES },
	{ "sort", required_argument, NULL, 'S' },
	{ "tree", no_argument, NULL, OPT_TREE },
	{ "unwind", required_argument, NULL, OPT_UNWIND },
	{ "watch", no_argument, NULL, OPT_WATCH },
	{ NULL, 0, NULL, 0 },
};

/* The place of a word in a list. */
static int parse_word(const char *option, const char *arg, const char *const *words, const char *list, unsigned *ret,
		      struct spoor_error *e)
{
	for (unsigned i = 0; words[i]; i++)
		if (!strcmp(arg, words[i])) {
			*ret = i;
			return 0;
		}
	return spoor_fail(e, EINVAL, "%s %s: %s", option, arg, list);
}

static int parse_sort(const char *arg, struct spoor_stat_view *v, struct spoor_error *e)
{
	static const char *const words[] = { "time", "calls", "errors", "max", "name", NULL };
	unsigned i = 0;
	int r = parse_word("-S", arg, words, "time, calls, errors, max or name", &i, e);

	if (!r)
		v->sort = i;
	return r;
}

static int parse_format(const char *arg, struct spoor_stat_view *v, struct spoor_error *e)
{
	static const char *const words[] = { "text", "json", NULL };
	unsigned i = 0;
	int r = parse_word("--format", arg, words, "text or json", &i, e);

	if (!r)
		v->json = i;
	return r;
}

static int parse_by(const char *arg, struct spoor_stat_view *v, struct spoor_error *e)
{
	static const char *const words[] = { "site", NULL };
	unsigned i = 0;
	int r = parse_word("--by", arg, words, "site", &i, e);

	if (!r)
		v->by_site = true;
	return r;
}

static int set_level(struct spoor_stat_view *v, enum spoor_stat_level level, struct spoor_error *e)
{
	if (v->level != SPOOR_STAT_APPLICATION && v->level != level)
		return spoor_fail(e, EINVAL, "--per-thread, --per-process and --tree: one of them");
	v->level = level;
	return 0;
}

static int parse_option(int c, struct spoor_stat_options *o, int *follow, struct spoor_error *e)
{
	int r = spoor_target_option(c, optarg, &o->c.targets, follow, e);

	if (r)
		return r < 0 ? r : 0;
	switch (c) {
	case 'e':
		return spoor_filter_parse(&o->c.filter, optarg, e);
	case 'm':
		return spoor_mode_option(optarg, &o->c.mode, e);
	case 'o':
		if (!*optarg)
			return spoor_fail(e, EINVAL, "-o: an empty name");
		o->output = optarg;
		return 0;
	case 'S':
		return parse_sort(optarg, &o->view, e);
	case OPT_APP:
		return spoor_app_parse(&o->c.app, optarg, e);
	case OPT_BY:
		return parse_by(optarg, &o->view, e);
	case OPT_DURATION:
		return spoor_duration_option("--duration", optarg, &o->c.duration_ns, e);
	case OPT_EACH_EXIT:
		o->each_exit = true;
		return 0;
	case OPT_ERRORS:
		o->view.errors = true;
		return 0;
	case OPT_FORMAT:
		return parse_format(optarg, &o->view, e);
	case OPT_HISTOGRAM:
		o->view.histogram = true;
		return 0;
	case OPT_INTERVAL:
		return spoor_duration_option("--interval", optarg, &o->c.interval_ns, e);
	case OPT_NO_BLOCKED:
		o->c.no_blocked = true;
		return 0;
	case OPT_PER_PROCESS:
		return set_level(&o->view, SPOOR_STAT_PROCESS, e);
	case OPT_PER_THREAD:
		return set_level(&o->view, SPOOR_STAT_THREAD, e);
	case OPT_SITES:
		return spoor_count_option("--sites", optarg, 1, SPOOR_MAX_FRAMES, &o->c.budget, e);
	case OPT_TREE:
		return set_level(&o->view, SPOOR_STAT_TREE, e);
	case OPT_UNWIND:
		return spoor_unwind_option(optarg, &o->c.unwind, e);
	case OPT_WATCH:
		o->watch = true;
		return 0;
	}
	return -EINVAL;
}

static int check(struct spoor_stat_options *o, int follow, struct spoor_error *e)
{
	bool walks = o->c.app.n || o->c.budget || o->c.mode || o->c.unwind;

	if (walks && !o->view.by_site)
		return spoor_fail(e, EINVAL, "-m, --sites, --app and --unwind are for --by site");
	if (o->c.mode == SPOOR_MODE_ALL || o->c.mode == SPOOR_MODE_CUSTOM)
		return spoor_fail(e, EINVAL, "-m %s: --by site takes app, app-all or lib", spoor_mode_name(o->c.mode));
	if (o->view.by_site &&
	    (spoor_filter_uses(&o->c.filter, SPOOR_MODE_ALL) || spoor_filter_uses(&o->c.filter, SPOOR_MODE_CUSTOM)))
		return spoor_fail(e, EINVAL, "-e ...=MODE: --by site takes app, app-all or lib");
	if (o->watch && (o->output || o->view.json || o->each_exit))
		return spoor_fail(e, EINVAL,
				  "--watch is a screen: it does not go with -o, --format json or --each-exit");
	if (o->view.level == SPOOR_STAT_TREE && (o->view.histogram || o->view.errors || o->view.by_site))
		return spoor_fail(e, EINVAL,
				  "--tree has a line a process: it does not go with --histogram, --errors "
				  "or --by site");
	return spoor_targets_settle(&o->c.targets, follow, "count", e);
}

int spoor_stat_parse(struct spoor_stat_options *o, int argc, char **argv)
{
	struct spoor_error e = { "" };
	int c, r = 0, follow = -1;

	spoor_filter_init(&o->c.filter);
	opterr = 0; /* one line, and it is ours */
	while (!r && (c = getopt_long(argc, argv, "+:" SPOOR_TARGET_LETTERS "e:m:o:S:h", long_options, NULL)) != -1) {
		if (c == 'h')
			return 1 + spoor_cmd_usage("stat");
		r = c == '?' || c == ':' ? spoor_wrong_option("stat", c, argv[optind - 1], &e) :
					   parse_option(c, o, &follow, &e);
	}
	if (!r && optind < argc)
		o->c.targets.argv = argv + optind;
	if (!r)
		r = check(o, follow, &e);
	if (r) {
		fprintf(stderr, "spoor stat: %s\n", e.text);
		return 1 + SPOOR_EXIT_USAGE;
	}
	if (o->view.by_site) {
		o->c.by_site = true;
		o->c.mode = o->c.mode ? o->c.mode : SPOOR_MODE_APP;
		o->c.budget = o->c.budget ? o->c.budget : 5;
		o->c.row_memory = 256 << 20;
		o->c.cache_dir = spoor_cache_directory(o->cache);
	}
	o->c.by_process = o->view.level != SPOOR_STAT_APPLICATION;
	o->c.each_exit = o->each_exit;
	o->view.blocked = !o->c.no_blocked;
	return 0;
}

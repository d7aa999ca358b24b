/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/record_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/target_options.h"

#define LEAST_BUFFERS (256u << 10)
#define FLIGHT_SIZE (256u << 20) /* kept by a flight recorder unless --max-size says otherwise */

enum {
	OPT_APP = 256,
	OPT_DURATION,
	OPT_SCOPE,
	OPT_UNWIND,
	OPT_MAX_SIZE,
	OPT_ROTATE,
	OPT_BUFFERS,
	OPT_SET,
	OPT_OVERHEAD,
	OPT_SNAPSHOT,
	OPT_ROW_MEMORY,
	OPT_UST
};

static const struct option long_options[] = {
	SPOOR_TARGET_OPTIONS,
	{ "app", required_argument, NULL, OPT_APP },
	{ "expr", required_argument, NULL, 'e' },
	{ "mode", required_argument, NULL, 'm' },
	{ "budget", required_argument, NULL, 'S' },
	{ "payload", required_argument, NULL, 's' },
	{ "scope", required_argument, NULL, OPT_SCOPE },
	{ "unwind", required_argument, NULL, OPT_UNWIND },
	{ "output", required_argument, NULL, 'o' },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "max-size", required_argument, NULL, OPT_MAX_SIZE },
	{ "rotate", required_argument, NULL, OPT_ROTATE },
	{ "buffers", required_argument, NULL, OPT_BUFFERS },
	{ "set", required_argument, NULL, OPT_SET },
	{ "overhead", required_argument, NULL, OPT_OVERHEAD },
	{ "snapshot-on", required_argument, NULL, OPT_SNAPSHOT },
	{ "row-memory", required_argument, NULL, OPT_ROW_MEMORY },
	{ "ust", no_argument, NULL, OPT_UST },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* ---- options ---- */

/* "1.5" or "1.5%" to per mille. */
static int parse_percent(const char *arg, unsigned *ret, struct spoor_error *e)
{
	char *end;
	double percent = strtod(arg, &end);

	if (*end == '%')
		end++;
	if (*end || end == arg || !(percent >= 0.1 && percent <= 100))
		return spoor_fail(e, EINVAL, "--overhead %s: per cent of the CPUs' time, from 0.1 to 100", arg);
	*ret = lround(percent * 10);
	return 0;
}

/* --rotate 64M or --rotate 10s */
static int parse_rotate(const char *arg, struct spoor_session_options *s, struct spoor_error *e)
{
	uint64_t n;

	if (strpbrk(arg, "smh") && !spoor_parse_duration(arg, &n) && n) {
		s->segment_ns = n;
		return 0;
	}
	if (!spoor_parse_size(arg, &n) && n >= 1 << 20) {
		s->segment_size = n;
		return 0;
	}
	return spoor_fail(e, EINVAL, "--rotate %s: a size (at least 1M) or a time such as 10s", arg);
}

static int parse_buffers(const char *arg, unsigned *ret, struct spoor_error *e)
{
	uint64_t n = 0;
	int r = spoor_size_option("--buffers", arg, LEAST_BUFFERS, &n, e);

	if (!r && n > 256u << 20)
		r = spoor_fail(e, EINVAL, "--buffers %s: at most 256M a CPU", arg);
	for (*ret = LEAST_BUFFERS; !r && *ret < n;)
		*ret *= 2;
	return r;
}

static int parse_option(int c, struct spoor_record_options *o, int *follow, struct spoor_error *e)
{
	struct spoor_session_options *s = &o->s;
	int r = spoor_target_option(c, optarg, &s->targets, follow, e);

	if (r)
		return r < 0 ? r : 0;
	switch (c) {
	case 'e':
		return spoor_filter_parse(&s->filter, optarg, e);
	case 'm':
		return spoor_mode_option(optarg, &s->mode, e);
	case 'S':
		return spoor_count_option("-S", optarg, 1, SPOOR_MAX_FRAMES, &s->budget, e);
	case 's':
		return spoor_count_option("-s", optarg, 0, SPOOR_MAX_PAYLOAD - 1, &s->payload, e);
	case 'o':
		if (!*optarg)
			return spoor_fail(e, EINVAL, "-o: an empty name");
		snprintf(o->output, sizeof(o->output), "%s", optarg);
		return 0;
	case OPT_APP:
		return spoor_app_parse(&s->app, optarg, e);
	case OPT_SCOPE:
		s->mode = SPOOR_MODE_CUSTOM;
		return spoor_scope_parse(&s->custom, optarg, e);
	case OPT_UNWIND:
		return spoor_unwind_option(optarg, &s->unwind, e);
	case OPT_DURATION:
		return spoor_duration_option("--duration", optarg, &s->duration_ns, e);
	case OPT_MAX_SIZE:
		return spoor_size_option("--max-size", optarg, 4 << 20, &s->max_size, e);
	case OPT_ROTATE:
		return parse_rotate(optarg, s, e);
	case OPT_SET:
		if (!*optarg)
			return spoor_fail(e, EINVAL, "--set: an empty setting");
		if (o->n_sets == SPOOR_MAX_SETS)
			return spoor_fail(e, E2BIG, "--set: at most %d at once", SPOOR_MAX_SETS);
		o->sets[o->n_sets++] = optarg;
		return 0;
	case OPT_UST:
		s->ust = true;
		return 0;
	case OPT_ROW_MEMORY:
		return spoor_size_option("--row-memory", optarg, 64 << 10, &s->row_memory, e);
	case OPT_SNAPSHOT:
		return spoor_snapshot_signal(optarg, &s->snapshot_signal, e);
	case OPT_OVERHEAD:
		return parse_percent(optarg, &s->overhead, e);
	case OPT_BUFFERS:
		return parse_buffers(optarg, &s->ring_size, e);
	}
	return -EINVAL;
}

/* Settings go to a recording under way, whose other options were given when it began. */
static int check_set(const struct spoor_record_options *o, struct spoor_error *e)
{
	char *const *argv = o->s.targets.argv;

	if (o->not_set)
		return spoor_fail(e, EINVAL, "--set goes alone: a recording under way does not take %s", o->not_set);
	return argv && !argv[1] ? 0 : spoor_fail(e, EINVAL, "--set needs one argument: the recording's directory");
}

static int check_targets(struct spoor_record_options *o, int follow, struct spoor_error *e)
{
	struct spoor_targets *t = &o->s.targets;

	if (o->n_sets)
		return check_set(o, e);
	if (o->s.mode == SPOOR_MODE_CUSTOM && !o->s.custom.n)
		return spoor_fail(e, EINVAL, "-m custom needs --scope");
	if (!o->s.custom.n && spoor_filter_uses(&o->s.filter, SPOOR_MODE_CUSTOM))
		return spoor_fail(e, EINVAL, "-e ...=custom needs --scope");
	if (o->s.mode != SPOOR_MODE_CUSTOM && o->s.custom.n)
		return spoor_fail(e, EINVAL, "--scope does not go with -m %s: it is mode custom",
				  spoor_mode_name(o->s.mode));
	if (o->s.max_size && o->s.segment_size > o->s.max_size / 2)
		return spoor_fail(e, EINVAL, "--max-size must hold two segments of --rotate's size at least: one is "
					     "written while the other is kept");
	if (o->s.ust && !t->argv)
		return spoor_fail(e, EINVAL, "--ust needs a command: -- CMD; for what runs already there is 'spoor daemon'");
	return spoor_targets_settle(t, follow, "record", e);
}

static void default_output(struct spoor_record_options *o)
{
	const struct spoor_targets *t = &o->s.targets;
	char date[32], what[64] = "all";

	if (o->output[0])
		return;
	if (t->argv)
		snprintf(what, sizeof(what), "%.63s", spoor_basename(t->argv[0]));
	else if (t->n_names)
		snprintf(what, sizeof(what), "%.31s", t->names[0]);
	else if (t->n_pids)
		snprintf(what, sizeof(what), "%d", t->pids[0]);
	for (char *p = what; *p; p++)
		if (strchr("*?/ ", *p))
			*p = '_';
	spoor_format_date(spoor_now_realtime(), date, sizeof(date));
	snprintf(o->output, sizeof(o->output), "spoor-%s-%s.spoor", date, what);
	for (int i = 2; i < 1000 && !access(o->output, F_OK); i++)
		snprintf(o->output, sizeof(o->output), "spoor-%s-%s-%d.spoor", date, what, i);
}

static void choose_memory(struct spoor_record_options *o)
{
	const char *how = getenv("SPOOR_USER_MEMORY");

	o->s.copy_memory = how && !strcmp(how, "copy");
}

static void keep_command_line(struct spoor_record_options *o, int argc, char **argv)
{
	size_t at = 0;

	for (int i = 0; i < argc && at < sizeof(o->command); i++)
		at += snprintf(o->command + at, sizeof(o->command) - at, "%s%s", i ? " " : "spoor ", argv[i]);
}

/*
 * 8 MiB a CPU hold a saturated server's events for a tenth of a second; large machines get less, 256 MiB in all. With a
 * limit on disk what they hold must fit into the segments being written.
 */
static unsigned default_buffers(uint64_t max_size)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	unsigned size = 8 << 20;

	while (size > 512 << 10 && (uint64_t)size * cpus * SPOOR_LEVELS > 256 << 20)
		size /= 2;
	while (max_size && size > LEAST_BUFFERS && (uint64_t)size * cpus > max_size / 4)
		size /= 2;
	return size;
}

/* Of the options that do not go with --set the first. */
static void note_option(struct spoor_record_options *o, int c)
{
	size_t i = 0;

	while (long_options[i].name && long_options[i].val != c)
		i++;
	if (c == OPT_SET || o->not_set || !long_options[i].name)
		return;
	snprintf(o->not_set_name, sizeof(o->not_set_name), "--%s", long_options[i].name);
	o->not_set = o->not_set_name;
}

int spoor_record_parse(struct spoor_record_options *o, int argc, char **argv)
{
	struct spoor_error e = { "" };
	int c, r = 0, follow = -1;

	spoor_filter_init(&o->s.filter);
	o->s.mode = SPOOR_MODE_APP_ALL;
	o->s.budget = 5;
	o->s.row_memory = 256 << 20;
	keep_command_line(o, argc, argv);
	opterr = 0; /* one line, and it is ours */
	while (!r && (c = getopt_long(argc, argv, "+:" SPOOR_TARGET_LETTERS "e:m:S:s:o:h", long_options, NULL)) != -1) {
		if (c == 'h')
			return 1 + spoor_cmd_usage("record");
		r = c == '?' || c == ':' ? spoor_wrong_option("record", c, argv[optind - 1], &e) :
					   parse_option(c, o, &follow, &e);
		note_option(o, c);
	}
	if (!r && optind < argc)
		o->s.targets.argv = argv + optind;
	if (!r)
		r = check_targets(o, follow, &e);
	if (r) {
		fprintf(stderr, "spoor record: %s\n", e.text);
		return 1 + SPOOR_EXIT_USAGE;
	}
	if (o->s.snapshot_signal && !o->s.max_size)
		o->s.max_size = FLIGHT_SIZE;
	if (o->s.max_size && !o->s.segment_size && !o->s.segment_ns)
		o->s.segment_size = o->s.max_size / 8;
	if (!o->s.ring_size)
		o->s.ring_size = default_buffers(o->s.max_size);
	default_output(o);
	choose_memory(o);
	o->s.cache_dir = spoor_cache_directory(o->cache);
	o->s.output = o->output;
	o->s.command = o->command;
	o->s.progress = isatty(STDERR_FILENO) && !o->s.targets.argv; /* a command has the terminal for itself */
	return 0;
}

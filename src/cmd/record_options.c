/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/record_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/target_options.h"
#include "cmd/ust_options.h"
#include "collect/session/settings.h"

#define LEAST_BUFFERS (256u << 10)
#define MODE_UNSAID SPOOR_MODE_MAX
#define FLIGHT_SIZE (256u << 20) /* kept by a flight recorder unless --max-size says otherwise */

/* ---- values ---- */

/* "1.5" or "1.5%" to per mille. */
static int take_percent(void *ret, const char *arg, struct spoor_error *e)
{
	size_t digits = strspn(arg, "0123456789."); /* strtod() would take blanks, signs, exponents, hexadecimals */
	const char *end = arg + digits + (arg[digits] == '%');
	char *parsed;
	double percent = strtod(arg, &parsed);

	if (*end || !digits || parsed != arg + digits || !(percent >= 0.1 && percent <= 100))
		return spoor_fail(e, EINVAL, "--overhead %s: per cent of the CPUs' time, from 0.1 to 100", arg);
	*(unsigned *)ret = lround(percent * 10);
	return 0;
}

static int take_output(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_record_options *o = options;

	o->s.output = o->name;
	o->named = true;
	return spoor_option_trace(arg, o->name, e);
}

static int take_rotate(void *session, const char *arg, struct spoor_error *e)
{
	struct spoor_session_options *s = session;

	return spoor_option_rotate(arg, &s->segment_size, &s->segment_ns, e);
}

static int take_buffers(void *ret, const char *arg, struct spoor_error *e)
{
	uint64_t n = 0;
	unsigned size = LEAST_BUFFERS;
	int r = spoor_option_size("--buffers", arg, LEAST_BUFFERS, &n, e);

	if (r)
		return r;
	if (n > 256u << 20)
		return spoor_fail(e, EINVAL, "--buffers %s: at most 256M a CPU", arg);
	while (size < n)
		size *= 2;
	*(unsigned *)ret = size;
	return 0;
}

static int take_scope(void *ret, const char *arg, struct spoor_error *e)
{
	return spoor_scope_parse(ret, arg, e);
}

static int take_set(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_record_options *o = options;

	if (!*arg)
		return spoor_fail(e, EINVAL, "--set: an empty setting");
	if (o->n_sets == SPOOR_MAX_SETS)
		return spoor_fail(e, E2BIG, "--set: at most %d at once", SPOOR_MAX_SETS);
	o->sets[o->n_sets++] = arg;
	return spoor_settings_understood(arg, e);
}

#define AT(member) SPOOR_AT(struct spoor_record_options, member)

static const struct spoor_option options[] = {
	{ "set", 0, SPOOR_OPTION_OWN, .take = take_set },
	SPOOR_TARGET_OPTIONS(struct spoor_record_options, s.targets),
	{ "app", 0, SPOOR_OPTION_OWN, AT(s.app), .take = spoor_take_app },
	{ "expr", 'e', SPOOR_OPTION_OWN, AT(s.filter), .take = spoor_take_filter },
	{ "mode", 'm', SPOOR_OPTION_OWN, AT(s.mode), .take = spoor_take_mode },
	{ "budget", 'S', SPOOR_OPTION_COUNT, AT(s.budget), .least = 1, .most = SPOOR_MAX_FRAMES },
	{ "payload", 's', SPOOR_OPTION_COUNT, AT(s.payload), .most = SPOOR_MAX_PAYLOAD - 1 },
	{ "scope", 0, SPOOR_OPTION_OWN, AT(s.custom), .take = take_scope },
	{ "unwind", 0, SPOOR_OPTION_WORD, AT(s.unwind), .words = spoor_unwind_words },
	{ "output", 'o', SPOOR_OPTION_OWN, .take = take_output },
	{ "duration", 0, SPOOR_OPTION_DURATION, AT(s.duration_ns), .least = 1 },
	{ "max-size", 0, SPOOR_OPTION_SIZE, AT(s.max_size), .least = 4 << 20 },
	{ "rotate", 0, SPOOR_OPTION_OWN, AT(s), .take = take_rotate },
	{ "buffers", 0, SPOOR_OPTION_OWN, AT(s.ring_size), .take = take_buffers },
	{ "overhead", 0, SPOOR_OPTION_OWN, AT(s.overhead), .take = take_percent },
	{ "snapshot-on", 0, SPOOR_OPTION_OWN, AT(s.snapshot_signal), .take = spoor_take_snapshot_signal },
	{ "row-memory", 0, SPOOR_OPTION_SIZE, AT(s.row_memory), .least = 64 << 10 },
	{ "ust", 0, SPOOR_OPTION_FLAG, AT(s.ust) },
	{ "ust-context", 0, SPOOR_OPTION_OWN, AT(s.ust_contexts), .take = spoor_take_ust_contexts },
	{},
};

/* ---- do they go together? ---- */

/* Settings go to a recording under way, whose other options were given when it began. */
static int check_set(const struct spoor_record_options *o, uint64_t given, struct spoor_error *e)
{
	char *const *argv = o->s.targets.argv;

	given &= ~1ULL; /* --set itself: options[0] */
	if (given)
		return spoor_fail(e, EINVAL, "--set goes alone: a recording under way does not take --%s",
				  options[__builtin_ctzll(given)].name);
	return argv && !argv[1] ? 0 : spoor_fail(e, EINVAL, "--set needs one argument: the recording's directory");
}

static int check(struct spoor_record_options *o, uint64_t given, struct spoor_error *e)
{
	if (o->n_sets)
		return check_set(o, given, e);
	if (spoor_filter_is_empty(&o->s.filter))
		return spoor_fail(e, EINVAL, "-e: this leaves no system call to be recorded");
	if (o->s.mode == MODE_UNSAID)
		o->s.mode = o->s.custom.n ? SPOOR_MODE_CUSTOM : SPOOR_MODE_APP_ALL;
	if (o->s.mode == SPOOR_MODE_CUSTOM && !o->s.custom.n)
		return spoor_fail(e, EINVAL, "-m custom needs --scope");
	if (!o->s.custom.n && spoor_filter_uses(&o->s.filter, SPOOR_MODE_CUSTOM))
		return spoor_fail(e, EINVAL, "-e ...=custom needs --scope");
	if (o->s.mode != SPOOR_MODE_CUSTOM && o->s.custom.n && !spoor_filter_uses(&o->s.filter, SPOOR_MODE_CUSTOM))
		return spoor_fail(e, EINVAL, "--scope does not go with -m %s: it is mode custom",
				  spoor_mode_name(o->s.mode));
	if (o->s.max_size && o->s.segment_size > o->s.max_size / 2)
		return spoor_fail(e, EINVAL,
				  "--max-size must hold two segments of --rotate's size at least: one is "
				  "written while the other is kept");
	if (o->s.ust && !o->s.targets.argv)
		return spoor_fail(e, EINVAL,
				  "--ust needs a command: -- CMD; for what runs already there is 'spoor daemon'");
	if (o->s.ust_contexts && !o->s.ust)
		return spoor_fail(e, EINVAL, "--ust-context needs --ust");
	return spoor_targets_settle(&o->s.targets, "record", e);
}

/* "system.slice/ssh.service/" is "ssh.service". */
static const char *name_of_cgroup(const char *path, char *buf, size_t size)
{
	size_t end = strlen(path), begin;

	while (end && path[end - 1] == '/')
		end--;
	begin = end;
	while (begin && path[begin - 1] != '/')
		begin--;
	snprintf(buf, size, "%.*s", (int)(end - begin), path + begin);
	return *buf ? buf : "all";
}

bool spoor_record_choose_output(struct spoor_record_options *o)
{
	const struct spoor_targets *t = &o->s.targets;
	char date[32], pid[16], group[NAME_MAX + 1], what[64];
	const char *of = "all";
	int i;

	if (o->named)
		return false;
	if (t->argv)
		of = spoor_basename(t->argv[0]);
	else if (t->n_names)
		of = t->names[0];
	else if (t->n_pids && snprintf(pid, sizeof(pid), "%d", t->pids[0]) > 0)
		of = pid;
	else if (t->cgroup)
		of = name_of_cgroup(t->cgroup, group, sizeof(group));
	spoor_escape_file_name(of, strlen(of), what, sizeof(what));
	spoor_format_date(spoor_now_realtime(), date, sizeof(date));
	snprintf(o->name, sizeof(o->name), "spoor-%s-%s.spoor", date, what);
	for (i = 2; i < 1000 && !access(o->name, F_OK); i++)
		snprintf(o->name, sizeof(o->name), "spoor-%s-%s-%d.spoor", date, what, i);
	o->s.output = o->name;
	return i < 1000;
}

static void choose_memory(struct spoor_record_options *o)
{
	const char *how = getenv("SPOOR_USER_MEMORY");

	o->s.copy_memory = how && !strcmp(how, "copy");
}

static void keep_command_line(struct spoor_record_options *o, int argc, char **argv)
{
	size_t at = stpcpy(o->command, "spoor ") - o->command;

	spoor_shell_words(argv, argc, o->command + at, sizeof(o->command) - at);
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

int spoor_record_parse(struct spoor_record_options *o, int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "record", .options = options, .has_command = true };
	struct spoor_error e = { "" };
	uint64_t given;
	int r;

	spoor_filter_init(&o->s.filter);
	o->s.mode = MODE_UNSAID;
	o->s.budget = 5;
	o->s.row_memory = 256 << 20;
	keep_command_line(o, argc, argv);
	r = spoor_options_parse(&line, argc, argv, o, &given, &e);
	if (r > 0)
		return 1 + spoor_cmd_usage("record");
	if (!r && optind < argc)
		o->s.targets.argv = argv + optind;
	if (!r)
		r = check(o, given, &e);
	if (r)
		return 1 + spoor_cmd_misuse("record", &e);
	if (o->s.snapshot_signal && !o->s.max_size)
		o->s.max_size = FLIGHT_SIZE;
	if (o->s.max_size && !o->s.segment_size && !o->s.segment_ns)
		o->s.segment_size = o->s.max_size / 8;
	if (!o->s.ring_size)
		o->s.ring_size = default_buffers(o->s.max_size);
	spoor_record_choose_output(o);
	choose_memory(o);
	o->s.cache_dir = spoor_cache_directory(o->cache);
	o->s.command = o->command;
	return 0;
}

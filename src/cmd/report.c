/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spoor report: options, then one of the forms of src/present. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "collect/session/filter.h"
#include "present/present.h"
#include "trace/packed.h"
#include "trace/syscalls.h"

enum form { FORM_TABLE, FORM_EVENTS, FORM_JSON, FORM_FOLDED, FORM_BLOCKED };

struct options {
	const char *trace;
	const char *from, *to; /* as typed: their meaning needs the trace */
	const char *debug_root;
	struct spoor_filter filter;
	struct spoor_select select;
	struct spoor_view view;
	bool events, json, folded, blocked;
};

enum {
	OPT_EVENTS = 256,
	OPT_FOLDED,
	OPT_BLOCKED,
	OPT_BY,
	OPT_SORT,
	OPT_TOP,
	OPT_FROM,
	OPT_TO,
	OPT_PID,
	OPT_TID,
	OPT_FUNCTION,
	OPT_EVENT,
	OPT_FOLLOW,
	OPT_ERRNO,
	OPT_FAILED,
	OPT_MIN_DURATION,
	OPT_DEBUG_ROOT
};

static const struct option long_options[] = {
	{ "events", no_argument, NULL, OPT_EVENTS },
	{ "format", required_argument, NULL, 'f' },
	{ "folded", optional_argument, NULL, OPT_FOLDED },
	{ "follow", no_argument, NULL, OPT_FOLLOW },
	{ "blocked", no_argument, NULL, OPT_BLOCKED },
	{ "stacks", no_argument, NULL, 'k' },
	{ "by", required_argument, NULL, OPT_BY },
	{ "sort", required_argument, NULL, OPT_SORT },
	{ "top", required_argument, NULL, OPT_TOP },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "to", required_argument, NULL, OPT_TO },
	{ "pid", required_argument, NULL, 'p' },
	{ "tid", required_argument, NULL, OPT_TID },
	{ "syscall", required_argument, NULL, 'e' },
	{ "function", required_argument, NULL, OPT_FUNCTION },
	{ "event", required_argument, NULL, OPT_EVENT },
	{ "errno", required_argument, NULL, OPT_ERRNO },
	{ "failed", no_argument, NULL, OPT_FAILED },
	{ "min-duration", required_argument, NULL, OPT_MIN_DURATION },
	{ "debug-root", required_argument, NULL, OPT_DEBUG_ROOT },
	{ "help", no_argument, NULL, 'h' },
	{},
};

__attribute__((format(printf, 1, 2))) static int usage_error(const char *fmt, ...)
{
	char text[512], shown[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	spoor_escape_terminal(text, strlen(text), shown, sizeof(shown));
	fprintf(stderr, "spoor report: %s\n", shown);
	return SPOOR_EXIT_USAGE;
}

static int choose(const char *option, const char *word, const char *const *names, unsigned n, unsigned *ret)
{
	const char *nearest;

	for (unsigned i = 0; i < n; i++) {
		if (!strcmp(names[i], word)) {
			*ret = i;
			return 0;
		}
	}
	nearest = spoor_nearest(word, names, n);
	if (nearest)
		return usage_error("%s: there is no '%s'; did you mean '%s'?", option, word, nearest);
	return usage_error("%s: there is no '%s'; 'spoor report -h' lists what there is", option, word);
}

static int parse_number(const char *option, const char *word, uint32_t *ret)
{
	uint64_t v;

	if (spoor_parse_number(word, 0, UINT32_MAX, &v))
		return usage_error("%s takes a number, not '%s'", option, word);
	*ret = (uint32_t)v;
	return 0;
}

/* "1,2,3" */
static int parse_ids(const char *option, const char *list, struct spoor_select *s,
		     int (*add)(struct spoor_select *s, uint32_t id))
{
	_cleanup_(spoor_freep) char *copy = strdup(list);
	char *save = NULL, *word = copy ? strtok_r(copy, ",", &save) : NULL;
	uint32_t id;

	if (!word || strspn(list, ",") || strstr(list, ",,") || list[strlen(list) - 1] == ',')
		return usage_error("%s takes numbers, separated by commas", option);
	for (; word; word = strtok_r(NULL, ",", &save)) {
		if (parse_number(option, word, &id))
			return SPOOR_EXIT_USAGE;
		if (add(s, id) < 0)
			return usage_error("out of memory");
	}
	return 0;
}

static int parse_errno(const char *word, int *ret)
{
	int err = spoor_errno_by_name(word);
	uint32_t number;

	if (err > 0) {
		*ret = err;
		return 0;
	}
	if (!isdigit((unsigned char)word[0]))
		return usage_error("--errno: there is no '%s'; an example is ENOENT", word);
	if (parse_number("--errno", word, &number))
		return SPOOR_EXIT_USAGE;
	if (!number || number > 4095)
		return usage_error("--errno: %s is no error number", word);
	*ret = (int)number;
	return 0;
}

static int parse_form(struct options *o, int c)
{
	static const char *const formats[] = { "text", "json" }, *const units[] = { "count", "time" };
	unsigned i = 0;

	switch (c) {
	case OPT_EVENTS:
		o->events = true;
		return 0;
	case OPT_BLOCKED:
		o->blocked = true;
		return 0;
	case OPT_FOLDED:
		o->folded = true;
		if (optarg && choose("--folded", optarg, units, 2, &i))
			return SPOOR_EXIT_USAGE;
		o->view.by_time = i == 1;
		return 0;
	default:
		if (choose("--format", optarg, formats, 2, &i))
			return SPOOR_EXIT_USAGE;
		o->json = i == 1;
		return 0;
	}
}

static int parse_table(struct options *o, int c)
{
	static const char *const groups[] = { "process", "app", "all" };
	static const char *const sorts[] = { "time", "calls", "errors", "max" };
	unsigned i = 0;

	switch (c) {
	case OPT_BY:
		if (choose("--by", optarg, groups, 3, &i))
			return SPOOR_EXIT_USAGE;
		o->view.by = i;
		return 0;
	case OPT_SORT:
		if (choose("--sort", optarg, sorts, 4, &i))
			return SPOOR_EXIT_USAGE;
		o->view.sort = i;
		return 0;
	default:
		return parse_number("--top", optarg, &o->view.top);
	}
}

static bool has_modes(const struct spoor_filter *f)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (f->mode[id] > SPOOR_FILTER_DEFAULT)
			return true;
	return f->other > SPOOR_FILTER_DEFAULT;
}

static int parse_select(struct options *o, int c)
{
	struct spoor_error e = {};

	switch (c) {
	case 'e':
		if (spoor_filter_parse(&o->filter, optarg, &e) < 0)
			return usage_error("%s", e.text);
		return has_modes(&o->filter) ?
			       usage_error("-e: '%s': a mode is for recording, not for reports", optarg) :
			       0;
	case 'p':
		return parse_ids("--pid", optarg, &o->select, spoor_select_add_pid);
	case OPT_TID:
		return parse_ids("--tid", optarg, &o->select, spoor_select_add_tid);
	case OPT_FUNCTION:
		if (spoor_globs_add(&o->select.functions, optarg) < 0)
			return usage_error("--function takes names or globs, separated by commas");
		return 0;
	case OPT_EVENT:
		if (spoor_globs_add(&o->select.events, optarg) < 0)
			return usage_error("--event takes names or globs of user events, separated by commas");
		return 0;
	case OPT_ERRNO:
		return parse_errno(optarg, &o->select.errno_);
	case OPT_FAILED:
		o->select.failed = 1;
		return 0;
	default:
		if (spoor_parse_duration(optarg, &o->select.min_duration) < 0)
			return usage_error("--min-duration: '%s' is no duration; examples: 10ms, 1.5s", optarg);
		return 0;
	}
}

static int parse_option(struct options *o, int c)
{
	switch (c) {
	case OPT_EVENTS:
	case OPT_BLOCKED:
	case OPT_FOLDED:
	case 'f':
		return parse_form(o, c);
	case OPT_BY:
	case OPT_SORT:
	case OPT_TOP:
		return parse_table(o, c);
	case 'k':
		o->view.stacks = 1;
		return 0;
	case OPT_FOLLOW:
		o->view.follow = 1;
		return 0;
	case OPT_FROM:
		o->from = optarg;
		return 0;
	case OPT_TO:
		o->to = optarg;
		return 0;
	case OPT_DEBUG_ROOT:
		o->debug_root = optarg;
		return 0;
	default:
		return parse_select(o, c);
	}
}

/* 0, or the exit code of a misuse; -1: help was asked for. */
static int parse(int argc, char **argv, struct options *o)
{
	opterr = 0; /* one line, and it is ours */
	for (int c; (c = getopt_long(argc, argv, ":e:f:hkp:", long_options, NULL)) != -1;) {
		int r;

		if (c == '?' || c == ':')
			return usage_error("%s '%s'; 'spoor report -h' lists the options",
					   c == ':' ? "a value is missing after" : "wrong option", argv[optind - 1]);
		r = c == 'h' ? -1 : parse_option(o, c);
		if (r)
			return r;
	}
	if (optind == argc)
		return usage_error("which trace? spoor report NAME.spoor");
	if (optind + 1 < argc)
		return usage_error("one trace at a time; '%s' is one too many", argv[optind + 1]);
	if (o->events + o->folded + o->blocked > 1)
		return usage_error("--events, --folded and --blocked exclude each other");
	if (o->view.stacks && !o->events)
		return usage_error("-k shows the stacks of --events; add it");
	if (o->view.follow && !o->events && !(o->json && !o->blocked))
		return usage_error("--follow shows what comes, one by one; add --events or --format json");
	if (o->json && o->folded)
		return usage_error("--folded has a format of its own");
	o->trace = argv[optind];
	return 0;
}

/* ---- times: "1.5s" after the begin, "@1763722800.5" since the epoch, "11:03:07.5" local time of the first day ---- */

static int parse_fraction(const char *s, uint64_t *ret_ns)
{
	uint64_t ns = 0, unit = 100000000;

	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++, unit /= 10)
			ns += (uint64_t)(*s - '0') * unit;
	*ret_ns = ns;
	return *s ? -EINVAL : 0;
}

static int parse_epoch(const char *s, uint64_t *ret)
{
	char *end;
	uint64_t seconds, ns;

	errno = 0;
	seconds = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)*s) || errno || seconds > UINT64_MAX / SPOOR_NS_PER_SEC - 1 ||
	    parse_fraction(end, &ns) < 0)
		return -EINVAL;
	*ret = seconds * SPOOR_NS_PER_SEC + ns;
	return 0;
}

static int parse_clock(const char *s, uint64_t begin, uint64_t *ret)
{
	time_t seconds = (time_t)(begin / SPOOR_NS_PER_SEC);
	const char *end;
	struct tm tm;
	uint64_t ns;

	localtime_r(&seconds, &tm);
	end = strptime(s, "%H:%M:%S", &tm);
	if (!end || parse_fraction(end, &ns) < 0)
		return -EINVAL;
	tm.tm_isdst = -1;
	*ret = (uint64_t)mktime(&tm) * SPOOR_NS_PER_SEC + ns;
	return 0;
}

/* first: CLOCK_MONOTONIC of the trace's first event. */
static int parse_time(const char *s, uint64_t first, uint64_t epoch_offset, uint64_t *ret)
{
	uint64_t t;

	if (*s == '@' || strchr(s, ':')) {
		if ((*s == '@' ? parse_epoch(s + 1, &t) : parse_clock(s, first + epoch_offset, &t)) < 0)
			return -EINVAL;
		*ret = t > epoch_offset ? t - epoch_offset : 1;
		return 0;
	}
	if (spoor_parse_duration(s, &t) < 0 || t > UINT64_MAX - first)
		return -EINVAL;
	*ret = first + t;
	return 0;
}

static int resolve_times(struct options *o, struct spoor_trace *t)
{
	uint64_t offset = spoor_trace_info(t)->epoch_offset, first;
	struct spoor_event ev;

	if (!o->from && !o->to)
		return 0;
	first = spoor_trace_next(t, &ev) == 1 ? ev.h->ts : 0;
	spoor_trace_rewind(t);
	if (o->from && parse_time(o->from, first, offset, &o->select.from) < 0)
		return usage_error("--from: '%s' is no time; examples: 1.5s, 11:03:07.25, @1763722800.5", o->from);
	if (o->to && parse_time(o->to, first, offset, &o->select.to) < 0)
		return usage_error("--to: '%s' is no time; examples: 1.5s, 11:03:07.25, @1763722800.5", o->to);
	if (o->from && o->to && o->select.from > o->select.to)
		return usage_error("--from %s is after --to %s", o->from, o->to);
	return 0;
}

static void select_calls(struct options *o)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		o->select.calls[id] = o->filter.mode[id] != SPOOR_FILTER_NONE;
	o->select.calls[SPOOR_SYSCALL_MAX] = o->filter.other != SPOOR_FILTER_NONE;
	o->select.some_calls = memchr(o->select.calls, 0, sizeof(o->select.calls)) != NULL;
}

static int present(struct options *o, struct spoor_error *e)
{
	struct spoor_view *v = &o->view;

	if (o->blocked)
		return spoor_present_blocked(v, e);
	if (o->folded)
		return spoor_present_folded(v, e);
	if (o->json)
		return spoor_present_json(v, e);
	if (o->events)
		return spoor_present_events(v, e);
	return spoor_present_table(v, e);
}

/* Lines for programs do not go through a pager. */
static int show(struct options *o, struct spoor_trace *trace)
{
	const char *no_colour = getenv("NO_COLOR");
	bool terminal = isatty(STDOUT_FILENO), text = !o->json && !o->folded;
	struct spoor_pager pager = text && !o->view.follow ? spoor_pager_open() : (struct spoor_pager){ .out = stdout };
	struct spoor_error e = {};
	int r;

	o->view.trace = trace;
	o->view.select = &o->select;
	o->view.out = pager.out;
	o->view.json = o->json;
	o->view.colour = text && terminal && !(no_colour && *no_colour);
	o->view.progress = isatty(STDERR_FILENO);
	r = present(o, &e);
	if (r == 0 && fflush(pager.out) != 0) {
		if (errno != EPIPE)
			r = spoor_fail(&e, errno, "cannot write the report: %s", strerror(errno));
		clearerr(pager.out);
	}
	spoor_pager_close(&pager);
	if (r == 0)
		return SPOOR_EXIT_OK;
	fprintf(stderr, "spoor report: %s\n", e.text);
	return SPOOR_EXIT_FAILED;
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = 1;
}

/* Ctrl-C ends the looking on, and what was lost so far is still said; a second one ends it at once. */
static void follow(struct options *o, struct spoor_trace *trace)
{
	struct sigaction act = { .sa_handler = stop, .sa_flags = SA_RESETHAND };

	spoor_trace_follow(trace);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	o->view.stop = &stopped;
}

static int report(struct options *o)
{
	struct spoor_packed *packed = NULL;
	struct spoor_trace *trace;
	struct spoor_error e = {};
	int r;

	if (spoor_trace_open(o->trace, &trace, &e) < 0) {
		fprintf(stderr, "spoor report: %s\n", e.text);
		return SPOOR_EXIT_FAILED;
	}
	if (o->view.follow)
		follow(o, trace);
	r = resolve_times(o, trace);
	if (r == 0 && spoor_symbolizer_new(o->debug_root, NULL, &o->view.symbols) < 0) {
		fputs("spoor report: out of memory\n", stderr);
		r = SPOOR_EXIT_FAILED;
	}
	if (r == 0 && spoor_packed_open(spoor_trace_info(trace)->root, &packed) == 0)
		spoor_symbolizer_use_packed(o->view.symbols, packed);
	if (r == 0)
		r = show(o, trace);
	spoor_symbolizer_free(o->view.symbols);
	spoor_packed_close(packed);
	spoor_trace_close(trace);
	return r;
}

int spoor_cmd_report(int argc, char **argv)
{
	static struct options o = { .view.top = 30 };
	static char buffer[1 << 18];
	int r;

	spoor_filter_init(&o.filter);
	r = parse(argc, argv, &o);
	if (r == 0) {
		setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
		select_calls(&o);
		r = report(&o);
	}
	spoor_select_done(&o.select);
	spoor_programs_done(&o.view.programs);
	return r < 0 ? spoor_cmd_usage("report") : r;
}

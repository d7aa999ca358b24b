/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/ust/environment.h"
#include "agent/ust/filter.h"
#include "agent/ust/glob.h"
#include "agent/ust/limits.h"

#define DEFAULT_BLOCK_US 100000

static const char *variable(char **envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (!strncmp(*envp, name, n) && (*envp)[n] == '=' && (*envp)[n + 1])
			return *envp + n + 1;
	return NULL;
}

/* ---- saying what cannot be ---- */

struct line {
	char text[512];
	size_t n;
};

/* At most so many characters; no control characters: it goes to a terminal. */
static void put(struct line *l, const char *s, size_t most)
{
	for (; *s && most && l->n < sizeof(l->text) - 1; s++, most--)
		l->text[l->n++] = *s >= ' ' && *s < 0x7f ? *s : '?';
}

/* By a system call, since libc may not have been initialized yet. */
static void say(const char *name, const char *value, const char *why, const char *instead)
{
	struct line l = { .n = 0 };

	put(&l, "spoor-ust: ", SIZE_MAX);
	put(&l, name, SIZE_MAX);
	put(&l, "=", 1);
	put(&l, value, 100);
	put(&l, ": ", 2);
	put(&l, why, 100);
	put(&l, "; ", 2);
	put(&l, instead, SIZE_MAX);
	l.text[l.n++] = '\n';
	sys3(SYS_write, 2, l.text, l.n);
}

static uint64_t words_dev, words_ino; /* standard error's file as the program began */

static void note_words(void)
{
	struct stat st = {};

	if (sys_failed(sys3(SYS_fstat, 2, &st, 0)))
		return;
	words_dev = st.st_dev;
	words_ino = st.st_ino;
}

/*
 * Programs put there what they like: a line may go where lines went when the program began, or into a file that is
 * appended to, as logs are; and where neither waiting nor a signal comes of it.
 */
static bool may_say(void)
{
	struct pollfd p = { .fd = 2, .events = POLLOUT };
	long flags = sys3(SYS_fcntl, 2, F_GETFL, 0);
	struct stat st = {};
	bool file;

	if (sys_failed(flags) || sys_failed(sys3(SYS_fstat, 2, &st, 0)) || sys3(SYS_poll, &p, 1, 0) != 1 ||
	    p.revents != POLLOUT)
		return false;
	file = S_ISREG(st.st_mode);
	if (file && !file_may_have((uint64_t)st.st_size + sizeof(struct line)))
		return false;
	return (st.st_dev == words_dev && st.st_ino == words_ino) || (file && flags & O_APPEND);
}

/* ---- what values say ---- */

/* The digits that s begins with, if they are a number below 2^40. */
static bool take_number(const char **s, uint64_t *ret)
{
	const char *begin = *s;
	uint64_t n = 0;

	for (; **s >= '0' && **s <= '9' && n < 1ULL << 40; (*s)++)
		n = n * 10 + (uint64_t)(**s - '0');
	*ret = n;
	return *s > begin && n < 1ULL << 40;
}

static bool parse_size(const char *s, uint64_t *ret)
{
	static const char units[] = "kMGT";
	const char *unit = NULL;
	unsigned shift;
	uint64_t n;

	if (!take_number(&s, &n))
		return false;
	if (*s)
		unit = strchr(units, *s == 'K' ? 'k' : *s);
	if (*s && (!unit || s[1]))
		return false;
	shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (n > UINT64_MAX >> shift)
		return false;
	*ret = n << shift;
	return true;
}

/* "10ms", "500us", "1s", "1m", "1", in microseconds. False: it is no time. Out of bounds: 0. */
static bool parse_time(const char *s, uint32_t *ret)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = { { "us", 1 }, { "ms", 1000 }, { "s", 1000000 }, { "", 1000000 }, { "m", 60000000 } };
	uint64_t n;
	unsigned i;

	if (!take_number(&s, &n))
		return false;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(s, units[i].name))
			continue;
		*ret = n * units[i].us <= UST_MOST_BLOCK_US ? (uint32_t)(n * units[i].us) : 0;
		return true;
	}
	return false;
}

struct wrong {
	const char *why, *instead;
};

static const struct wrong *parse_buffers(const char *s, struct alone *a)
{
	static const struct wrong small = { UST_FEW_BUFFERS, "4M is taken" },
				  large = { UST_NOT_BUFFERS, "4M is taken" };
	uint64_t n;

	if (!parse_size(s, &n) || n < UST_LEAST_BUFFERS)
		return &small;
	if (n > UST_MOST_BUFFERS)
		return &large;
	a->wish.size = n;
	return NULL;
}

/* Who wanted little gets the least. */
static const struct wrong *parse_max_size(const char *s, struct alone *a)
{
	static const struct wrong none = { UST_SMALL_MAX_SIZE, "there is no limit" },
				  small = { UST_SMALL_MAX_SIZE, "4M is taken" };
	uint64_t n;

	if (!parse_size(s, &n))
		return &none;
	a->spill_limit = n < UST_LEAST_MAX_SIZE ? UST_LEAST_MAX_SIZE : n;
	return n < UST_LEAST_MAX_SIZE ? &small : NULL;
}

static const struct wrong *parse_mode(const char *s, struct alone *a)
{
	static const struct wrong unknown = { UST_NOT_MODE, "discard is taken" },
				  bounds = { UST_NOT_BLOCK, "discard is taken" };
	struct arena_channel_wish *c = &a->wish.channels[0];
	uint32_t us = DEFAULT_BLOCK_US;

	if (!strcmp(s, "overwrite"))
		c->mode = SPOOR_ARENA_OVERWRITE;
	if (!strcmp(s, "overwrite") || !strcmp(s, "discard"))
		return NULL;
	if (strcmp(s, "block") && (strncmp(s, "block=", 6) || !parse_time(s + 6, &us)))
		return &unknown;
	if (!us)
		return &bounds;
	c->mode = SPOOR_ARENA_BLOCK;
	c->block_us = us;
	return NULL;
}

#define PERF_NAME(bit_, name_, field_, type_, config_) "perf:" name_,
static const char *const contexts[] = { "vpid", "vtid", "procname", "ip", "cpu", "callstack" };
static const char *const counters[] = { SPOOR_PERF_CONTEXTS(PERF_NAME) };
#define N_CONTEXTS (sizeof(contexts) / sizeof(contexts[0]))

static bool names_something(const char *glob, size_t n)
{
	uint32_t i;

	for (i = 0; i < N_CONTEXTS + SPOOR_N_PERF; i++)
		if (glob_matches(glob, n, i < N_CONTEXTS ? contexts[i] : counters[i - N_CONTEXTS]))
			return true;
	return false;
}

/* What is known of the list holds whatever else is in it. */
static const struct wrong *parse_contexts(const char *s, struct alone *a)
{
	static const struct wrong unknown = { "not all of vpid, vtid, procname, ip, cpu, callstack, perf:NAME",
					      "what is unknown is left out" };
	uint32_t *set = &a->wish.channels[0].contexts, i;
	const char *at = s;
	bool good = true;

	for (i = 0; i < N_CONTEXTS; i++)
		*set |= (uint32_t)globs_match(s, contexts[i]) << i;
	for (i = 0; strstr(s, "perf:") && i < SPOOR_N_PERF; i++) /* not by "*" */
		*set |= (uint32_t)globs_match(s, counters[i]) << (SPOOR_PERF_FIRST + i);
	for (; *at; at += *at == ',') {
		size_t n = strcspn(at, ","), skip = *at == '!';

		good = good && names_something(at + skip, n - skip);
		at += n;
	}
	return good ? NULL : &unknown;
}

static const struct wrong *parse_stack(const char *s, struct alone *a)
{
	static const struct wrong unknown = { "not app, app-all, lib or all, nor with ,1 to ,512 behind it",
					      "it is left out" };
	static const char *const modes[] = { "app", "app-all", "lib", "all" };
	struct arena_channel_wish *c = &a->wish.channels[0];
	const char *budget = s + strcspn(s, ",");
	uint64_t n = 0;
	uint32_t i;

	if (*budget) {
		const char *at = budget + 1;

		if (!take_number(&at, &n) || *at || !n || n > SPOOR_ARENA_MAX_FRAMES)
			return &unknown;
	}
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strlen(modes[i]) != (size_t)(budget - s) || strncmp(s, modes[i], (size_t)(budget - s)))
			continue;
		c->stack_mode = (uint16_t)(i + 1);
		c->stack_budget = (uint16_t)n;
		c->contexts |= SPOOR_CONTEXT_STACK;
		return NULL;
	}
	return &unknown;
}

static const struct {
	const char *name;
	const struct wrong *(*parse)(const char *s, struct alone *a); /* NULL: it is taken */
} settings[] = {
	{ "SPOOR_UST_BUFFERS", parse_buffers }, { "SPOOR_UST_MODE", parse_mode },
	{ "SPOOR_UST_CONTEXT", parse_contexts }, { "SPOOR_UST_STACK", parse_stack },
	{ "SPOOR_UST_MAX_SIZE", parse_max_size },
};

/* ---- */

void environment_clock(char **envp)
{
	const char *clock = variable(envp, "SPOOR_UST_CLOCK");

	if (!clock)
		return;
	if (!strcmp(clock, "monotonic"))
		clock_use_monotonic();
	else
		say("SPOOR_UST_CLOCK", clock, "not monotonic", "the processor's clock is taken if it is fit");
}

static const char *const nothing = "nothing is recorded";

/* Absolute, because programs change their directory. */
static int parse_directory(const char *s, char *to, size_t size)
{
	size_t n = 0;

	if (*s != '/') {
		long r = sys3(SYS_getcwd, to, size, 0);

		if (sys_failed(r))
			return (int)r;
		n = strlen(to);
		to[n++] = '/';
	}
	if (n + strlen(s) + 1 > size)
		return -ENAMETOOLONG;
	strcpy(to + n, s);
	return 0;
}

/* Can each of them match? Every event is PROVIDER:NAME. */
static bool may_be_events(const char *globs)
{
	size_t n;

	for (; *globs; globs += n + (globs[n] == ',')) {
		n = strcspn(globs, ",");
		if (n && strcspn(globs, ":*?") >= n)
			return false;
	}
	return true;
}

static bool parse_rule(char **envp, struct rule_wish *rule)
{
	const char *filter = variable(envp, "SPOOR_UST_FILTER");
	char wrong[100] = "";

	*rule = (struct rule_wish){ .max_level = UINT32_MAX, .enable = true, .channels = 1 };
	rule->globs = variable(envp, "SPOOR_UST_EVENTS") ?: "*";
	if (!may_be_events(rule->globs)) {
		say("SPOOR_UST_EVENTS", rule->globs,
		    "names are such as server:request, * and ? stand for any characters", nothing);
		return false;
	}
	if (!filter)
		return true;
	if (strlen(filter) > UST_MOST_FILTER)
		strcpy(wrong, UST_LONG_FILTER);
	else if (!filter_compile(filter, &rule->filter, wrong, sizeof(wrong)))
		return true;
	say("SPOOR_UST_FILTER", filter, wrong, nothing);
	return false;
}

static bool is_known(const char *name, size_t n)
{
	static const char *const known[] = { "BUFFERS", "CLOCK",    "CONTEXT", "EVENTS", "FILTER", "LIBRARY",
					     "MODE",    "MAX_SIZE", "OUTPUT",  "SOCKET", "STACK" };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i]) == n && !strncmp(name, known[i], n))
			return true;
	return false;
}

/* One that is misspelt would say nothing, and nobody that it does. */
static void say_unknown(char **envp)
{
	static const char prefix[] = "SPOOR_UST_";
	const size_t len = sizeof(prefix) - 1;

	for (; envp && *envp; envp++) {
		size_t n = strcspn(*envp, "=");
		char name[64] = "";

		if (strncmp(*envp, prefix, len) || !(*envp)[n] || n >= sizeof(name) || is_known(*envp + len, n - len))
			continue;
		memcpy(name, *envp, n);
		say(name, *envp + n + 1, "there is no such variable", "it is left out");
	}
}

bool environment_wants_alone(char **envp)
{
	return variable(envp, "SPOOR_UST_OUTPUT");
}

bool environment_alone(char **envp, struct alone *ret)
{
	const char *dir = variable(envp, "SPOOR_UST_OUTPUT"), *value;
	struct arena_wish *wish = &ret->wish;
	unsigned i;

	note_words();
	say_unknown(envp);
	if (parse_directory(dir, wish->dir, sizeof(wish->dir) - 1)) {
		say("SPOOR_UST_OUTPUT", dir, "the path is too long, or the current directory unknown", nothing);
		return false;
	}
	wish->size = UST_BUFFERS;
	wish->n_channels = 1;
	strcpy(wish->channels[0].name, "channel0");
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const struct wrong *wrong;

		value = variable(envp, settings[i].name);
		wrong = value ? settings[i].parse(value, ret) : NULL;
		if (wrong)
			say(settings[i].name, value, wrong->why, wrong->instead);
	}
	return parse_rule(envp, &ret->rule);
}

static void say_failed(const char *dir, int error, const char *instead)
{
	static const struct {
		int error;
		const char *why;
	} known[] = {
		{ -ENOENT, "no such directory" },
		{ -ENOTDIR, "not a directory" },
		{ -EACCES, "may not be written" },
		{ -EPERM, "may not be written" },
		{ -EROFS, "may not be written" },
		{ -ENOSPC, "no space" },
		{ -EDQUOT, "no space" },
		{ -EFAULT, "no space" }, /* so says who is asked for the file's first pages */
		{ -EFBIG, "files may not be as large as the buffers" },
	};
	const char *why = "no buffers can be made there";
	unsigned i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].error == error)
			why = known[i].why;
	say("SPOOR_UST_OUTPUT", dir, why, instead);
}

void environment_alone_failed(const struct alone *a, int error)
{
	say_failed(a->wish.dir, error, nothing);
}

void outputs_child_failed(const char *dir, int error)
{
	if (may_say())
		say_failed(dir, error, "child processes for which that is so are not recorded");
}

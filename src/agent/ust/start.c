/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The library's begin and end, and recording by environment variables alone:
 *
 *	SPOOR_UST_OUTPUT=DIR    record without a daemon, into files in DIR, which must exist
 *	SPOOR_UST_EVENTS=LIST   globs over provider:name, separated by commas, "!glob": not these; else all
 *	SPOOR_UST_FILTER=EXPR   of these only the events whose fields are so (agent/ust/filter.h)
 *	SPOOR_UST_BUFFERS=SIZE  bytes of buffers of a process, K and M understood; 4M
 *	SPOOR_UST_MODE=MODE     discard, overwrite (flight recorder), or block, block=TIME (10ms)
 *	SPOOR_UST_CONTEXT=LIST  of vpid, vtid, procname, ip, cpu, callstack (by frame pointers), perf:page-faults ...
 *	SPOOR_UST_STACK=MODE,S  of a call stack: app, app-all (default), lib or all, and at most S call sites (5)
 *	SPOOR_UST_MAX_SIZE=SIZE bytes on disk beside the buffers; then events are discarded
 *
 * The environment of a program that runs with more rights than its caller is not looked at.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "agent/control/control.h"
#include "agent/core/objects.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/filter.h"
#include "agent/ust/glob.h"
#include "agent/ust/sites.h"
#include <spoor/tracepoint.h>

#define DEFAULT_BUFFERS (4 << 20)
#define DEFAULT_BLOCK_US 100000
#define MOST_BLOCK_US 60000000

static uint32_t first_pid; /* of the process that loaded the library */

static const char *variable(char **envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (!strncmp(*envp, name, n) && (*envp)[n] == '=' && (*envp)[n + 1])
			return *envp + n + 1;
	return NULL;
}

static uint64_t parse_size(const char *s, uint64_t otherwise)
{
	uint64_t n = 0;

	if (!s || *s < '0' || *s > '9')
		return otherwise;
	for (; *s >= '0' && *s <= '9' && n < 1ULL << 40; s++)
		n = n * 10 + (uint64_t)(*s - '0');
	switch (*s) {
	case 'k':
	case 'K':
		return n << 10;
	case 'm':
	case 'M':
		return n << 20;
	case 'g':
	case 'G':
		return n << 30;
	default:
		return n;
	}
}

/* "10ms", "500us", "1s", "1", in microseconds; at most a minute. */
static uint32_t parse_time(const char *s, uint32_t otherwise)
{
	uint64_t n = 0, unit = 1000000;
	const char *end = s;

	for (; *end >= '0' && *end <= '9' && n < MOST_BLOCK_US; end++)
		n = n * 10 + (uint64_t)(*end - '0');
	if (!strcmp(end, "us"))
		unit = 1;
	else if (!strcmp(end, "ms"))
		unit = 1000;
	if (!n)
		return otherwise;
	return (uint32_t)(n * unit < MOST_BLOCK_US ? n * unit : MOST_BLOCK_US);
}

static void parse_mode(const char *s, struct arena_channel_wish *c)
{
	if (!s)
		return;
	if (!strcmp(s, "overwrite")) {
		c->mode = SPOOR_ARENA_OVERWRITE;
	} else if (!strncmp(s, "block", 5)) {
		c->mode = SPOOR_ARENA_BLOCK;
		c->block_us = s[5] == '=' ? parse_time(s + 6, DEFAULT_BLOCK_US) : DEFAULT_BLOCK_US;
	}
}

#define PERF_NAME(bit_, name_, field_, type_, config_) "perf:" name_,

static uint32_t parse_contexts(const char *s)
{
	static const char *const names[] = { "vpid", "vtid", "procname", "ip", "cpu", "callstack" };
	static const char *const perf_names[] = { SPOOR_PERF_CONTEXTS(PERF_NAME) };
	uint32_t contexts = 0, i;

	for (i = 0; s && i < sizeof(names) / sizeof(names[0]); i++)
		if (globs_match(s, names[i]))
			contexts |= 1U << i;
	for (i = 0; s && strstr(s, "perf:") && i < SPOOR_N_PERF; i++) /* not by "*" */
		if (globs_match(s, perf_names[i]))
			contexts |= 1U << (SPOOR_PERF_FIRST + i);
	return contexts;
}

static void parse_stack(const char *s, struct arena_channel_wish *c)
{
	static const char *const names[] = { "", "app", "app-all", "lib", "all" };
	size_t n = s ? strcspn(s, ",") : 0;
	uint32_t i;

	for (i = 1; n && i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == n && !strncmp(s, names[i], n))
			c->stack_mode = (uint16_t)i;
	if (n && s[n]) {
		uint64_t budget = parse_size(s + n + 1, 0);

		c->stack_budget = (uint16_t)(budget < SPOOR_ARENA_MAX_FRAMES ? budget : SPOOR_ARENA_MAX_FRAMES);
	}
}

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

/* A program without a site needs no memory: it gets an arena with the first object that has some. */
static struct {
	bool waits;
	uint64_t spill_limit;
	struct arena_wish wish;
} daemonless;

static int record_alone(void)
{
	struct output *o;
	int r;

	if (!daemonless.waits || !sites_count(&daemonless.wish.n_stuck))
		return 0;
	daemonless.waits = false;
	r = reserve_init();
	if (!r)
		r = output_open(&daemonless.wish, &o);
	if (r)
		return r;
	o->spill_limit = daemonless.spill_limit;
	return sites_record(0, true, o->first_slot);
}

/* The environment is read now: programs write over it. */
static int record_to(const char *dir, char **envp)
{
	struct rule_wish rule = { .max_level = UINT32_MAX, .enable = true, .channels = 1 };
	struct arena_wish *wish = &daemonless.wish;
	const char *filter;
	char wrong[64];
	int r = parse_directory(dir, wish->dir, sizeof(wish->dir) - 1);

	if (r)
		return r;
	wish->size = parse_size(variable(envp, "SPOOR_UST_BUFFERS"), DEFAULT_BUFFERS);
	wish->n_channels = 1;
	strcpy(wish->channels[0].name, "channel0");
	parse_mode(variable(envp, "SPOOR_UST_MODE"), &wish->channels[0]);
	wish->channels[0].contexts = parse_contexts(variable(envp, "SPOOR_UST_CONTEXT"));
	parse_stack(variable(envp, "SPOOR_UST_STACK"), &wish->channels[0]);
	daemonless.spill_limit = parse_size(variable(envp, "SPOOR_UST_MAX_SIZE"), 0);
	rule.globs = variable(envp, "SPOOR_UST_EVENTS") ?: "*";
	filter = variable(envp, "SPOOR_UST_FILTER");
	if (filter && filter_compile(filter, &rule.filter, wrong, sizeof(wrong)))
		return -EINVAL;
	/* Now it is cheap: with several threads the kernel lets a grace period pass. */
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	sites_rule(0, &rule, NULL, 0);
	daemonless.waits = true;
	return record_alone();
}

static __attribute__((constructor(101))) void start(int argc, char **argv, char **envp)
{
	bool alone = !environ; /* libc has not been initialized yet: nobody can have called dlopen */
	const char *dir;

	(void)argc;
	(void)argv;
	if (process_init() || !process_lock())
		return;
	first_pid = process->pid;
	if (!environ)
		environ = envp;
	code_objects_start(alone);
	sites_find_objects();
	dir = getauxval(AT_SECURE) ? NULL : variable(envp, "SPOOR_UST_OUTPUT");
	if (dir)
		record_to(dir, envp);
	process_unlock();
	if (!dir)
		spoor_control_start();
}

static __attribute__((destructor(101))) void end(void)
{
	spoor_control_stop();
	outputs_end();
}

EXPORT void spoor_ust_object_in(const void *note)
{
	if (process_init() || !outputs_lock(true))
		return;
	sites_object_in(note);
	record_alone();
	spoor_agent_objects();
	process_unlock();
}

EXPORT void spoor_ust_object_out(const void *note)
{
	bool wait;

	if (process_init() || !outputs_lock(true))
		return;
	wait = sites_object_out(note);
	process_unlock();
	/* A forked process may have inherited readers whose threads it has not: it would wait for ever. */
	if (wait && process->pid == first_pid)
		spoor_probe_synchronize();
}

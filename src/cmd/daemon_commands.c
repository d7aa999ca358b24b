/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `spoor ust start|stop|enable|disable|status|snapshot|end` ask of a daemon. The client sends its words as they
 * were typed, file names made absolute; they are parsed here, so that one place says what they mean.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/strings.h"
#include "cmd/daemon_internal.h"
#include "collect/user/perf.h"
#include "collect/user/state.h"

struct spoor_ust_session *spoor_daemon_session(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_hub_find(c->h, c->w.session);

	if (!s)
		spoor_fail(e, ENOENT, "there is no session '%s'; 'spoor ust start' begins one", c->w.session);
	if (!s || !s->ending.step)
		return s;
	spoor_fail(e, EALREADY, "session '%s' is being ended, which takes some seconds at most", s->name);
	return NULL;
}

/* Of one that is to be made. */
static int fail_exists(const struct spoor_ust_session *s, struct spoor_error *e)
{
	return spoor_fail(e, EEXIST, "session '%s' %s, and writes to %s", s->name,
			  s->ending.step ? "is being ended, some seconds at most" : "exists already", s->output);
}

/* ---- enable, disable ---- */

static const char *channel_name(const struct command *c, uint8_t channels)
{
	return c->w.o.s.channels[__builtin_ctz(channels)].name;
}

/* The session's channels that are meant, of those of the command line. */
static int find_channels(struct command *c, const struct spoor_ust_session *s, bool enable, uint8_t *channels,
			 struct spoor_error *e)
{
	if (!c->w.o.named) {
		*channels = enable ? 1 : UINT8_MAX;
		return 0;
	}
	if (c->w.o.defined && !c->is_new)
		return spoor_fail(e, EINVAL, "--channel NAME:...: a session's channels are made when it is created");
	for (unsigned i = 0; i < s->o.n_channels; i++)
		if (!strcmp(s->o.channels[i].name, channel_name(c, *channels))) {
			*channels = 1U << i;
			return 0;
		}
	return spoor_fail(e, ENOENT, "session '%s' has no channel '%s'; 'spoor ust status' lists them", s->name,
			  channel_name(c, *channels));
}

static int add_rule(struct command *c, struct spoor_ust_session *s, const char *pattern,
		    const struct spoor_ust_process *process, bool enable, uint8_t channels, struct spoor_error *e)
{
	struct spoor_ust_rule rule;
	int r = spoor_ust_rule_option(pattern, enable, &rule, e);

	if (!r)
		r = find_channels(c, s, rule.rule.enable, &channels, e);
	if (r)
		return r;
	rule.process = *process;
	rule.rule.channels = channels;
	if (rule.rule.enable) {
		rule.rule.level = c->w.o.level;
		if (c->w.o.filter)
			strcpy(rule.rule.filter, c->w.o.filter);
	}
	return c->is_new ? spoor_ust_session_rule(s, &rule, e) : spoor_hub_rule(c->h, s, &rule, c->q, e);
}

static int fail_gone(const struct command *c, struct spoor_error *e)
{
	return spoor_fail(e, ESRCH, "process %u: there is none", c->w.pids[0]);
}

/* One must be there: others may have ended since they were looked for. */
static int check_processes(const struct command *c, struct spoor_error *e)
{
	for (unsigned i = 0; i < c->w.n_pids; i++)
		if (spoor_process_start(c->w.pids[i]))
			return 0;
	return c->w.n_pids ? fail_gone(c, e) : 0;
}

/* Of a new session's processes one must listen: else there is nothing to begin. */
static int check_listeners(const struct command *c, struct spoor_error *e)
{
	int r = check_processes(c, e);
	bool any = !c->w.n_pids;

	if (r)
		return r;
	for (unsigned i = 0; i < c->w.n_pids && !any; i++) {
		r = spoor_hub_reaches(c->h, c->w.pids[i], e);
		any = !r;
	}
	return any ? 0 : r;
}

static int add_rules(struct command *c, struct spoor_ust_session *s, bool enable, struct spoor_error *e)
{
	bool any = !c->w.n_pids || c->is_new; /* they were there when it was made */
	int r = 0;

	for (unsigned k = 0; k < (c->w.n_pids ? c->w.n_pids : 1) && !r; k++) {
		struct spoor_ust_process process = { .pid = c->w.n_pids ? c->w.pids[k] : 0 };

		if (process.pid)
			process.start_time = spoor_process_start(process.pid);
		if (process.pid && !process.start_time)
			continue; /* others are there */
		any = true;
		for (unsigned i = 0; i < c->w.o.n_rules && !r; i++) {
			const struct spoor_control_rule *rule = &c->w.o.rules[i].rule;

			r = add_rule(c, s, rule->pattern, &process, rule->enable ? enable : !enable, rule->channels, e);
		}
	}
	return r || any ? r : fail_gone(c, e);
}

/* Programs that run already and do not know of us are asked to come. */
static void kick(struct command *c, const struct spoor_ust_session *s)
{
	for (unsigned i = 0; i < c->w.n_pids; i++)
		spoor_hub_kick(c->h, s, c->w.pids[i], c->q);
	if (!c->w.n_pids)
		spoor_hub_kick(c->h, s, 0, c->q);
}

static int change_events(struct command *c, bool enable, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_daemon_session(c, e);
	int r;

	if (!s)
		return -ENOENT;
	if (!c->w.o.n_rules)
		return spoor_fail(e, EINVAL, "%s which events? e.g. 'server:*'", c->w.word);
	if (!c->w.all && !c->w.n_pids)
		return spoor_fail(e, EINVAL, "%s in which programs? PID... or -a", c->w.word);
	if (enable && !s->ruled)
		spoor_ust_options_settle(&c->w.o);
	if (enable)
		spoor_hub_enables(c->q);
	r = add_rules(c, s, enable, e);
	if (!r && enable)
		kick(c, s);
	return r;
}

/* ---- create, start, stop ---- */

static int new_session(struct command *c, struct spoor_ust_session **ret, struct spoor_error *e)
{
	char missing[1024];
	int r;

	if (!c->w.o.output[0])
		return spoor_fail(e, EINVAL, "a new session needs a place for its trace: -o NAME.spoor");
	if (c->w.o.n_rules * (c->w.n_pids ? c->w.n_pids : 1) > SPOOR_UST_MAX_RULES)
		return spoor_fail(e, E2BIG, "more than %d rules: so many events in each of so many processes",
				  SPOOR_UST_MAX_RULES);
	c->w.o.s.name = c->w.session;
	c->w.o.s.output = c->w.o.output;
	c->w.o.s.command = "spoor ust start";
	c->w.o.s.relay = c->d->relay;
	r = spoor_ust_options_check(&c->w.o, e);
	if (!r)
		r = spoor_ust_session_new(&c->w.o.s, 0, ret, e);
	if (r)
		return r;
	spoor_hub_add(c->h, *ret);
	if ((*ret)->sender)
		spoor_hub_greet_relay(c->h, *ret, c->q);
	spoor_user_perf_missing(spoor_ust_options_contexts(&c->w.o), missing, sizeof(missing));
	if (*missing)
		spoor_hub_answer(c->q, missing);
	return 0;
}

static int create(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_hub_find(c->h, c->w.session);
	int r;

	if (s)
		return fail_exists(s, e);
	c->is_new = true;
	if (c->w.o.n_rules)
		spoor_ust_options_settle(&c->w.o);
	r = check_processes(c, e);
	if (!r)
		r = new_session(c, &s, e);
	return r ? r : add_rules(c, s, true, e);
}

/* These processes, or all. How many have been told, or -errno. */
static int record(struct command *c, struct spoor_ust_session *s, bool on, struct spoor_error *e)
{
	int n = 0;

	if (!c->w.n_pids)
		return spoor_hub_record(c->h, s, 0, on, c->q, e);
	for (unsigned i = 0; i < c->w.n_pids; i++) {
		int r = spoor_hub_record(c->h, s, c->w.pids[i], on, c->q, e);

		if (r < 0)
			return r;
		n += r;
	}
	return n;
}

static int start(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_hub_find(c->h, c->w.session);
	int r;

	c->is_new = !s;
	if (s && (c->w.o.output[0] || s->ending.step))
		return fail_exists(s, e);
	if (s && spoor_ust_options_shape(&c->w.o))
		return spoor_fail(e, EEXIST,
				  "session '%s' exists already: its buffers, limits and channels stay as they are; "
				  "-s NAME -o TRACE makes another one",
				  s->name);
	if (!s || !s->ruled)
		spoor_ust_options_settle(&c->w.o); /* without a word it is all */
	r = s ? 0 : check_listeners(c, e);
	if (!r && !s)
		r = new_session(c, &s, e);
	if (r || !s)
		return r;
	spoor_hub_enables(c->q);
	r = add_rules(c, s, true, e);
	if (r)
		return r;
	if (c->is_new) {
		s->recording = true; /* its rules say whom it wants */
		spoor_hub_begins(c->q);
	} else {
		r = record(c, s, true, e);
	}
	if (r < 0)
		return r;
	spoor_hub_join(c->h, s, 0, c->q);
	kick(c, s);
	return 0;
}

static int stop(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_daemon_session(c, e);
	int n;

	if (!s)
		return -ENOENT;
	if (!c->w.all && !c->w.n_pids)
		return spoor_fail(e, EINVAL, "stop in which programs? PID... or -a");
	n = record(c, s, false, e);
	if (n < 0)
		return n;
	if (c->w.n_pids && !n)
		return spoor_fail(e, ESRCH, "session '%s' records none of these processes", s->name);
	spoor_hub_drain(c->h, s);
	return 0;
}

static int snapshot(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_daemon_session(c, e);
	char text[2 * PATH_MAX];
	int r;

	if (!s)
		return -ENOENT;
	if (!c->w.o.output[0])
		return spoor_fail(e, EINVAL, "snapshot to where? -o NAME.spoor");
	r = spoor_hub_snapshot(c->h, s, c->w.o.output, e);
	if (r)
		return r;
	if (s->sender)
		snprintf(text, sizeof(text), "snapshot for %s at %s", spoor_basename(c->w.o.output),
			 spoor_relay_client_url(c->d->relay));
	else
		snprintf(text, sizeof(text), "snapshot in %s", c->w.o.output);
	spoor_hub_answer(c->q, text);
	spoor_daemon_tell_held(c, s->held, "");
	return 0;
}

static int enable(struct command *c, struct spoor_error *e)
{
	return change_events(c, true, e);
}

static int disable(struct command *c, struct spoor_error *e)
{
	return change_events(c, false, e);
}

/* ---- dispatch ---- */

static const struct {
	const char *name;
	int (*run)(struct command *c, struct spoor_error *e);
	bool changes;
} commands[] = {
	{ "create", create, true },      { "start", start, true },
	{ "stop", stop, true },          { "end", spoor_daemon_end, true },
	{ "enable", enable, true },      { "disable", disable, true },
	{ "snapshot", snapshot, false }, { "status", spoor_daemon_status, false },
};

void spoor_daemon_keep(struct command *c)
{
	struct spoor_error e = { "" };
	char text[sizeof(e.text) + 64];

	if (!spoor_daemon_save(c->d, &e) || !spoor_hub_next(c->h, NULL))
		return;
	snprintf(text, sizeof(text), "%s, as long as that is so", e.text);
	spoor_hub_answer(c->q, text);
}

static int dispatch(struct command *c, int argc, char **argv, struct spoor_error *e)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		int r;

		if (strcmp(argv[0], commands[i].name))
			continue;
		r = spoor_ust_command_parse(&c->w, argc, argv, e);
		if (r > 0)
			r = spoor_fail(e, EINVAL, "a daemon gives no help");
		if (!r && !c->w.n_pids)
			spoor_hub_stands(c->q);
		if (!r)
			r = commands[i].run(c, e);
		if (commands[i].changes) /* some of it, where it fails */
			spoor_daemon_keep(c);
		else if (!r && spoor_state_is_old(c->h)) /* what has been told is told by the next daemon, too */
			spoor_daemon_save(c->d, NULL);
		return r;
	}
	return spoor_fail(e, EINVAL, "this daemon does not know that command: it is of another version");
}

void spoor_daemon_command(void *daemon, struct spoor_hub *h, const char *text, size_t len, struct spoor_hub_request *q)
{
	char copy[SPOOR_CONTROL_MAX_SIZE + 1], *argv[SPOOR_CONTROL_MAX_SIZE + 1];
	struct command *c = calloc(1, sizeof(*c));
	struct spoor_error e = { "" };
	int argc = 0, r = -ENOMEM;

	memcpy(copy, text, len);
	copy[len] = '\0';
	for (char *at = copy; at < copy + len && argc < SPOOR_CONTROL_MAX_SIZE; at += strlen(at) + 1)
		argv[argc++] = at;
	argv[argc] = NULL;
	if (c && argc) {
		*c = (struct command){ .d = daemon, .h = h, .q = q };
		r = dispatch(c, argc, argv, &e);
	}
	if (!c || !c->later || r)
		spoor_hub_result(q, r, r ? spoor_error_text(&e, r) : "");
	free(c);
}

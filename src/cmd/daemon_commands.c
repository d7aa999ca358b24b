/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `spoor ust start|stop|enable|disable|status|snapshot|end` ask of a daemon. The client sends its words as they
 * were typed, file names made absolute; they are parsed here, so that one place says what they mean.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "cmd/daemon.h"
#include "cmd/ust_options.h"
#include "collect/user/state.h"

#define MOST_WORDS 256
#define GREET_MS 300

struct command {
	struct spoor_daemon *d;
	struct spoor_hub *h;
	struct spoor_hub_request *q;
	const char *word;
	const char *session;
	bool all;
	struct spoor_ust_cmd_options o;
	uint32_t pids[MOST_WORDS];
	unsigned n_pids;
	const char *names[MOST_WORDS]; /* other arguments */
	unsigned n_names;
};

/* ---- words ---- */

static int parse(struct command *c, int argc, char **argv, struct spoor_error *e)
{
	static const struct option options[] = {
		SPOOR_UST_OPTIONS, { "session", required_argument, NULL, 's' }, { "all", no_argument, NULL, 'a' }, {}
	};
	int opt;

	spoor_ust_options_init(&c->o);
	c->session = "default";
	opterr = 0;
	optind = 0; /* getopt begins anew */
	while ((opt = getopt_long(argc, argv, SPOOR_UST_LETTERS "s:a", options, NULL)) != -1) {
		int r = spoor_ust_option(opt, optarg, &c->o, e);

		if (r < 0)
			return r;
		if (opt == 's')
			c->session = optarg;
		else if (opt == 'a')
			c->all = true;
		else if (!r)
			return spoor_fail(e, EINVAL, "%s does not have that option, or it needs a value", c->word);
	}
	for (; optind < argc; optind++) {
		uint64_t pid;

		if (!spoor_parse_number(argv[optind], 1, INT_MAX, &pid))
			c->pids[c->n_pids++] = pid;
		else
			c->names[c->n_names++] = argv[optind];
	}
	if (c->all && c->n_pids)
		return spoor_fail(e, EINVAL, "-a and PIDs do not go together");
	return 0;
}

static struct spoor_ust_session *session_of(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_hub_find(c->h, c->session);

	if (!s)
		spoor_fail(e, ENOENT, "there is no session '%s'; 'spoor ust start' begins one", c->session);
	return s;
}

/* ---- enable, disable ---- */

static int add_rule(struct command *c, struct spoor_ust_session *s, const char *pattern, uint32_t pid, bool enable,
		    struct spoor_error *e)
{
	struct spoor_ust_rule rule;
	int r = spoor_ust_rule_option(pattern, pid, enable, &rule, e);

	if (r)
		return r;
	if (rule.rule.enable) {
		rule.rule.level = c->o.level;
		if (c->o.filter)
			strcpy(rule.rule.filter, c->o.filter);
	}
	return spoor_hub_rule(c->h, s, &rule, c->q, e);
}

static int add_rules(struct command *c, struct spoor_ust_session *s, bool enable, struct spoor_error *e)
{
	int r = 0;

	for (unsigned k = 0; k < (c->n_pids ? c->n_pids : 1) && !r; k++) {
		uint32_t pid = c->n_pids ? c->pids[k] : 0;

		for (unsigned i = 0; i < c->o.n_rules && !r; i++)
			r = add_rule(c, s, c->o.rules[i].rule.pattern, pid,
				     c->o.rules[i].rule.enable ? enable : !enable, e);
		for (unsigned i = 0; i < c->n_names && !r; i++)
			r = add_rule(c, s, c->names[i], pid, enable, e);
	}
	return r;
}

/* Programs that run already and do not know of us are asked to come. */
static void kick(struct command *c)
{
	for (unsigned i = 0; i < c->n_pids; i++)
		spoor_hub_kick(c->h, c->pids[i], c->q);
	if (!c->n_pids)
		spoor_hub_kick(c->h, 0, c->q);
}

static int change_events(struct command *c, bool enable, struct spoor_error *e)
{
	struct spoor_ust_session *s = session_of(c, e);
	int r;

	if (!s)
		return -ENOENT;
	if (!c->o.n_rules && !c->n_names)
		return spoor_fail(e, EINVAL, "%s which events? e.g. 'server:*'", c->word);
	if (!c->all && !c->n_pids)
		return spoor_fail(e, EINVAL, "%s in which programs? PID... or -a", c->word);
	r = add_rules(c, s, enable, e);
	if (!r && enable)
		kick(c);
	return r;
}

/* ---- start, stop, end ---- */

static void where(const struct command *c, const struct spoor_ust_session *s, char *text, size_t size)
{
	struct spoor_sender_stats stats;

	if (!s->sender) {
		snprintf(text, size, "%s", s->output);
		return;
	}
	spoor_sender_stats(s->sender, &stats);
	snprintf(text, size, "%s/%s at %s", spoor_sender_store(s->sender)->host, stats.name,
		 spoor_relay_client_url(c->d->relay));
}

/* The session goes on without it, until it is there; who starts it is told. */
static void greet_relay(struct command *c, struct spoor_ust_session *s)
{
	struct spoor_error e = { "" };
	char text[640];

	if (!spoor_sender_welcome(s->sender, GREET_MS, &e))
		return;
	snprintf(text, sizeof(text), "the relay does not take it yet: %s", e.text);
	spoor_hub_answer(c->q, text);
}

static int new_session(struct command *c, struct spoor_ust_session **ret, struct spoor_error *e)
{
	int r;

	if (!c->o.output[0])
		return spoor_fail(e, EINVAL, "a new session needs a place for its trace: -o NAME.spoor");
	c->o.s.name = c->session;
	c->o.s.output = c->o.output;
	c->o.s.command = "spoor ust start";
	c->o.s.relay = c->d->relay;
	r = spoor_ust_session_new(&c->o.s, 0, ret, e);
	if (r)
		return r;
	spoor_hub_add(c->h, *ret);
	if ((*ret)->sender)
		greet_relay(c, *ret);
	return 0;
}

static int start(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_hub_find(c->h, c->session);
	bool is_new = !s;
	int r = is_new ? new_session(c, &s, e) : 0;

	if (r || !s)
		return r;
	if (!is_new && c->o.output[0])
		return spoor_fail(e, EEXIST, "session '%s' exists already, and writes to %s", s->name, s->output);
	if (is_new || c->o.n_rules || c->n_names) {
		if (!c->o.n_rules && !c->n_names)
			spoor_ust_options_settle(&c->o);
		r = add_rules(c, s, true, e);
	}
	if (r)
		return r;
	s->recording = true;
	for (unsigned i = 0; i < c->n_pids; i++)
		spoor_hub_record(c->h, s, c->pids[i], true, c->q);
	if (!c->n_pids)
		spoor_hub_record(c->h, s, 0, true, c->q);
	kick(c);
	return 0;
}

static int stop(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = session_of(c, e);
	int n = 0;

	if (!s)
		return -ENOENT;
	if (!c->all && !c->n_pids)
		return spoor_fail(e, EINVAL, "stop in which programs? PID... or -a");
	for (unsigned i = 0; i < c->n_pids; i++)
		n += spoor_hub_record(c->h, s, c->pids[i], false, c->q);
	if (c->all)
		n += spoor_hub_record(c->h, s, 0, false, c->q);
	if (c->n_pids && !n)
		return spoor_fail(e, ESRCH, "session '%s' records none of these processes", s->name);
	spoor_hub_drain(c->h, s);
	return 0;
}

static int end(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = session_of(c, e);
	struct spoor_hub_result result;
	char text[PATH_MAX + 640], output[PATH_MAX + 512];
	int r;

	if (!s)
		return -ENOENT;
	where(c, s, output, sizeof(output));
	r = spoor_hub_end(c->h, s, &result, e);
	if (r)
		return r;
	snprintf(text, sizeof(text), "%" PRIu64 " events of %u programs, %" PRIu64 " lost; %.1f MB in %s",
		 result.events, result.programs, result.lost, result.bytes / 1e6, output);
	spoor_hub_answer(c->q, text);
	if (!result.programs)
		spoor_hub_answer(c->q,
				 "no program came: have they tracepoints ('spoor ust list FILE') and the library? Who "
				 "runs in a container, or as another user, must reach the socket and the library");
	return result.why[0] ? spoor_fail(e, EIO, "%s", result.why) : 0;
}

static int snapshot(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = session_of(c, e);

	if (!s)
		return -ENOENT;
	if (!c->o.output[0])
		return spoor_fail(e, EINVAL, "snapshot to where? -o NAME.spoor");
	return spoor_hub_snapshot(c->h, s, c->o.output, e);
}

/* ---- status ---- */

static void tell_relay(struct command *c, const struct spoor_ust_session *s)
{
	struct spoor_sender_stats st;
	char line[640];

	spoor_sender_stats(s->sender, &st);
	snprintf(line, sizeof(line),
		 "  relay: %s%s%s; %.1f MB wait; %" PRIu64 " reconnects, %.1f s without a connection; "
		 "%" PRIu64 " events discarded meanwhile, %" PRIu64 " packets refused",
		 st.connected ? "connected" :
		 st.failed    ? "failed" :
				"not connected",
		 st.why[0] ? ": " : "", st.why, st.waiting / 1e6, st.reconnects, st.away_ns / 1e9, s->network_lost,
		 st.refused);
	spoor_hub_answer(c->q, line);
}

struct status {
	struct command *c;
	const struct spoor_ust_session *session;
};

static void tell_program(void *ctx, const struct spoor_hub_program_info *p)
{
	struct status *t = ctx;
	char line[768], stuck[160] = "";

	if (p->session != t->session || (t->c->n_pids && t->c->pids[0] != p->pid))
		return;
	if (p->n_stuck)
		snprintf(stuck, sizeof(stuck), ", %u of %u sites cannot be switched: " SPOOR_HUB_STUCK, p->n_stuck,
			 p->n_sites);
	snprintf(line, sizeof(line), "%u %s: %" PRIu64 " events, %" PRIu64 " lost%s%s%s", p->pid, p->comm, p->events,
		 p->lost, p->malformed ? ", some made no sense" : "", p->listens ? "" : ", reached by signal", stuck);
	spoor_hub_answer(t->c->q, line);
}

static int status(struct command *c, struct spoor_error *e)
{
	struct status t = { .c = c };

	for (struct spoor_ust_session *s = spoor_hub_next(c->h, NULL); s; s = spoor_hub_next(c->h, s)) {
		char line[PATH_MAX + 1024], output[PATH_MAX + 512];

		where(c, s, output, sizeof(output));
		snprintf(line, sizeof(line), "session %s: %s, to %s", s->name, s->recording ? "recording" : "stopped",
			 output);
		spoor_hub_answer(c->q, line);
		if (s->sender)
			tell_relay(c, s);
		if (s->failed) {
			snprintf(line, sizeof(line), "  it failed: %s", s->why);
			spoor_hub_answer(c->q, line);
		}
		for (size_t i = 0; i < s->n_rules; i++) {
			const struct spoor_ust_rule *r = &s->rules[i];
			char pid[32] = "all programs";

			if (r->pid)
				snprintf(pid, sizeof(pid), "process %u", r->pid);
			snprintf(line, sizeof(line), "  %s %s in %s%s%s", r->rule.enable ? "enabled" : "disabled",
				 r->rule.pattern, pid, r->rule.filter[0] ? " if " : "", r->rule.filter);
			spoor_hub_answer(c->q, line);
		}
		t.session = s;
		spoor_hub_programs(c->h, tell_program, &t);
	}
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
	{ "start", start, true },    { "stop", stop, true },       { "end", end, true },
	{ "enable", enable, true },  { "disable", disable, true }, { "snapshot", snapshot, false },
	{ "status", status, false },
};

static int dispatch(struct command *c, int argc, char **argv, struct spoor_error *e)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		int r;

		if (strcmp(argv[0], commands[i].name))
			continue;
		c->word = argv[0];
		r = parse(c, argc, argv, e);
		if (!r)
			r = commands[i].run(c, e);
		if (!r && commands[i].changes)
			r = spoor_state_save(c->h, c->d->state, e);
		return r;
	}
	return spoor_fail(e, EINVAL, "this daemon does not know that command: it is of another version");
}

void spoor_daemon_command(void *daemon, struct spoor_hub *h, const char *text, size_t len, struct spoor_hub_request *q)
{
	char copy[SPOOR_CONTROL_MAX_SIZE + 1], *argv[MOST_WORDS + 1];
	struct command *c = calloc(1, sizeof(*c));
	struct spoor_error e = { "" };
	int argc = 0, r = -ENOMEM;

	memcpy(copy, text, len);
	copy[len] = '\0';
	for (char *at = copy; at < copy + len && argc < MOST_WORDS; at += strlen(at) + 1)
		argv[argc++] = at;
	argv[argc] = NULL;
	if (c && argc) {
		*c = (struct command){ .d = daemon, .h = h, .q = q };
		r = dispatch(c, argc, argv, &e);
	}
	free(c);
	spoor_hub_result(q, r, r ? (e.text[0] ? e.text : strerror(-r)) : "");
}

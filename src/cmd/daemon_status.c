/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust status`, and what else a daemon tells of its sessions. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/strings.h"
#include "cmd/daemon_internal.h"
#include "cmd/ust.h"
#include "cmd/ust_options.h"
#include "collect/session/filter.h"

void spoor_daemon_where(const struct command *c, const struct spoor_ust_session *s, char *text, size_t size)
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

/* What the session's own state does not say. */
static const char *single_of(const struct spoor_hub_program_info *p)
{
	if (!p->single)
		return "";
	return p->records ? ", recording" : ", stopped";
}

static const char *const comings[] = { "", ", joined late", ", joined while it ran" };

/* Of the processes that were named, or of any where none was. */
static bool is_meant(struct command *c, uint32_t pid)
{
	bool meant = !c->w.n_pids;

	for (unsigned i = 0; i < c->w.n_pids; i++)
		if (c->w.pids[i] == pid)
			meant = c->shown[i] = true;
	return meant;
}

static void tell_program(void *ctx, const struct spoor_hub_program_info *p)
{
	struct command *c = ctx;
	char line[768], stuck[160] = "", losses[64], reached[96] = "", shared[64] = "";

	if (!is_meant(c, p->pid))
		return;
	if (p->n_stuck)
		snprintf(stuck, sizeof(stuck), ", %u of %u %s cannot be switched: " SPOOR_HUB_STUCK, p->n_stuck,
			 p->n_sites, spoor_plural(p->n_sites, "site", "sites"));
	spoor_ust_losses(p->lost, p->overwritten, losses, sizeof(losses));
	if (p->shared)
		snprintf(shared, sizeof(shared), ", %" PRIu64 " in shared packets", p->shared);
	if (!p->listens)
		snprintf(reached, sizeof(reached), ", %sreached by signal%s%s", p->deaf ? "not " : "",
			 p->deaf ? ": " : "", p->deaf ? p->deaf : "");
	if (p->refused[0])
		snprintf(line, sizeof(line), "%u %s: not recorded: %s", p->pid, p->comm, p->refused);
	else
		snprintf(line, sizeof(line), "%u %s: %" PRIu64 " %s, %s%s%s%s%s%s%s%s", p->pid, p->comm, p->events,
			 spoor_plural(p->events, "event", "events"), losses, shared,
			 p->malformed ? ", some made no sense" : "", single_of(p), comings[p->how % 3], reached, stuck,
			 p->resumed ? ", events counted since this daemon began" : "");
	spoor_hub_answer(c->q, line);
}

static const char *const modes[] = { "discard", "overwrite", "block" };

static void tell_channel(struct command *c, const struct spoor_control_channel *channel)
{
	char line[1024]; /* has room for all contexts there are */
	int n = snprintf(line, sizeof(line), "  channel %s: %s", channel->name, modes[channel->mode % 3]);

	if (channel->mode == SPOOR_ARENA_BLOCK)
		n += snprintf(line + n, sizeof(line) - n, " %u us", channel->block_us);
	if (channel->packet_size)
		n += snprintf(line + n, sizeof(line) - n, ", packets of %u bytes", channel->packet_size);
	if (channel->share > 1)
		n += snprintf(line + n, sizeof(line) - n, ", share %u", channel->share);
	for (unsigned i = 0; i < 32; i++)
		if (channel->contexts >> i & 1 && spoor_ust_context_name(i))
			n += snprintf(line + n, sizeof(line) - n, ", %s", spoor_ust_context_name(i));
	if (channel->contexts & SPOOR_CONTEXT_STACK)
		snprintf(line + n, sizeof(line) - n, ", stack %s,%u",
			 spoor_mode_name(channel->stack_mode ? channel->stack_mode : SPOOR_STACK_APP_ALL),
			 channel->stack_mode == SPOOR_STACK_APP ? 1 :
			 channel->stack_budget                  ? channel->stack_budget :
								  SPOOR_STACK_BUDGET);
	spoor_hub_answer(c->q, line);
}

static void tell_code(struct command *c, const struct spoor_ust_session *s)
{
	char line[2200];

	if (!*s->app_text && !*s->scope_text)
		return;
	snprintf(line, sizeof(line), "  call stacks:%s%s%s%s", *s->app_text ? " app " : "", s->app_text,
		 *s->scope_text ? " scope " : "", s->scope_text);
	spoor_hub_answer(c->q, line);
}

static void tell_rule(struct command *c, const struct spoor_ust_session *s, const struct spoor_ust_rule *r)
{
	const char *level = spoor_ust_level_name(r->rule.level);
	char line[1536], pid[32] = "all programs", channel[48] = "";

	if (r->process.pid)
		snprintf(pid, sizeof(pid), "process %u", r->process.pid);
	for (unsigned i = 0; i < s->o.n_channels && s->o.n_channels > 1; i++)
		if (r->rule.channels == 1U << i)
			snprintf(channel, sizeof(channel), "%s/", s->o.channels[i].name);
	snprintf(line, sizeof(line), "  %s %s%s%s%s in %s%s%s", r->rule.enable ? "enabled" : "disabled", channel,
		 r->rule.pattern, level ? " up to " : "", level ? level : "", pid, r->rule.filter[0] ? " if " : "",
		 r->rule.filter);
	spoor_hub_answer(c->q, line);
}

/* A relay's refusal is for good: no round is needed to know it. Its words; NULL: none. */
static const char *failure_of(const struct spoor_ust_session *s, struct spoor_sender_stats *st)
{
	if (s->sender)
		spoor_sender_stats(s->sender, st);
	if (s->sender && st->failed)
		return st->why;
	return s->failed ? s->why : NULL;
}

static void tell_failure(struct command *c, const struct spoor_ust_session *s, const char *why)
{
	char line[900], cure[160] = "";

	if (s->sender)
		snprintf(cure, sizeof(cure),
			 "; what comes now is not recorded: `spoor ust end -s %s`, and start a new one", s->name);
	snprintf(line, sizeof(line), "  it failed: %s%s", why, cure);
	spoor_hub_answer(c->q, line);
}

static void tell_relay(struct command *c, const struct spoor_ust_session *s)
{
	struct spoor_sender_stats st;
	char line[640];

	spoor_sender_stats(s->sender, &st);
	if (st.failed)
		return;
	snprintf(line, sizeof(line),
		 "  relay: %sconnected%s%s; %.1f MB wait; %" PRIu64 " %s, %.1f s without a connection; "
		 "%" PRIu64 " %s discarded meanwhile, %" PRIu64 " %s refused",
		 st.connected ? "" : "not ", st.why[0] ? ": " : "", st.why, st.waiting / 1e6, st.reconnects,
		 spoor_plural(st.reconnects, "reconnect", "reconnects"), st.away_ns / 1e9, s->network_lost,
		 spoor_plural(s->network_lost, "event", "events"), st.refused,
		 spoor_plural(st.refused, "packet", "packets"));
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_apart(struct command *c, const struct spoor_ust_apart *apart, const char *before)
{
	char line[400], text[384];

	if (!apart->n)
		return;
	snprintf(line, sizeof(line), "%s%s", before, spoor_ust_not_recorded(apart, text, sizeof(text)));
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_away(struct command *c, unsigned n, const char *before)
{
	char line[200];

	if (!n)
		return;
	snprintf(line, sizeof(line),
		 "%s%u %s found no room, at a daemon or to wait for one: what those wrote that ended before there was "
		 "some is lost",
		 before, n, spoor_plural(n, "program", "programs"));
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_held(struct command *c, enum spoor_ust_held held, const char *before)
{
	char line[256];

	if (held == SPOOR_HELD_NOTHING)
		return;
	snprintf(line, sizeof(line), "%swhat programs left that ended while no daemon was there %s", before,
		 held == SPOOR_HELD_UNHEARD ? "is not here yet: trace-keeper does not answer" :
					      "is lost, and not counted: trace-keeper had ended, or did not answer");
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_undescribed(struct command *c, uint64_t n, const char *before)
{
	char line[256], text[192];

	if (!n)
		return;
	snprintf(line, sizeof(line), "%s%s", before, spoor_ust_undescribed(n, text, sizeof(text)));
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_failed_once(struct command *c, const char *why, const char *before)
{
	char line[640];

	if (!*why)
		return;
	snprintf(line, sizeof(line), "%swriting failed for a while: %s", before, why);
	spoor_hub_answer(c->q, line);
}

void spoor_daemon_tell_elsewhere(struct command *c, const char *why, const char *before)
{
	char line[640];

	if (!*why)
		return;
	snprintf(line, sizeof(line), "%sit could not go on in the trace that it had, and began this one: %s", before,
		 why);
	spoor_hub_answer(c->q, line);
}

static const char *state_of(const struct spoor_ust_session *s, bool failed)
{
	if (s->ending.step)
		return "ending";
	if (failed)
		return "failed";
	return s->recording ? "recording" : s->n_singles ? "recording single processes" : "stopped";
}

static void tell_session(struct command *c, const struct spoor_ust_session *s)
{
	struct spoor_hub_result sum;
	struct spoor_sender_stats stats;
	const char *why = failure_of(s, &stats);
	char line[PATH_MAX + 1024], output[PATH_MAX + 512], so_far[192];

	spoor_daemon_where(c, s, output, sizeof(output));
	snprintf(line, sizeof(line), "session %s: %s, to %s", s->name, state_of(s, why), output);
	spoor_hub_answer(c->q, line);
	spoor_daemon_tell_elsewhere(c, s->elsewhere, "  ");
	if (s->o.buffers) {
		snprintf(line, sizeof(line), "  buffers: %" PRIu64 " bytes a program", s->o.buffers);
		spoor_hub_answer(c->q, line);
	}
	tell_code(c, s);
	if (s->sender)
		tell_relay(c, s);
	if (why)
		tell_failure(c, s, why);
	spoor_hub_totals(c->h, s, &sum);
	if (!why)
		spoor_daemon_tell_failed_once(c, sum.failed_once, "  ");
	spoor_daemon_tell_apart(c, &s->apart, "  ");
	spoor_daemon_tell_away(c, s->n_away, "  ");
	spoor_daemon_tell_held(c, s->held, "  ");
	snprintf(line, sizeof(line), "  so far: %s", spoor_ust_sum(&sum, so_far, sizeof(so_far)));
	spoor_hub_answer(c->q, line);
	spoor_daemon_tell_undescribed(c, sum.undescribed, "  ");
	for (unsigned i = 0; i < s->o.n_channels; i++)
		tell_channel(c, &s->o.channels[i]);
	for (size_t i = 0; i < s->n_rules; i++)
		tell_rule(c, s, &s->rules[i]);
	spoor_hub_programs(c->h, s, tell_program, c);
}

/* What of sessions that have ended is not at the relay yet. */
static void tell_leaving(void *ctx, struct spoor_sender *sender)
{
	struct command *c = ctx;
	struct spoor_sender_stats st;
	char line[768];

	spoor_sender_stats(sender, &st);
	snprintf(line, sizeof(line), "ended, and on its way to the relay: %s/%s; %.1f MB wait%s%s",
		 spoor_sender_store(sender)->host, st.name, st.waiting / 1e6, st.why[0] ? ": " : "", st.why);
	spoor_hub_answer(c->q, line);
}

static void tell_missing(struct command *c)
{
	char line[160];

	for (unsigned i = 0; i < c->w.n_pids; i++) {
		if (c->shown[i])
			continue;
		snprintf(line, sizeof(line), "%u: in no session%s%s", c->w.pids[i], c->w.named ? " called " : "",
			 c->w.named ? c->w.session : "");
		spoor_hub_answer(c->q, line);
	}
}

int spoor_daemon_status(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *named = c->w.named ? spoor_hub_find(c->h, c->w.session) : NULL;

	if (c->w.named && !named)
		return spoor_fail(e, ENOENT, "there is no session '%s'", c->w.session);
	if (!spoor_hub_next(c->h, NULL))
		spoor_hub_answer(c->q, "no session");
	for (struct spoor_ust_session *s = spoor_hub_next(c->h, NULL); s; s = spoor_hub_next(c->h, s))
		if (!named || s == named)
			tell_session(c, s);
	tell_missing(c);
	if (c->d->relay && !named)
		spoor_relay_client_leaving(c->d->relay, tell_leaving, c);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust end`: what came of a session, and of one at a relay whether it is there. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/strings.h"
#include "cmd/daemon_internal.h"
#include "cmd/ust.h"

#define HEARD_NS (30 * 1000000ULL) /* so long it takes programs to hear of an end */

/* A session without events: for want of programs, or though there were some? */
static void tell_nothing(struct command *c, const struct spoor_hub_result *result)
{
	char text[200];

	if (result->came)
		spoor_hub_answer(c->q, spoor_ust_for_nothing(result, text, sizeof(text)));
	else
		spoor_hub_answer(c->q,
				 "no program with sites came: have they tracepoints ('spoor ust list FILE') and the "
				 "library? Who runs in a container, or as another user, must reach the socket and the "
				 "library");
}

/* What an end waits for, while it does. */
static void tell_wait(struct command *c, const struct spoor_ust_session *s)
{
	struct spoor_sender_stats stats;
	char text[640];

	if (spoor_hub_awaits_keeper(c->h, s))
		spoor_hub_answer(c->q, "waiting for trace-keeper, some seconds at most: it holds what programs left "
				       "while no daemon was there");
	if (!s->sender)
		return;
	spoor_sender_stats(s->sender, &stats);
	if (!stats.waiting && stats.connected)
		return;
	snprintf(text, sizeof(text), "waiting for the relay, some seconds at most: %.1f MB are on the way%s%s",
		 stats.waiting / 1e6, stats.why[0] ? "; " : "", stats.why);
	spoor_hub_answer(c->q, text);
}

static void tell_refused(struct command *c, const struct spoor_hub_result *result)
{
	char text[160];

	if (!result->refused)
		return;
	snprintf(text, sizeof(text), "of what is lost, %" PRIu64 " %s found no room on the way to the relay",
		 result->refused, spoor_plural(result->refused, "event", "events"));
	spoor_hub_answer(c->q, text);
}

/* What the relay has not got yet is the last line, and no success. */
static int tell_way(const struct command *c, const struct spoor_sender_stats *stats, bool there, struct spoor_error *e)
{
	if (there)
		return 0;
	return spoor_fail(e, EINPROGRESS,
			  "%" PRIu64 " kB of it are on the way to %s yet%s%s; the daemon goes on sending ('spoor ust "
			  "status' tells), and loses them if it is stopped before",
			  stats->waiting / 1000 + 1, spoor_relay_client_url(c->d->relay), stats->why[0] ? ": " : "",
			  stats->why);
}

/* All that can be waited for has been. */
static int end_now(struct command *c, struct spoor_ust_session *s, struct spoor_error *e)
{
	char text[PATH_MAX + 768], output[PATH_MAX + 512], sum[192];
	struct spoor_sender_stats stats = {};
	struct spoor_hub_result result;
	bool there = !s->sender || !spoor_ust_session_settle(s, 0);
	int r;

	spoor_daemon_where(c, s, output, sizeof(output));
	if (s->sender)
		spoor_sender_stats(s->sender, &stats);
	r = spoor_hub_end(c->h, s, &result, e);
	spoor_hub_recall(c->h, HEARD_NS);
	spoor_daemon_tell_held(c, result.held_lost ? SPOOR_HELD_LOST : SPOOR_HELD_NOTHING, "");
	if (stats.failed)
		return spoor_fail(e, EIO, "%s", stats.why);
	snprintf(text, sizeof(text), "%s %s %s", spoor_ust_sum(&result, sum, sizeof(sum)), there ? "in" : "for",
		 output);
	spoor_hub_answer(c->q, text);
	spoor_daemon_tell_elsewhere(c, result.elsewhere, "");
	spoor_daemon_tell_failed_once(c, result.failed_once, "");
	tell_refused(c, &result);
	if (result.damaged.n)
		spoor_hub_answer(c->q, spoor_ust_damaged(&result.damaged, text, sizeof(text)));
	spoor_daemon_tell_undescribed(c, result.undescribed, "");
	if (result.uncounted)
		spoor_hub_answer(c->q, spoor_ust_uncounted(result.uncounted, text, sizeof(text)));
	spoor_daemon_tell_apart(c, &result.apart, "");
	if (result.late) {
		snprintf(text, sizeof(text), "%u of them joined late: they began before this daemon answered them",
			 result.late);
		spoor_hub_answer(c->q, text);
	}
	spoor_daemon_tell_away(c, result.away, "");
	if (!result.programs && !result.apart.n)
		tell_nothing(c, &result);
	if (r) /* its last definitions could not be written, say */
		return r;
	return result.why[0] ? spoor_fail(e, EIO, "%s", result.why) : tell_way(c, &stats, there, e);
}

void spoor_daemon_ended(void *daemon, struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_request *q)
{
	struct command c = { .d = daemon, .h = h, .q = q };
	struct spoor_error e = { "" };
	int r = end_now(&c, s, &e);

	spoor_daemon_keep(&c);
	spoor_hub_result(q, r, e.text);
	spoor_hub_publish(h);
}

int spoor_daemon_end(struct command *c, struct spoor_error *e)
{
	struct spoor_ust_session *s = spoor_daemon_session(c, e);

	if (!s)
		return -ENOENT;
	if (!s->sender && !spoor_hub_awaits_keeper(c->h, s))
		return end_now(c, s, e);
	tell_wait(c, s);
	c->later = true;
	spoor_hub_end_later(c->h, s, c->q);
	return 0;
}

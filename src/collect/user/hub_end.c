/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a session ends. At once, as a rule; where the keeper is slow, or the trace goes to a relay, in steps, one in each
 * round, so that nobody else waits for them:
 *
 *	HEARS    -> TAKES      when the keeper has told what it holds, or after a while
 *	TAKES    -> SETTLES    when everything is on its way; after a while what finds no room is lost, and counted
 *	SETTLES  -> the host   when the relay has everything, or after a while
 */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "collect/user/hub_internal.h"

#define PATIENCE_MS 2000 /* for a step */
#define PATIENCE_NS (PATIENCE_MS * 1000000ULL)
#define HEARS_NS (5 * SPOOR_NS_PER_SEC) /* what is not heard then is lost, and nobody knows how much that is */

static void give_up_keeper(struct spoor_ust_session *s)
{
	if (s->held == SPOOR_HELD_UNHEARD)
		s->held = SPOOR_HELD_LOST;
}

static bool is_over(struct spoor_hub *h, struct spoor_ust_session *s, uint64_t now)
{
	struct spoor_ust_ending *k = &s->ending;

	if (k->step == SPOOR_ENDING_HEARS) {
		spoor_hub_take(h, s, TAKE_DUE);
		if (spoor_hub_awaits_keeper(h, s) && now < k->until)
			return false;
		give_up_keeper(s);
		spoor_orphans_look(h, true);
		k->step = SPOOR_ENDING_TAKES;
		k->until = now + PATIENCE_NS;
	}
	if (k->step == SPOOR_ENDING_TAKES) {
		spoor_hub_take(h, s, TAKE_POSSIBLE);
		if (s->missed && now < k->until)
			return false;
		if (s->missed)
			spoor_hub_take(h, s, TAKE_ALL);
		k->step = SPOOR_ENDING_SETTLES;
		k->until = now + PATIENCE_NS;
	}
	return !spoor_ust_session_settle(s, 0) || now >= k->until;
}

void spoor_hub_end_step(struct spoor_hub *h, struct spoor_ust_session *s, uint64_t now)
{
	if (is_over(h, s, now))
		h->o.ended(h->o.ctx, h, s, s->ending.request);
}

void spoor_hub_end_later(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_request *q)
{
	spoor_hub_record(h, s, 0, false, NULL, NULL);
	s->ending = (struct spoor_ust_ending){ SPOOR_ENDING_HEARS, spoor_now_monotonic() + HEARS_NS, q };
	spoor_hub_hurry(h);
}

static bool goes_on(struct hub_program *p, const struct spoor_ust_session *s)
{
	return spoor_program_member(p, s) && !p->gone && !p->dead;
}

int spoor_hub_end(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_result *ret, struct spoor_error *e)
{
	unsigned go_on = 0;

	give_up_keeper(s);
	if (!s->ending.step) {
		spoor_orphans_look(h, true);
		spoor_hub_take(h, s, TAKE_ALL);
	}
	for (struct hub_program *p = h->first; p; p = p->next) {
		go_on += goes_on(p, s);
		spoor_program_leave(p, s);
	}
	spoor_hub_retired_finish(h, s);
	spoor_hub_gone_finish(h, s);
	if (ret) {
		spoor_hub_totals(h, s, ret);
		ret->go_on = go_on;
	}
	if (!s->o.writer)
		spoor_writer_last(s->w);
	spoor_hub_unlink(h, s);
	return spoor_ust_session_close(s, e);
}

/* Who waits for its end hears that there was none. */
static void break_off(struct spoor_hub *h, struct spoor_ust_session *s)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "the daemon is told to end, and %s: session '%s' is stopped, and stays for the next daemon: end it "
		 "there",
		 spoor_hub_awaits_keeper(h, s) ? "trace-keeper does not answer yet" :
						 "the relay has not everything yet",
		 s->name);
	spoor_hub_result(s->ending.request, -ECANCELED, text);
	spoor_requests_tick(h, spoor_now_monotonic());
}

int spoor_hub_suspend(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_error *e)
{
	if (s->ending.step)
		break_off(h, s);
	spoor_hub_gone_look(h, s);
	spoor_ust_session_settle(s, PATIENCE_MS);
	spoor_hub_gone_look(h, s);
	for (struct hub_program *p = h->first; p; p = p->next)
		spoor_program_forget(p, s);
	spoor_hub_retired_forget(s);
	if (!s->o.writer)
		spoor_writer_suspend(s->w);
	spoor_hub_unlink(h, s);
	return spoor_ust_session_close(s, e);
}

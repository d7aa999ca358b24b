/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that ran before a session, and that no signal reaches: whoever asks for them is told who they are, and the
 * session has them among those that are not recorded, unless they come after all.
 */
#include <stdio.h>

#include "base/process.h"
#include "base/strings.h"
#include "collect/user/hub_internal.h"
#include "collect/user/sites.h"
#include "collect/user/urgent.h"

#define MOST_NAMED 16  /* to who gave one command */
#define MOST_LOOKED 64 /* into */

static void count_none(void *ctx, const struct spoor_site_info *site)
{
}

/* To look takes milliseconds: of very many it is taken for granted. */
static bool has_sites(const struct spoor_hub_request *q, uint32_t pid)
{
	return q->n_unreached > MOST_LOOKED || spoor_sites_of_process(pid, false, count_none, NULL, NULL) > 0;
}

void spoor_unreached_note(struct spoor_hub *h, const struct spoor_hub_request *q, uint32_t pid, const char *why)
{
	struct spoor_ust_process process = { pid, spoor_process_start(pid) };
	struct spoor_ust_session *s = h->sessions;

	while (s && s != q->session)
		s = s->next;
	if (s && process.start_time && spoor_ust_session_wants(s, &process) && !spoor_apart_has(s, &process) &&
	    has_sites(q, pid))
		spoor_apart_unreached(s, &process, why);
}

void spoor_unreached_tell(struct spoor_hub *h, struct spoor_hub_request *q, uint32_t pid, int result, const char *why)
{
	if (!q)
		return;
	q->n_unreached++;
	spoor_unreached_note(h, q, pid, why);
	if (!q->again || q->n_unreached <= MOST_NAMED) { /* who was asked for by his number is named */
		spoor_request_done(q, pid, result, why);
		return;
	}
	q->programs++;
	q->refused++;
}

void spoor_unreached_sum_up(struct spoor_hub_request *q)
{
	char line[96];

	if (q->n_unreached <= MOST_NAMED)
		return;
	snprintf(line, sizeof(line), "and %u more that no signal reaches", q->n_unreached - MOST_NAMED);
	spoor_hub_answer(q, line);
}

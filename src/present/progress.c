/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How far a report is: on a terminal, once it takes long enough to be seen. */
#include <stdio.h>

#include "base/time.h"
#include "present/present.h"

#define LOOK_EVERY 64

void spoor_view_progress(struct spoor_view *v, const char *what, size_t done, size_t total)
{
	uint64_t now;

	if (!v->progress || done % LOOK_EVERY || done == total)
		return;
	now = spoor_now_monotonic();
	if (!v->next_progress)
		v->next_progress = now + SPOOR_NS_PER_SEC / 2;
	if (now < v->next_progress)
		return;
	if (total)
		fprintf(stderr, "\r%s: %3zu %%", what, done * 100 / total);
	else
		fprintf(stderr, "\r%s: %zu", what, done);
	fflush(stderr);
	v->progress_shown = 1;
	v->next_progress = now + SPOOR_NS_PER_SEC / 10;
}

void spoor_view_listed(struct spoor_view *v)
{
	const struct spoor_tally *t = &v->tally;

	spoor_view_progress(v, "calls and events listed", t->calls + t->unfinished + t->user_events, 0);
}

void spoor_view_progress_end(struct spoor_view *v)
{
	if (v->progress_shown)
		fputs("\r\033[K", stderr);
	v->progress_shown = 0;
}

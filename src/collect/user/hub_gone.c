/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that are gone: what is told of their end, and then their buffers, which the keeper holds. */
#include <stdlib.h>
#include <string.h>

#include "collect/user/hub_internal.h"

#define NOT_WRITTEN UINT64_MAX

static void drop_first(struct spoor_hub *h, struct spoor_ust_session *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		spoor_keeper_drop(h->keeper, s->gone[i].arena);
	s->n_gone -= n;
	memmove(s->gone, s->gone + n, s->n_gone * sizeof(*s->gone));
}

void spoor_hub_gone_look(struct spoor_hub *h, struct spoor_ust_session *s)
{
	uint64_t acked = s->sender ? spoor_sender_acked(s->sender) : 0;
	uint64_t mark;
	size_t n = 0;

	if (!s->n_gone)
		return;
	spoor_writer_flush_due(s->w, NULL); /* who writes events next hears why it failed */
	mark = spoor_writer_has_unwritten(s->w) ? NOT_WRITTEN : s->sender ? spoor_sender_mark(s->sender) : 0;
	for (size_t i = 0; i < s->n_gone; i++)
		if (s->gone[i].mark == NOT_WRITTEN)
			s->gone[i].mark = mark;
	while (n < s->n_gone && s->gone[n].mark <= acked)
		n++;
	drop_first(h, s, n);
}

void spoor_hub_gone_finish(struct spoor_hub *h, struct spoor_ust_session *s)
{
	spoor_hub_gone_look(h, s);
	drop_first(h, s, s->n_gone);
}

/* With a full disk, or without the relay, the keeper is not to hold ever more. */
static void make_room(struct spoor_hub *h, struct spoor_ust_session *s)
{
	if (s->n_gone == SPOOR_UST_MOST_GONE)
		spoor_hub_gone_look(h, s);
	if (s->n_gone == SPOOR_UST_MOST_GONE)
		drop_first(h, s, 1);
}

void spoor_hub_gone(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_source *source,
		    enum spoor_program_end end)
{
	spoor_ust_session_gone(s, source, end);
	if (h->keeper >= 0) {
		make_room(h, s);
		s->gone[s->n_gone].mark = NOT_WRITTEN;
		memcpy(s->gone[s->n_gone++].arena, source->arena->head.uuid, sizeof(s->gone->arena));
	}
	spoor_waker_remove(h->waker, source->arena);
	spoor_source_done(source);
	free(source);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is written and not yet where it is safe: it stays in the buffers of its programs. */
#include <stdlib.h>
#include <string.h>

#include "collect/user/taker_internal.h"

#define UNMARKED UINT64_MAX

void spoor_taker_hold(struct spoor_taker *t)
{
	t->holds = true;
}

static bool make_room(struct spoor_taker *t)
{
	struct held *grown;

	if (t->first_held > t->room_held / 2 && t->n_held == t->room_held) {
		memmove(t->held, t->held + t->first_held, (t->n_held - t->first_held) * sizeof(*t->held));
		t->n_held -= t->first_held;
		t->first_held = 0;
	}
	if (t->n_held < t->room_held)
		return true;
	grown = reallocarray(t->held, t->room_held ? t->room_held * 2 : 1024, sizeof(*grown));
	if (!grown)
		return false;
	t->held = grown;
	t->room_held = t->room_held ? t->room_held * 2 : 1024;
	return true;
}

bool spoor_taker_holds(struct spoor_taker *t, const struct taken *k)
{
	struct spoor_user_arena *a = k->source->arena;

	if (!t->holds || a->peek || !make_room(t))
		return false;
	spoor_user_packet_hold(a, k->packet, k->bytes, k->n + k->refused + k->undescribed);
	k->source->held++;
	t->held[t->n_held++] = (struct held){ .source = k->source,
					      .packet = k->packet,
					      .done = k->done,
					      .serial = k->where.serial,
					      .position = k->where.position,
					      .mark = UNMARKED };
	return true;
}

void spoor_taker_mark(struct spoor_taker *t, uint64_t mark)
{
	for (size_t i = t->n_held; i > t->first_held && t->held[i - 1].mark == UNMARKED; i--)
		t->held[i - 1].mark = mark;
}

void spoor_taker_release(struct spoor_taker *t, uint64_t acked)
{
	for (; t->first_held < t->n_held && t->held[t->first_held].mark <= acked; t->first_held++) {
		struct held *k = &t->held[t->first_held];

		if (!k->source)
			continue;
		k->source->held--;
		spoor_user_packet_release(k->source->arena, k->packet, k->serial, k->position, k->done);
	}
	if (t->first_held == t->n_held)
		t->first_held = t->n_held = 0;
}

void spoor_taker_leave(struct spoor_taker *t, struct spoor_source *s)
{
	for (size_t i = 0; s->untold && i < t->n_untold; i++)
		if (t->untold[i] == s) {
			t->untold[i] = t->untold[--t->n_untold];
			break;
		}
	s->untold = false;
	s->lost = s->overwritten = s->named = 0;
	s->taken = s->arena->taken;
}

void spoor_taker_forget(struct spoor_taker *t, struct spoor_source *s)
{
	spoor_taker_leave(t, s);
	if (!s->held)
		return;
	for (size_t i = t->first_held; i < t->n_held; i++)
		if (t->held[i].source == s)
			t->held[i].source = NULL;
	s->held = 0;
}

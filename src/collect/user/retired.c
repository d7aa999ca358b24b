/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers of programs that ended while a flight recorder was on them: snapshots look into them like into those of
 * programs that run, until there are too many.
 */
#include <stdlib.h>
#include <string.h>

#include "collect/user/hub_internal.h"

#define MOST_BYTES (64ULL << 20) /* of a session; docs/ust.md says so */

/* Into the session's trace, as it would have gone at its end. */
static void let_go(struct spoor_hub *h, struct spoor_ust_session *s, size_t i)
{
	struct spoor_ust_retired r = s->retired[i];
	struct spoor_error e = { "" };

	if (spoor_ust_session_drain(s, &r.source, 1, &e) < 0)
		spoor_ust_session_fails(s, e.text);
	memmove(&s->retired[i], &s->retired[i + 1], (--s->n_retired - i) * sizeof(*s->retired));
	s->retired_bytes -= r.source->arena->size;
	spoor_ust_session_gone(s, r.source, r.end);
	spoor_keeper_drop(h->keeper, r.source->arena->head.uuid);
	spoor_source_done(r.source);
	free(r.source);
}

void spoor_hub_retire(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_source *source,
		      enum spoor_program_end end)
{
	struct spoor_ust_retired *grown = reallocarray(s->retired, s->n_retired + 1, sizeof(*grown));

	source->state = spoor_ust_state(source, end);
	source->live = false;
	if (!grown) { /* then it is not in snapshots */
		struct spoor_error e = { "" };

		if (spoor_ust_session_drain(s, &source, 1, &e) < 0)
			spoor_ust_session_fails(s, e.text);
		spoor_ust_session_gone(s, source, end);
		spoor_source_done(source);
		free(source);
		return;
	}
	s->retired = grown;
	s->retired[s->n_retired++] = (struct spoor_ust_retired){ source, end };
	s->retired_bytes += source->arena->size;
	while (s->retired_bytes > MOST_BYTES)
		let_go(h, s, 0);
}

void spoor_hub_retired_finish(struct spoor_hub *h, struct spoor_ust_session *s)
{
	for (size_t i = 0; i < s->n_retired; i++) {
		struct spoor_source *source = s->retired[i].source;

		spoor_ust_session_gone(s, source, s->retired[i].end);
		spoor_keeper_drop(h->keeper, source->arena->head.uuid);
		spoor_source_done(source);
		free(source);
	}
	s->n_retired = 0;
}

void spoor_hub_retired_forget(struct spoor_ust_session *s)
{
	for (size_t i = 0; i < s->n_retired; i++) {
		spoor_taker_forget(s->taker, s->retired[i].source);
		spoor_source_done(s->retired[i].source);
		free(s->retired[i].source);
	}
	s->n_retired = 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers of programs that ended while a flight recorder was on them: snapshots look into them like into those of
 * programs that run, until there are too many.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

#define MOST_BYTES (64ULL << 20) /* of memory, of a session; docs/ust.md says so */

static bool is_done(const struct spoor_ust_retired *r)
{
	return r->sent && (!r->source->held || r->source->refused); /* what was refused is counted */
}

void spoor_hub_retired_look(struct spoor_hub *h, struct spoor_ust_session *s)
{
	uint64_t sent = 0;
	size_t kept = 0;

	for (size_t i = 0; i < s->n_retired; i++)
		sent += s->retired[i].sent ? s->retired[i].source->memory : 0;
	for (size_t i = 0; i < s->n_retired; i++) {
		struct spoor_ust_retired r = s->retired[i];

		if (r.sent && (is_done(&r) || sent > MOST_BYTES)) {
			sent -= r.source->memory;
			spoor_hub_gone(h, s, r.source, r.end);
		} else {
			s->retired[kept++] = r;
		}
	}
	s->n_retired = kept;
}

/*
 * Into the session's trace, as they would have gone at its end. Many at once, and in order of time: all that is taken
 * later and was written at the same time needs lanes of its own.
 */
static void let_go(struct spoor_hub *h, struct spoor_ust_session *s)
{
	_cleanup_(spoor_freep) struct spoor_source **sources = calloc(s->n_retired, sizeof(*sources));
	struct spoor_error e = { "" };
	size_t n = 0;

	for (size_t i = 0; sources && i < s->n_retired && s->retired_bytes > MOST_BYTES / 2; i++) {
		if (s->retired[i].sent)
			continue;
		s->retired[i].sent = true;
		sources[n++] = s->retired[i].source;
		s->retired_bytes -= s->retired[i].source->memory;
	}
	if (n && spoor_ust_session_drain_by_time(s, sources, n, &e) < 0)
		spoor_ust_session_fails(s, e.text);
	spoor_hub_retired_look(h, s);
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
		spoor_hub_gone(h, s, source, end);
		return;
	}
	s->retired = grown;
	s->retired[s->n_retired++] = (struct spoor_ust_retired){ source, end, false };
	source->memory = spoor_user_arena_memory(source->arena);
	s->retired_bytes += source->memory;
	if (s->retired_bytes > MOST_BYTES)
		let_go(h, s);
}

void spoor_hub_retired_finish(struct spoor_hub *h, struct spoor_ust_session *s)
{
	for (size_t i = 0; i < s->n_retired; i++)
		spoor_hub_gone(h, s, s->retired[i].source, s->retired[i].end);
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

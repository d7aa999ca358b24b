/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session whose trace goes to a relay. What its programs wrote is taken, written and sent, and stays in their buffers
 * until the relay has it: so a recorder that is killed loses nothing, and if the network is slow the buffers fill, and
 * the programs count what they have to discard, as they do for a slow disk.
 *
 *   program's buffer -> round -> writer -> sender's queue -> relay
 *          ^                                                   |
 *          +---------------- release <-------- acked <---------+
 */
#include "collect/user/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/signals.h"
#include "base/strings.h"
#include "trace/digest.h"

#define WAIT_MS 500

int spoor_network_open(struct spoor_ust_session *s, struct spoor_error *e)
{
	struct spoor_store *store;
	int r = spoor_relay_client_send(s->o.relay, spoor_basename(s->output), s->o.token, s->o.resume, &s->sender, e);

	if (r || !s->o.resume)
		return r;
	do
		r = spoor_sender_welcome(s->sender, WAIT_MS, e);
	while (r == -ETIMEDOUT && !spoor_signals_told_to_end());
	if (r)
		return r;
	store = spoor_sender_store(s->sender);
	r = spoor_digest_sources(store->digest, store->digest_len, spoor_source_list_add, &s->written);
	return r ? spoor_fail(e, -r, "what the relay says of the trace: %s", strerror(-r)) : 0;
}

void spoor_network_release(struct spoor_ust_session *s)
{
	spoor_taker_release(s->taker, spoor_sender_acked(s->sender));
}

size_t spoor_network_room(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n)
{
	uint64_t waiting = 0;
	size_t room;

	spoor_network_release(s);
	for (size_t i = 0; i < n; i++)
		waiting += spoor_user_arena_waiting(sources[i]->arena);
	room = spoor_sender_room(s->sender);
	/* Rounds that are cut into many pieces need many lanes. */
	return waiting <= room || room >= spoor_sender_memory(s->sender) / 2 ? room : 0;
}

void spoor_network_losses(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < n; i++)
		lost += spoor_user_arena_lost(sources[i]->arena);
	if (s->behind && lost > s->lost_before)
		s->network_lost += lost - s->lost_before;
	s->lost_before = lost;
}

void spoor_network_round(struct spoor_ust_session *s)
{
	uint64_t mark = spoor_sender_mark(s->sender), acked = spoor_sender_acked(s->sender);

	spoor_taker_mark(s->taker, mark);
	spoor_taker_release(s->taker, acked);
	s->behind = acked < mark;
}

int spoor_ust_session_settle(struct spoor_ust_session *s, unsigned ms)
{
	int r;

	if (!s->sender)
		return 0;
	r = spoor_sender_flush(s->sender, ms);
	spoor_network_release(s);
	return r;
}

void spoor_network_counters(struct spoor_ust_session *s)
{
	struct spoor_sender_stats stats;

	spoor_sender_stats(s->sender, &stats);
	spoor_taker_counter(s->taker, "relay_discarded", s->network_lost);
	spoor_taker_counter(s->taker, "relay_refused_packets", stats.refused);
	spoor_taker_counter(s->taker, "relay_reconnects", stats.reconnects);
	spoor_taker_counter(s->taker, "relay_away_ms", stats.away_ns / 1000000);
}

bool spoor_network_trouble(struct spoor_ust_session *s, char *text, size_t size)
{
	struct spoor_sender_stats stats;

	if (!s->sender)
		return false;
	spoor_sender_stats(s->sender, &stats);
	if (!strcmp(stats.why, s->trouble))
		return false;
	if (!stats.why[0] && !stats.connected)
		return false;
	snprintf(s->trouble, sizeof(s->trouble), "%s", stats.why);
	if (stats.why[0])
		snprintf(text, size, "session %s: %s", s->name, stats.why);
	else
		snprintf(text, size, "session %s: the relay takes it again", s->name);
	return true;
}

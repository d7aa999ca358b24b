/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon's state file that somebody has changed: its sessions are refused, or keep to their bounds and are the same
 * when they have been written and read again. None is opened: nothing is touched under the names that it has.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/user/state_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool ends(const char *text, size_t size)
{
	return memchr(text, 0, size);
}

static void check(const struct spoor_state_session *k)
{
	if (!ends(k->name, sizeof(k->name)) || !ends(k->output, sizeof(k->output)) ||
	    !ends(k->command, sizeof(k->command)) || !ends(k->app, sizeof(k->app)) ||
	    !ends(k->scope, sizeof(k->scope)) || !ends(k->elsewhere, sizeof(k->elsewhere)) ||
	    k->o.n_channels > SPOOR_ARENA_MAX_CHANNELS || k->there != !!k->o.token)
		abort();
	for (unsigned i = 0; i < k->o.n_channels; i++)
		if (!ends(k->o.channels[i].name, sizeof(k->o.channels[i].name)) ||
		    k->o.channels[i].mode > SPOOR_ARENA_BLOCK)
			abort();
}

/* As the daemon makes it, but that there is no trace. */
static struct spoor_ust_session session_of(struct spoor_state_session *k)
{
	return (struct spoor_ust_session){
		.id = k->id,
		.name = k->name,
		.output = k->output,
		.command = k->command,
		.app_text = k->app,
		.scope_text = k->scope,
		.o = k->o,
	};
}

static int read_all(const json_t *j, struct spoor_state_session *k, struct spoor_ust_session *s)
{
	struct spoor_error e;
	int r = spoor_state_read(j, k, &e);

	if (r)
		return r;
	check(k);
	*s = session_of(k);
	r = spoor_state_read_damaged(j, s) ?: spoor_state_read_rules(j, s);
	if (!ends(s->damaged.who, sizeof(s->damaged.who)))
		abort();
	s->recording = k->recording;
	s->ruled = k->ruled;
	s->apart = k->apart;
	spoor_state_read_apart(j, s);
	spoor_state_read_came(j, s);
	memcpy(s->elsewhere, k->elsewhere, sizeof(s->elsewhere));
	if (s->n_rules > SPOOR_UST_MAX_RULES || s->n_singles > SPOOR_UST_MAX_RULES)
		abort();
	return r;
}

static void compare(const struct spoor_ust_session *a, const struct spoor_ust_session *b)
{
	if (a->id != b->id || strcmp(a->name, b->name) || strcmp(a->output, b->output) ||
	    strcmp(a->command, b->command) || strcmp(a->app_text, b->app_text) ||
	    strcmp(a->scope_text, b->scope_text) || strcmp(a->elsewhere, b->elsewhere) ||
	    a->recording != b->recording || a->ruled != b->ruled || a->o.buffers != b->o.buffers ||
	    a->o.max_size != b->o.max_size || a->n_rules != b->n_rules || a->o.segment_size != b->o.segment_size ||
	    a->o.segment_ns != b->o.segment_ns || a->o.n_channels != b->o.n_channels)
		abort();
	if (a->apart.n != b->apart.n || strcmp(a->apart.why, b->apart.why) || a->apart.differ != b->apart.differ)
		abort();
	if (a->damaged.n != b->damaged.n || a->damaged.places != b->damaged.places ||
	    strcmp(a->damaged.who, b->damaged.who) || a->damaged_arenas.n != b->damaged_arenas.n)
		abort();
	if (memcmp(a->o.channels, b->o.channels, sizeof(a->o.channels)) ||
	    (a->n_rules && memcmp(a->rules, b->rules, a->n_rules * sizeof(*a->rules))))
		abort();
}

static void compare_unwritten(struct spoor_state_session *a, struct spoor_state_session *b)
{
	spoor_source_list_sort(&a->unwritten);
	spoor_source_list_sort(&b->unwritten);
	if (a->o.lost_writing != b->o.lost_writing || a->unwritten.n != b->unwritten.n ||
	    (a->unwritten.n && memcmp(a->unwritten.all, b->unwritten.all, a->unwritten.n * sizeof(*a->unwritten.all))))
		abort();
}

static void go_round(const json_t *j)
{
	static struct spoor_state_session k, again;
	struct spoor_ust_session s = {}, t = {};
	json_t *written = NULL;

	if (!read_all(j, &k, &s))
		written = spoor_state_write(&s);
	if (written) {
		spoor_state_add_unwritten(written, &k.unwritten, k.o.lost_writing);
		if (read_all(written, &again, &t))
			abort();
		compare(&s, &t);
		compare_unwritten(&k, &again);
	}
	spoor_state_done(&k);
	spoor_state_done(&again);
	json_decref(written);
	free(s.rules);
	free(t.rules);
	free(s.singles);
	free(t.singles);
	free(s.apart_who);
	free(t.apart_who);
	spoor_source_list_done(&s.damaged_arenas);
	spoor_source_list_done(&t.damaged_arenas);
	free(s.came_earlier);
	free(t.came_earlier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *all = json_loadb((const char *)data, size, 0, NULL), *list = json_object_get(all, "sessions");

	for (size_t i = 0; i < json_array_size(list); i++)
		go_round(json_array_get(list, i));
	json_decref(all);
	return 0;
}

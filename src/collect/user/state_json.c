/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/state_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

/* ---- writing ---- */

static json_t *rule_json(const struct spoor_ust_rule *r)
{
	return json_pack("{s:i, s:I, s:b, s:i, s:i, s:i, s:s, s:s, s:I}", "pid", (int)r->process.pid, "start_time",
			 (json_int_t)r->process.start_time, "enable", r->rule.enable, "channels", r->rule.channels,
			 "level", r->rule.level, "kind", r->rule.kind, "pattern", r->rule.pattern, "filter",
			 r->rule.filter, "change", (json_int_t)r->rule.change);
}

static json_t *channel_json(const struct spoor_control_channel *c)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "name", c->name, "mode", (json_int_t)c->mode,
			 "packet_size", (json_int_t)c->packet_size, "share", (json_int_t)c->share, "block_us",
			 (json_int_t)c->block_us, "contexts", (json_int_t)c->contexts, "stack_mode", c->stack_mode,
			 "stack_budget", c->stack_budget);
}

static json_t *uuid_json(const uint8_t uuid[16])
{
	char hex[33];

	for (int i = 0; i < 16; i++)
		sprintf(hex + 2 * i, "%02x", uuid[i]);
	return json_string(hex);
}

/* What the trace is called there, and that it is ours. */
static json_t *relay_json(const struct spoor_ust_session *s)
{
	const uint8_t *token = spoor_sender_token(s->sender);
	struct spoor_sender_stats stats;

	spoor_sender_stats(s->sender, &stats);
	return json_pack("{s:s, s:o}", "name", stats.name, "token", uuid_json(token));
}

static json_t *process_json(const struct spoor_ust_process *p)
{
	return json_pack("[I, I]", (json_int_t)p->pid, (json_int_t)p->start_time);
}

static json_t *singles_json(const struct spoor_ust_session *s)
{
	json_t *who = json_array();

	for (size_t i = 0; i < s->n_singles; i++) {
		const struct spoor_ust_single *k = &s->singles[i];

		json_array_append_new(who, json_pack("{s:o, s:b}", "process", process_json(&k->process), "on", k->on));
	}
	return who;
}

static json_t *who_json(const struct spoor_apart_who *w)
{
	json_t *j = process_json(&w->process);

	json_array_append_new(j, json_boolean(w->unreached));
	return j;
}

/* Why is what a program said. */
static json_t *apart_json(const struct spoor_ust_session *s)
{
	json_t *who = json_array(), *why = json_string(s->apart.why);

	for (size_t i = 0; i < s->n_apart_who; i++)
		json_array_append_new(who, who_json(&s->apart_who[i]));
	return json_pack("{s:I, s:I, s:o, s:b, s:o}", "programs", (json_int_t)s->apart.n, "unreached",
			 (json_int_t)s->apart.unreached, "why", why ? why : json_string(""), "differ", s->apart.differ,
			 "who", who);
}

/* Programs name themselves. */
static json_t *damaged_json(const struct spoor_ust_session *s)
{
	json_t *arenas = json_array(), *who = json_string(s->damaged.who);

	for (size_t i = 0; i < s->damaged_arenas.n; i++)
		json_array_append_new(arenas, uuid_json(s->damaged_arenas.all[i].arena));
	return json_pack("{s:I, s:I, s:o, s:o}", "programs", (json_int_t)s->damaged.n, "places",
			 (json_int_t)s->damaged.places, "who",
			 who ? who : json_string("one whose name is not UTF-8"), "arenas", arenas);
}

void spoor_state_add_came(json_t *j, const struct spoor_ust_process *p, enum spoor_coming how)
{
	json_t *one = process_json(p);

	json_array_append_new(one, json_integer(how));
	json_array_append_new(json_object_get(j, "came_who"), one);
}

void spoor_state_add_unwritten(json_t *j, const struct spoor_source_list *unwritten, uint64_t lost)
{
	json_t *list = json_array();

	for (size_t i = 0; i < unwritten->n; i++) {
		const struct spoor_packet_source *k = &unwritten->all[i];

		json_array_append_new(list, json_pack("[o, I, I]", uuid_json(k->arena), (json_int_t)k->serial,
						      (json_int_t)k->position));
	}
	json_object_set_new(j, "unwritten", list);
	json_object_set_new(j, "lost_writing", json_integer(lost));
}

json_t *spoor_state_write(const struct spoor_ust_session *s)
{
	json_t *rules = json_array(), *channels = json_array(), *j;

	for (size_t i = 0; i < s->n_rules; i++)
		json_array_append_new(rules, rule_json(&s->rules[i]));
	for (unsigned i = 0; i < s->o.n_channels; i++)
		json_array_append_new(channels, channel_json(&s->o.channels[i]));
	if (json_array_size(rules) != s->n_rules || json_array_size(channels) != s->o.n_channels) {
		json_decref(rules);
		json_decref(channels);
		return NULL;
	}
	j = json_pack("{s:s, s:I, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o}", "name",
		      s->name, "id", (json_int_t)s->id, "output", s->output, "command", s->command, "recording",
		      s->recording, "ruled", s->ruled, "late", (json_int_t)s->n_late, "turned_away",
		      (json_int_t)s->n_away, "came", (json_int_t)s->n_came, "buffers", (json_int_t)s->o.buffers,
		      "max_size", (json_int_t)s->o.max_size, "segment_size", (json_int_t)s->o.segment_size,
		      "segment_ns", (json_int_t)s->o.segment_ns, "app", s->app_text, "scope", s->scope_text, "rules",
		      rules, "channels", channels);
	if (j && s->sender)
		json_object_set_new(j, "relay", relay_json(s));
	if (j)
		json_object_set_new(j, "not_recorded", apart_json(s));
	if (j)
		json_object_set_new(j, "damaged", damaged_json(s));
	if (j)
		json_object_set_new(j, "elsewhere", json_string(s->elsewhere));
	if (j)
		json_object_set_new(j, "held_lost", json_boolean(s->held == SPOOR_HELD_LOST));
	if (j)
		json_object_set_new(j, "failed_once", json_string(s->why));
	if (j)
		json_object_set_new(j, "came_who", json_array());
	if (j)
		json_object_set_new(j, "singles", singles_json(s));
	if (j)
		json_object_set_new(j, "changes", json_integer(s->changes));
	if (j)
		json_object_set_new(j, "recorded", json_integer(s->recorded));
	for (size_t i = 0; j && i < s->n_came_earlier; i++)
		spoor_state_add_came(j, &s->came_earlier[i].process, s->came_earlier[i].how);
	return j;
}

/* ---- reading ---- */

/* What is cut would be another name. */
static int copy(char *to, size_t size, const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return (size_t)snprintf(to, size, "%s", s ? s : "") < size ? 0 : -EBADMSG;
}

static json_int_t number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static int read_channel(const json_t *j, struct spoor_control_channel *c)
{
	c->mode = number(j, "mode");
	c->packet_size = number(j, "packet_size");
	c->share = number(j, "share");
	c->block_us = number(j, "block_us");
	c->contexts = number(j, "contexts");
	c->stack_mode = number(j, "stack_mode");
	c->stack_budget = number(j, "stack_budget");
	if (c->mode > SPOOR_ARENA_BLOCK || c->stack_mode > SPOOR_STACK_CUSTOM)
		return -EBADMSG;
	return copy(c->name, sizeof(c->name), j, "name");
}

static int read_channels(const json_t *list, struct spoor_ust_options *o)
{
	int r = json_array_size(list) > SPOOR_ARENA_MAX_CHANNELS ? -EBADMSG : 0;

	for (size_t i = 0; i < json_array_size(list) && !r; i++)
		r = read_channel(json_array_get(list, i), &o->channels[o->n_channels++]);
	return r;
}

/* 32 digits. */
static int read_uuid(const json_t *j, uint8_t ret[16])
{
	const char *hex = json_string_value(j);

	if (!hex || strlen(hex) != 32 || strspn(hex, "0123456789abcdef") != 32)
		return -EBADMSG;
	for (int i = 0; i < 16; i++)
		sscanf(hex + 2 * i, "%2hhx", &ret[i]);
	return 0;
}

static int read_unwritten(const json_t *j, struct spoor_state_session *s)
{
	const json_t *list = json_object_get(j, "unwritten");
	int r = 0;

	s->o.lost_writing = number(j, "lost_writing");
	s->o.unwritten = &s->unwritten;
	for (size_t i = 0; i < json_array_size(list) && !r; i++) {
		const json_t *one = json_array_get(list, i);
		struct spoor_packet_source k = { .serial = json_integer_value(json_array_get(one, 1)),
						 .position = json_integer_value(json_array_get(one, 2)) };

		r = read_uuid(json_array_get(one, 0), k.arena);
		if (!r)
			r = spoor_source_list_add(&k, &s->unwritten);
	}
	return r;
}

void spoor_state_done(struct spoor_state_session *s)
{
	spoor_source_list_done(&s->unwritten);
}

static int read_relay(const json_t *j, struct spoor_state_session *s)
{
	int r = read_uuid(json_object_get(j, "token"), s->token);

	if (r)
		return r;
	s->there = true;
	s->o.token = s->token;
	return copy(s->output, sizeof(s->output), j, "name");
}

static int read_texts(const json_t *j, struct spoor_state_session *s)
{
	int r = copy(s->output, sizeof(s->output), j, "output");

	if (!r)
		r = copy(s->command, sizeof(s->command), j, "command");
	if (!r)
		r = copy(s->app, sizeof(s->app), j, "app");
	if (!r)
		r = copy(s->scope, sizeof(s->scope), j, "scope");
	if (!r)
		r = copy(s->elsewhere, sizeof(s->elsewhere), j, "elsewhere");
	if (!r && json_object_get(j, "failed_once"))
		r = copy(s->failed_once, sizeof(s->failed_once), j, "failed_once");
	s->o.name = s->name;
	s->o.output = s->output;
	s->o.command = s->command;
	s->o.app = s->app;
	s->o.scope = s->scope;
	return r;
}

static int read_apart(const json_t *j, struct spoor_ust_apart *a)
{
	a->n = number(j, "programs");
	a->unreached = number(j, "unreached");
	a->differ = json_is_true(json_object_get(j, "differ"));
	return copy(a->why, sizeof(a->why), j, "why");
}

int spoor_state_read_damaged(const json_t *j, struct spoor_ust_session *s)
{
	const json_t *damaged = json_object_get(j, "damaged"), *arenas = json_object_get(damaged, "arenas");
	int r = copy(s->damaged.who, sizeof(s->damaged.who), damaged, "who");

	s->damaged.n = number(damaged, "programs");
	s->damaged.places = number(damaged, "places");
	for (size_t i = 0; i < json_array_size(arenas) && !r; i++) {
		struct spoor_packet_source one = {};

		r = read_uuid(json_array_get(arenas, i), one.arena);
		if (!r)
			r = spoor_source_list_add(&one, &s->damaged_arenas);
	}
	return r;
}

static struct spoor_ust_process read_process(const json_t *one)
{
	return (struct spoor_ust_process){ json_integer_value(json_array_get(one, 0)),
					   json_integer_value(json_array_get(one, 1)) };
}

void spoor_state_read_came(const json_t *j, struct spoor_ust_session *s)
{
	const json_t *who = json_object_get(j, "came_who");
	size_t n = json_array_size(who);

	s->came_earlier = n ? calloc(n, sizeof(*s->came_earlier)) : NULL;
	for (size_t i = 0; i < n && s->came_earlier; i++) {
		const json_t *one = json_array_get(who, i);
		struct spoor_ust_process p = read_process(one);

		if (spoor_process_runs(p.pid, p.start_time))
			s->came_earlier[s->n_came_earlier++] =
				(struct spoor_came){ p, json_integer_value(json_array_get(one, 2)) };
	}
}

static int read_singles(const json_t *j, struct spoor_ust_session *s)
{
	const json_t *who = json_object_get(j, "singles");
	int r = 0;

	for (size_t i = 0; i < json_array_size(who) && !r; i++) {
		const json_t *one = json_array_get(who, i);
		struct spoor_ust_process p = read_process(json_object_get(one, "process"));

		if (spoor_process_runs(p.pid, p.start_time))
			r = spoor_ust_session_record(s, &p, json_is_true(json_object_get(one, "on")), NULL);
	}
	return r;
}

void spoor_state_read_apart(const json_t *j, struct spoor_ust_session *s)
{
	const json_t *who = json_object_get(json_object_get(j, "not_recorded"), "who");

	for (size_t i = 0; i < json_array_size(who); i++) {
		const json_t *one = json_array_get(who, i);
		struct spoor_apart_who w = { read_process(one), true, json_is_true(json_array_get(one, 2)) };

		spoor_apart_note(s, &w);
	}
}

int spoor_state_read(const json_t *j, struct spoor_state_session *s, struct spoor_error *e)
{
	const json_t *relay = json_object_get(j, "relay");
	int r;

	*s = (struct spoor_state_session){ .id = number(j, "id") };
	r = copy(s->name, sizeof(s->name), j, "name");
	if (!r)
		r = read_texts(j, s);
	if (!r && relay)
		r = read_relay(relay, s);
	if (!r)
		r = read_channels(json_object_get(j, "channels"), &s->o);
	s->o.buffers = number(j, "buffers");
	s->o.max_size = number(j, "max_size");
	s->o.segment_size = number(j, "segment_size");
	s->o.segment_ns = number(j, "segment_ns");
	s->recording = json_is_true(json_object_get(j, "recording"));
	s->ruled = json_is_true(json_object_get(j, "ruled"));
	s->changes = number(j, "changes");
	s->recorded = number(j, "recorded");
	s->late = number(j, "late");
	s->turned_away = number(j, "turned_away");
	s->came = number(j, "came");
	s->held_lost = json_is_true(json_object_get(j, "held_lost"));
	if (!r)
		r = read_apart(json_object_get(j, "not_recorded"), &s->apart);
	if (!r)
		r = read_unwritten(j, s);
	return r ? spoor_fail(e, -r, "session '%s': what is kept of it makes no sense", s->name) : 0;
}

static int read_rule(const json_t *j, struct spoor_ust_rule *r)
{
	*r = (struct spoor_ust_rule){ .process = { number(j, "pid"), number(j, "start_time") } };
	r->rule.enable = json_is_true(json_object_get(j, "enable"));
	r->rule.channels = number(j, "channels");
	r->rule.level = number(j, "level");
	r->rule.kind = number(j, "kind");
	r->rule.change = number(j, "change");
	return copy(r->rule.pattern, sizeof(r->rule.pattern), j, "pattern") ?:
	       copy(r->rule.filter, sizeof(r->rule.filter), j, "filter");
}

int spoor_state_read_rules(const json_t *j, struct spoor_ust_session *s)
{
	const json_t *list = json_object_get(j, "rules");
	struct spoor_ust_rule rule;
	int r = 0;

	for (size_t i = 0; i < json_array_size(list) && !r; i++) {
		r = read_rule(json_array_get(list, i), &rule);
		if (!r)
			r = spoor_ust_session_rule(s, &rule, NULL);
	}
	return r ? r : read_singles(j, s);
}

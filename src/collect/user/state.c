/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

#define VERSION 2
#define MOST_NAMES 10000

/* ---- writing ---- */

static json_t *rule_json(const struct spoor_ust_rule *r)
{
	return json_pack("{s:i, s:I, s:b, s:i, s:i, s:i, s:s, s:s}", "pid", (int)r->process.pid, "start_time",
			 (json_int_t)r->process.start_time, "enable", r->rule.enable, "channels", r->rule.channels,
			 "level", r->rule.level, "kind", r->rule.kind, "pattern", r->rule.pattern, "filter",
			 r->rule.filter);
}

static json_t *channel_json(const struct spoor_control_channel *c)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "name", c->name, "mode", (json_int_t)c->mode,
			 "packet_size", (json_int_t)c->packet_size, "share", (json_int_t)c->share, "block_us",
			 (json_int_t)c->block_us, "contexts", (json_int_t)c->contexts, "stack_mode", c->stack_mode,
			 "stack_budget", c->stack_budget);
}

/* What the trace is called there, and that it is ours. */
static json_t *relay_json(const struct spoor_ust_session *s)
{
	const uint8_t *token = spoor_sender_token(s->sender);
	struct spoor_sender_stats stats;
	char hex[33];

	for (int i = 0; i < 16; i++)
		sprintf(hex + 2 * i, "%02x", token[i]);
	spoor_sender_stats(s->sender, &stats);
	return json_pack("{s:s, s:s}", "name", stats.name, "token", hex);
}

static json_t *session_json(const struct spoor_ust_session *s)
{
	json_t *rules = json_array(), *channels = json_array();

	for (size_t i = 0; i < s->n_rules; i++)
		json_array_append_new(rules, rule_json(&s->rules[i]));
	for (unsigned i = 0; i < s->o.n_channels; i++)
		json_array_append_new(channels, channel_json(&s->o.channels[i]));
	json_t *j = json_pack("{s:s, s:I, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o}", "name", s->name,
			      "id",
			      (json_int_t)s->id, "output", s->output, "command", s->command, "recording", s->recording,
			      "ruled", s->ruled,
			      "buffers", (json_int_t)s->o.buffers, "max_size", (json_int_t)s->o.max_size,
			      "segment_size", (json_int_t)s->o.segment_size, "segment_ns", (json_int_t)s->o.segment_ns,
			      "app", s->app_text, "scope", s->scope_text, "rules", rules, "channels", channels);

	if (j && s->sender)
		json_object_set_new(j, "relay", relay_json(s));
	return j;
}

static int replace(const char *path, const char *text)
{
	_cleanup_(spoor_freep) char *new = NULL;
	_cleanup_(spoor_closep) int fd = -1;
	size_t n = strlen(text);

	if (asprintf(&new, "%s.new", path) < 0) {
		new = NULL;
		return -ENOMEM;
	}
	fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, n) != (ssize_t)n || rename(new, path)) {
		int err = errno ? errno : EIO;

		unlink(new);
		return -err;
	}
	return 0;
}

int spoor_state_save(struct spoor_hub *h, const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *list = json_array(), *all;
	int r = -ENOMEM;

	for (struct spoor_ust_session *s = spoor_hub_next(h, NULL); s; s = spoor_hub_next(h, s))
		json_array_append_new(list, session_json(s));
	if (!json_array_size(list)) {
		json_decref(list);
		return unlink(path) && errno != ENOENT ? spoor_fail(e, errno, "%s: %s", path, strerror(errno)) : 0;
	}
	all = json_pack("{s:s, s:i, s:o}", "format", "spoor-ust-state", "version", VERSION, "sessions", list);
	text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
	if (text)
		r = replace(path, text);
	json_decref(all);
	return r ? spoor_fail(e, -r, "%s: cannot be written: %s; the sessions do not survive this daemon", path,
			      strerror(-r)) :
		   0;
}

/* ---- reading ---- */

static void copy(char *to, size_t size, const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	snprintf(to, size, "%s", s ? s : "");
}

static json_int_t number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static void read_channel(const json_t *j, struct spoor_control_channel *c)
{
	copy(c->name, sizeof(c->name), j, "name");
	c->mode = number(j, "mode");
	c->packet_size = number(j, "packet_size");
	c->share = number(j, "share");
	c->block_us = number(j, "block_us");
	c->contexts = number(j, "contexts");
	c->stack_mode = number(j, "stack_mode");
	c->stack_budget = number(j, "stack_budget");
}

static int read_rules(struct spoor_ust_session *s, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *j = json_array_get(list, i);
		struct spoor_ust_rule r = { .process = { number(j, "pid"), number(j, "start_time") } };
		int err;

		r.rule.enable = json_is_true(json_object_get(j, "enable"));
		r.rule.channels = number(j, "channels");
		r.rule.level = number(j, "level");
		r.rule.kind = number(j, "kind");
		copy(r.rule.pattern, sizeof(r.rule.pattern), j, "pattern");
		copy(r.rule.filter, sizeof(r.rule.filter), j, "filter");
		err = spoor_ust_session_rule(s, &r, NULL);
		if (err)
			return err;
	}
	return 0;
}

/* NAME-2.spoor, NAME-3.spoor ... */
static void next_output(const char *base, char *to, size_t size)
{
	size_t n = strlen(base);
	bool suffix = n > 6 && !strcmp(base + n - 6, ".spoor");

	for (int i = 2; i < MOST_NAMES; i++) {
		snprintf(to, size, "%.*s-%d%s", (int)(suffix ? n - 6 : n), base, i, suffix ? ".spoor" : "");
		if (access(to, F_OK))
			return;
	}
}

/* Goes on in the same trace; where that cannot be (it was removed, or the machine was restarted) in another one. */
static int reopen(struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret, struct spoor_error *e)
{
	struct spoor_written written = {};
	static char other[PATH_MAX];
	int r = spoor_written_add(&written, o->output, e);

	o->resume = true;
	if (!r)
		r = spoor_ust_session_new(o, id, ret, e);
	if (!r) {
		(*ret)->written = written;
		spoor_ust_session_go_on(*ret);
		return 0;
	}
	spoor_written_done(&written);
	if (r == -ENOMEM || r == -EBUSY)
		return r;
	next_output(o->output, other, sizeof(other));
	o->output = other;
	o->resume = false;
	return spoor_ust_session_new(o, id, ret, e);
}

static int read_relay(const json_t *j, struct spoor_relay_client *relay, struct spoor_ust_options *o, char *output,
		      uint8_t *token, struct spoor_error *e)
{
	const char *hex = json_string_value(json_object_get(j, "token"));
	unsigned v;

	if (!relay)
		return spoor_fail(e, EINVAL, "session %s records to a relay: give --relay URL", o->name);
	if (!hex || strlen(hex) != 32)
		return spoor_fail(e, EBADMSG, "session %s: what is kept of its relay makes no sense", o->name);
	for (int i = 0; i < 16 && sscanf(hex + 2 * i, "%2x", &v) == 1; i++)
		token[i] = v;
	copy(output, PATH_MAX, j, "name");
	o->relay = relay;
	o->token = token;
	return 0;
}

/* The same at a relay; where the trace is not any more a new one is begun. */
static int reopen_there(struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret, struct spoor_error *e)
{
	int r;

	o->resume = true;
	r = spoor_ust_session_new(o, id, ret, e);
	if (!r)
		spoor_ust_session_go_on(*ret);
	if (r != -ENOENT && r != -ESTALE)
		return r;
	o->resume = false;
	o->token = NULL;
	return spoor_ust_session_new(o, id, ret, e);
}

static int read_session(struct spoor_hub *h, const json_t *j, struct spoor_relay_client *relay, struct spoor_error *e)
{
	const json_t *there = json_object_get(j, "relay");
	uint8_t token[16] = {};
	char output[PATH_MAX], name[256], command[4096], app[1024], scope[1024];
	const json_t *channels = json_object_get(j, "channels");
	struct spoor_ust_options o = {
		.output = output, .name = name, .command = command, .app = app, .scope = scope
	};
	struct spoor_ust_session *s;
	int r;

	copy(name, sizeof(name), j, "name");
	copy(output, sizeof(output), j, "output");
	copy(command, sizeof(command), j, "command");
	copy(app, sizeof(app), j, "app");
	copy(scope, sizeof(scope), j, "scope");
	o.buffers = number(j, "buffers");
	o.max_size = number(j, "max_size");
	o.segment_size = number(j, "segment_size");
	o.segment_ns = number(j, "segment_ns");
	for (size_t i = 0; i < json_array_size(channels) && i < SPOOR_ARENA_MAX_CHANNELS; i++)
		read_channel(json_array_get(channels, i), &o.channels[o.n_channels++]);
	r = there ? read_relay(there, relay, &o, output, token, e) : 0;
	if (r)
		return r;
	r = there ? reopen_there(&o, number(j, "id"), &s, e) : reopen(&o, number(j, "id"), &s, e);
	if (r)
		return r;
	s->recording = json_is_true(json_object_get(j, "recording"));
	s->ruled = json_is_true(json_object_get(j, "ruled"));
	r = read_rules(s, json_object_get(j, "rules"));
	spoor_hub_add(h, s);
	return r ? spoor_fail(e, -r, "session %s: %s", name, strerror(-r)) : 0;
}

/* The place of its trace is gone, and so is the session. */
static int give_up(struct spoor_hub *h, const json_t *j, const struct spoor_error *e)
{
	char text[1024];

	snprintf(text, sizeof(text), "session '%s' is given up: %s",
		 json_string_value(json_object_get(j, "name")) ?: "", e ? e->text : "its directory is gone");
	spoor_hub_warn(h, text);
	return 0;
}

int spoor_state_load(struct spoor_hub *h, const char *path, struct spoor_relay_client *relay, struct spoor_error *e)
{
	json_error_t why;
	json_t *all, *list;
	int n = 0, r = 0;

	if (access(path, F_OK) && errno == ENOENT)
		return 0;
	all = json_load_file(path, 0, &why);
	if (!all)
		return spoor_fail(e, EBADMSG, "%s: it makes no sense: %s", path, why.text);
	if (number(all, "version") != VERSION) {
		json_decref(all);
		return spoor_fail(e, EPROTO, "%s: it is of another version of Spoor", path);
	}
	list = json_object_get(all, "sessions");
	for (size_t i = 0; i < json_array_size(list) && !r; i++) {
		r = read_session(h, json_array_get(list, i), relay, e);
		n += !r;
		if (r == -ENOENT || r == -ENOTDIR) /* others go on */
			r = give_up(h, json_array_get(list, i), e);
	}
	json_decref(all);
	return r ? r : n;
}

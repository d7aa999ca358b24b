/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "collect/user/hub_internal.h"
#include "collect/user/state_json.h"

#define VERSION 2
#define MOST_NAMES 10000
#define MOST_UNSAVED 65536 /* changes of which programs heard, and which a daemon that was killed did not write */

/* ---- writing ---- */

static int replace(const char *path, const char *text)
{
	_cleanup_(spoor_freep) char *new = NULL;
	_cleanup_(spoor_closep) int fd = -1;
	int r;

	if (asprintf(&new, "%s.new", path) < 0) {
		new = NULL;
		return -ENOMEM;
	}
	unlink(new); /* where others may make files it would be theirs */
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = spoor_write_whole(fd, text, strlen(text));
	if (!r && rename(new, path))
		r = -errno;
	if (r)
		unlink(new);
	return r;
}

static int write_all(const char *path, json_t *list)
{
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *all;

	if (!json_array_size(list)) {
		json_decref(list);
		return unlink(path) && errno != ENOENT ? -errno : 0;
	}
	all = json_pack("{s:s, s:i, s:o}", "format", "spoor-ust-state", "version", VERSION, "sessions", list);
	text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
	json_decref(all);
	return text ? replace(path, text) : -ENOMEM;
}

static void leave_out(struct spoor_hub *h, const struct spoor_ust_session *s)
{
	spoor_hub_warn(h, "session '%s' does not survive this daemon: a name of it is not UTF-8", s->name);
}

static json_t *write_session(struct spoor_hub *h, const struct spoor_ust_session *s)
{
	struct spoor_source_list unwritten = {};
	json_t *j = spoor_state_write(s);

	spoor_taker_unwritten(s->taker, &unwritten);
	spoor_source_list_sort(&unwritten);
	if (j)
		spoor_state_add_unwritten(j, &unwritten, spoor_writer_lost(s->w));
	spoor_source_list_done(&unwritten);
	for (struct hub_program *p = h->first; p && j; p = p->next) {
		const struct hub_member *m = spoor_program_member(p, s);

		if (p->n_sites && m)
			spoor_state_add_came(j, spoor_program_process(p), m->how);
	}
	return j;
}

int spoor_state_save(struct spoor_hub *h, const char *path, struct spoor_error *e)
{
	json_t *list;
	int r;

	if (!spoor_hub_has_place(h))
		return spoor_fail(e, ENOENT,
				  "%s: not written, since the socket is not there any more, or another "
				  "daemon's: the sessions do not survive this one",
				  path);
	list = json_array();
	for (struct spoor_ust_session *s = spoor_hub_next(h, NULL); s; s = spoor_hub_next(h, s)) {
		s->saved = spoor_ust_session_comings(s);
		if (json_array_append_new(list, write_session(h, s)))
			leave_out(h, s);
	}
	r = write_all(path, list);
	return r ? spoor_fail(e, -r, "%s: cannot be written: %s; the sessions do not survive this daemon", path,
			      strerror(-r)) :
		   0;
}

bool spoor_state_is_old(struct spoor_hub *h)
{
	for (struct spoor_ust_session *s = spoor_hub_next(h, NULL); s; s = spoor_hub_next(h, s))
		if (s->saved != spoor_ust_session_comings(s))
			return true;
	return false;
}

/* ---- reading ---- */

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

static int begin_another(struct spoor_ust_options *o, uint32_t id, const struct spoor_error *why,
			 struct spoor_ust_session **ret, struct spoor_error *e)
{
	int r;

	o->resume = false;
	r = spoor_ust_session_new(o, id, ret, e);
	if (!r)
		snprintf((*ret)->elsewhere, sizeof((*ret)->elsewhere), "%s", why->text);
	return r;
}

/*
 * Goes on in the same trace; where that cannot be (it was removed, the machine was restarted) in another one. Not for
 * want of room: neither has it, and what programs have in their buffers waits there.
 */
static int reopen(struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret, struct spoor_error *e)
{
	static char other[PATH_MAX];
	struct spoor_error why = { "" };
	int r;

	o->resume = true;
	r = spoor_ust_session_new(o, id, ret, &why);
	if (!r)
		spoor_ust_session_go_on(*ret);
	if (!r || r == -ENOMEM || r == -EBUSY || spoor_is_full(r))
		return r ? spoor_fail(e, -r, "%s", why.text) : 0;
	next_output(o->output, other, sizeof(other));
	o->output = other;
	return begin_another(o, id, &why, ret, e);
}

/* The same at a relay; where the trace is not any more a new one is begun. */
static int reopen_there(struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret, struct spoor_error *e)
{
	struct spoor_error why = { "" };
	int r;

	o->resume = true;
	r = spoor_ust_session_new(o, id, ret, &why);
	if (!r)
		spoor_ust_session_go_on(*ret);
	if (r != -ENOENT && r != -ESTALE)
		return r ? spoor_fail(e, -r, "%s", why.text) : 0;
	o->token = NULL;
	return begin_another(o, id, &why, ret, e);
}

static void tell_elsewhere(struct spoor_hub *h, const struct spoor_ust_session *s)
{
	spoor_hub_warn(h, "session '%s' could not go on in the trace that it had, and began %s: %s", s->name,
		       s->sender ? "another one" : s->output, s->elsewhere);
}

static int read_session(struct spoor_hub *h, const json_t *j, struct spoor_relay_client *relay, struct spoor_error *e)
{
	struct spoor_state_session k;
	struct spoor_ust_session *s;
	int r = spoor_state_read(j, &k, e);

	if (!r && k.there && !relay)
		r = spoor_fail(e, EINVAL, "session %s records to a relay: give --relay URL", k.name);
	k.o.relay = k.there ? relay : NULL;
	if (!r)
		r = k.there ? reopen_there(&k.o, k.id, &s, e) : reopen(&k.o, k.id, &s, e);
	spoor_state_done(&k);
	if (r)
		return r;
	if (s->elsewhere[0])
		tell_elsewhere(h, s);
	else
		memcpy(s->elsewhere, k.elsewhere, sizeof(s->elsewhere));
	s->resumed = true;
	s->recording = k.recording;
	s->ruled = k.ruled;
	s->changes = k.changes + MOST_UNSAVED;
	s->recorded = k.recorded;
	s->n_late = k.late;
	s->n_away = k.turned_away;
	s->n_came = k.came;
	s->held = k.held_lost ? SPOOR_HELD_LOST : SPOOR_HELD_NOTHING;
	memcpy(s->why, k.failed_once, sizeof(s->why));
	s->apart = k.apart;
	spoor_state_read_apart(j, s);
	spoor_state_read_came(j, s);
	r = spoor_state_read_damaged(j, s) ?: spoor_state_read_rules(j, s);
	spoor_hub_add(h, s);
	return r ? spoor_fail(e, -r, "session %s: %s", k.name, strerror(-r)) : 0;
}

/* The place of its trace is gone, and so is the session. */
static int give_up(struct spoor_hub *h, const json_t *j, const struct spoor_error *e)
{
	spoor_hub_warn(h, "session '%s' is given up: %s", json_string_value(json_object_get(j, "name")) ?: "",
		       e ? e->text : "its directory is gone");
	return 0;
}

static int refuse_strangers(const char *path, struct spoor_error *e)
{
	return spoor_fail(e, EPERM,
			  "%s: it is another user's, who may not say what this daemon records: "
			  "remove it, or give another --socket",
			  path);
}

/*
 * What it says is done with our rights: where others may make files it is only ours that counts. Before it is opened,
 * since a pipe of another's could keep us waiting; and after, since that is what is read.
 */
static int open_own(const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? -ENOENT : spoor_fail(e, errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return refuse_strangers(path, e);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st))
		return spoor_fail(e, errno, "%s: cannot be read: %s", path, strerror(errno));
	return st.st_uid == geteuid() ? TAKE_FD(fd) : refuse_strangers(path, e);
}

static int load(const char *path, json_t **ret, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = open_own(path, e);
	json_error_t why;
	json_t *all;

	if (fd < 0)
		return fd;
	all = json_loadfd(fd, 0, &why);
	if (!all)
		return spoor_fail(e, EBADMSG, "%s: it makes no sense: %s", path, why.text);
	*ret = all;
	return 0;
}

int spoor_state_load(struct spoor_hub *h, const char *path, struct spoor_relay_client *relay, struct spoor_error *e)
{
	json_t *all = NULL, *list;
	int n = 0, r = load(path, &all, e);

	if (r)
		return r == -ENOENT ? 0 : r;
	if (json_integer_value(json_object_get(all, "version")) != VERSION) {
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

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that come while no recorder is there: they say what they have to say at SOCKET.waiting, where the keeper
 * hears it, and the next recorder gets it from there as if they had just come. The socket is there while there are
 * sessions; a recorder that is there takes in who comes there itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/strings.h"
#include "collect/user/hub_internal.h"

/* What a program said before we were there; or, before that, that it came. */
struct hub_words {
	struct hub_words *next;
	struct hub_program *from; /* NULL: it may not come; or it is not in yet */
	bool came, met;
	int fd; /* came: its connection */
	size_t size;
	_Alignas(8) char bytes[];
};

/* ---- what the keeper tells ---- */

/*
 * All that is put off until the keeper has told everything. It is free to listen to us then; and nobody's connection is
 * heard before what he said earlier, of which the keeper, if it is slow, tells some time later.
 */
static bool put_off(struct hub_waited *k, const struct hub_words *words, const void *bytes)
{
	struct hub_words *w = malloc(sizeof(*w) + words->size);

	if (!w)
		return false;
	*w = *words;
	memcpy(w->bytes, bytes, w->size);
	if (k->first)
		k->last->next = w;
	else
		k->first = w;
	k->last = w;
	return true;
}

void spoor_waiting_came(void *hub, int fd, bool met)
{
	struct spoor_hub *h = hub;
	struct hub_words w = { .came = true, .met = met, .fd = fd };

	h->waited.nobody = fd < 0 || !put_off(&h->waited, &w, "");
	if (fd < 0)
		spoor_hub_no_files(h);
	else if (h->waited.nobody)
		spoor_fds_hang_up(fd);
}

void spoor_waiting_said(void *hub, const void *bytes, size_t size, int fd)
{
	struct spoor_hub *h = hub;
	struct hub_words w = { .fd = fd, .size = size };

	if (h->waited.nobody || !put_off(&h->waited, &w, bytes))
		spoor_fds_drop(fd);
}

static void tell_turned_away(struct spoor_hub *h, uint32_t n)
{
	if (!n)
		return;
	for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
		s->n_away += n;
	spoor_hub_warn(h,
		       "%" PRIu32 " %s came while no daemon was there and found no room to wait: what those that have "
		       "ended since wrote is lost",
		       n, spoor_plural(n, "program", "programs"));
}

void spoor_waiting_end(void *hub, uint32_t turned_away, int listener, bool accepts)
{
	struct spoor_hub *h = hub;

	h->keeper_accepts = accepts;
	tell_turned_away(h, turned_away);
	if (listener >= 0 && spoor_hub_watch(h, &h->waiting, listener, h, HUB_LISTENER))
		spoor_hub_unwatch(h, &h->waiting);
}

/*
 * The recorder before us may have heard its HELLO, and no more, or have told it a part of a session, of which it has
 * offered the buffers: it is told of all sessions as if it had begun now. But a child that offers its own was told
 * nothing yet, and goes on as its parent was: stopped, say. Where that has taken some of them, it offers all again.
 */
static void go_on(struct spoor_hub *h, struct hub_program *p)
{
	spoor_hub_flush(p);
	if (!p->met)
		return;
	p->met = false;
	if (p->forked && spoor_orphans_of(h, p))
		spoor_program_start_over(p);
	else if (p->forked)
		spoor_program_tell_child(p);
	else
		spoor_program_answer_again(p);
}

static void take_in(struct spoor_hub *h)
{
	struct hub_program *p = NULL;

	for (struct hub_words *w = h->waited.first; w; w = w->next) {
		if (w->came) {
			p = spoor_program_take_in(h, TAKE_FD(w->fd));
			if (p)
				p->met = p->program = w->met;
		}
		w->from = p;
	}
	for (p = h->first; p; p = p->next)
		if (!spoor_requests_have(h, p)) /* whose command has found out that the keeper answers */
			spoor_program_meet(p);
}

static void forget_first(struct hub_waited *k)
{
	struct hub_words *w = k->first;

	k->first = w->next;
	spoor_fds_drop(w->fd);
	free(w);
}

static bool is_command(const struct hub_words *w)
{
	struct spoor_control_head m;

	if (w->size < sizeof(m))
		return false;
	memcpy(&m, w->bytes, sizeof(m));
	return m.type == SPOOR_CONTROL_COMMAND;
}

static void hear(struct spoor_hub *h, bool commands)
{
	for (struct hub_words *w = h->waited.first; w; w = w->next) {
		if (!w->from || w->came || is_command(w) != commands)
			continue;
		spoor_hub_heard(w->from, w->bytes, w->size, w->fd);
		spoor_fds_drop(TAKE_FD(w->fd)); /* there may be as many as there can be */
	}
}

/* Commands last: to carry one out all that has ended is looked at, and nobody's words are heard after his end. */
void spoor_waiting_hear(struct spoor_hub *h)
{
	take_in(h);
	hear(h, false);
	for (struct hub_program *p = h->first; p; p = p->next)
		if (p->met)
			go_on(h, p);
	hear(h, true);
	while (h->waited.first)
		forget_first(&h->waited);
	spoor_keeper_taken(h->keeper);
}

/* ---- the socket ---- */

static void place_of(const struct spoor_hub *h, char *path, size_t size)
{
	snprintf(path, size, "%s" SPOOR_CONTROL_WAITING, h->path);
}

static void open_place(struct spoor_hub *h)
{
	char path[sizeof(h->path) + 32];
	struct spoor_error e = { "" };
	int fd;

	place_of(h, path, sizeof(path));
	fd = spoor_hub_bind(path, h->o.everybody, &e);
	if (fd >= 0 && !spoor_hub_watch(h, &h->waiting, fd, h, HUB_LISTENER) && !spoor_hub_listen(fd, path, &e)) {
		spoor_keeper_listen(h->keeper, fd);
		return;
	}
	spoor_hub_unwatch(h, &h->waiting);
	if (h->waited.failed)
		return;
	h->waited.failed = true;
	spoor_hub_warn(h,
		       "what programs write that begin and end while no daemon is there is lost: they have no socket "
		       "to wait at");
	spoor_hub_warn(h, "%s", e.text);
}

/* A keeper that was there may have the socket: before that is heard none is made, nor removed. */
void spoor_waiting_update(struct spoor_hub *h)
{
	bool wanted = h->sessions || h->goes_on;
	char path[sizeof(h->path) + 32];

	if (h->keeper < 0 || !h->keeper_told || h->leaves || wanted == (h->waiting.fd >= 0))
		return;
	if (wanted) {
		open_place(h);
		return;
	}
	place_of(h, path, sizeof(path));
	if (spoor_hub_has_place(h))
		unlink(path);
	spoor_hub_unwatch(h, &h->waiting);
	spoor_keeper_listen(h->keeper, -1);
}

void spoor_waiting_close(struct spoor_hub *h)
{
	while (h->waited.first) /* the keeper was not told that we have taken it: the next recorder gets it */
		forget_first(&h->waited);
	spoor_waiting_update(h);
	spoor_hub_unwatch(h, &h->waiting);
}

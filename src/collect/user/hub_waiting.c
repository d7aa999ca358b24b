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

#include "base/fdpass.h"
#include "base/strings.h"
#include "collect/user/hub_internal.h"

/* What a program said before we were there. */
struct hub_words {
	struct hub_words *next;
	struct hub_program *from;
	int fd;
	size_t size;
	_Alignas(8) char bytes[];
};

/* ---- what the keeper tells ---- */

/* The programs are taken in as they are told of; what they said is heard when the keeper is free to listen to us. */
void spoor_waiting_came(void *hub, int fd, bool met)
{
	struct spoor_hub *h = hub;
	struct hub_program *p = spoor_program_take_in(h, fd);

	h->waited.from = p;
	if (p)
		p->met = p->program = met;
}

void spoor_waiting_said(void *hub, const void *bytes, size_t size, int fd)
{
	struct spoor_hub *h = hub;
	struct hub_waited *k = &h->waited;
	struct hub_words *w = k->from ? malloc(sizeof(*w) + size) : NULL;

	if (!w) {
		spoor_fds_drop(fd);
		return;
	}
	*w = (struct hub_words){ .from = k->from, .fd = fd, .size = size };
	memcpy(w->bytes, bytes, size);
	if (k->first)
		k->last->next = w;
	else
		k->first = w;
	k->last = w;
}

static void tell_turned_away(struct spoor_hub *h, uint32_t n)
{
	char text[256];

	if (!n)
		return;
	for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
		s->n_away += n;
	snprintf(text, sizeof(text),
		 "%" PRIu32 " %s came while no daemon was there and found no room to wait: what those that have ended "
		 "since wrote is lost",
		 n, spoor_plural(n, "program", "programs"));
	spoor_hub_warn(h, text);
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

void spoor_waiting_hear(struct spoor_hub *h)
{
	struct hub_words *w;

	for (struct hub_program *p = h->first; p; p = p->next)
		spoor_program_meet(p);
	while ((w = h->waited.first)) {
		h->waited.first = w->next;
		spoor_hub_heard(w->from, w->bytes, w->size, w->fd);
		spoor_fds_drop(w->fd);
		free(w);
	}
	for (struct hub_program *p = h->first; p; p = p->next)
		if (p->met)
			go_on(h, p);
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
	spoor_hub_warn(h, e.text);
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
	spoor_waiting_update(h);
	spoor_hub_unwatch(h, &h->waiting);
}

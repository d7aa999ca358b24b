/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who connects is let in. By the keeper, which gives him to us: so there is no moment at which we could be killed and
 * he, who may have ended by then and does not come again, be nowhere. Where there is none, or it does not answer, by
 * ourselves, and it gets him then.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "collect/user/beyond_root.h"
#include "collect/user/hub_internal.h"

#define PATIENCE_MS 200 /* for an answer, and once more for a late one: meanwhile it is asked nothing else */
#define AT_A_TIME 64

static bool is_anybody_there(int listener)
{
	struct pollfd f = { .fd = listener, .events = POLLIN };

	return poll(&f, 1, 0) == 1;
}

static enum spoor_keeper_socket socket_of(const struct spoor_hub *h, int listener)
{
	if (listener == h->beyond_root.fd)
		return SPOOR_KEEPER_OWN_TOO;
	return listener == h->waiting.fd ? SPOOR_KEEPER_LISTEN : SPOOR_KEEPER_OWN;
}

static int ask(struct spoor_hub *h, int listener)
{
	struct hub_asked *a = &h->asked;
	int r;

	if (!h->keeper_accepts || !h->keeper_told || h->keeper < 0) /* it would answer what it was asked before */
		return -ENOTCONN;
	if (a->sent)
		return 0;
	if (!a->id && !is_anybody_there(listener))
		return -ENOENT;
	if (!a->id)
		*a = (struct hub_asked){ ++h->last_program, listener, socket_of(h, listener), false };
	r = spoor_keeper_ask_in(h->keeper, a->socket, (uint32_t)a->id);
	a->sent = !r;
	a->waited_for = false;
	return r;
}

/* ret: whom it gives us. -errno: nobody, or not yet. */
static int from_keeper(struct spoor_hub *h, int listener, struct hub_asked *ret)
{
	int ms = h->asked.sent ? 0 : PATIENCE_MS, r = ask(h, listener);

	if (!r)
		r = spoor_keeper_let_in(h->keeper, ms);
	if (r == -EAGAIN)
		return r;
	*ret = h->asked;
	h->asked.sent = false;
	if (r != -EMFILE) /* else it has him for us */
		h->asked.id = 0;
	return r;
}

static int by_ourselves(struct spoor_hub *h, int listener, struct hub_asked *ret)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	*ret = (struct hub_asked){ .id = ++h->last_program, .listener = listener };
	spoor_keeper_met(h->keeper, (uint32_t)ret->id, fd);
	return fd;
}

static void let_in(struct spoor_hub *h, const struct hub_asked *who, int fd)
{
	struct hub_program *p = NULL;

	if (spoor_beyond_root_lets_in(who->listener, fd))
		p = spoor_program_take_in(h, fd);
	else
		spoor_fds_hang_up(fd);
	if (p) {
		p->id = who->id;
		p->kept = h->keeper >= 0;
	} else {
		spoor_keeper_heard(h->keeper, (uint32_t)who->id);
	}
}

bool spoor_hub_accept(struct spoor_hub *h, int listener)
{
	for (int i = 0; i < AT_A_TIME; i++) {
		struct hub_asked who = {};
		int fd = from_keeper(h, listener, &who);

		if (fd < 0)
			fd = by_ourselves(h, listener, &who);
		if (fd == -EAGAIN && h->crowd < HUB_BACKLOG)
			h->crowd = 0;
		if (fd == -EMFILE || fd == -ENFILE) {
			spoor_hub_no_files(h);
			spoor_hub_listen_to_all(h, false);
		}
		if (fd < 0)
			return false;
		h->crowd++;
		let_in(h, &who, fd);
	}
	return true;
}

void spoor_hub_accept_asked(struct spoor_hub *h)
{
	if (h->asked.id && !h->asked.sent)
		spoor_hub_accept(h, h->asked.listener);
}

/* A late answer may have been taken since epoll_wait() told of it. */
static bool is_silent(int keeper)
{
	char byte;

	return recv(keeper, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void spoor_hub_keeper_says(struct spoor_hub *h)
{
	struct hub_asked who = {};
	int fd;

	if (!h->keeper_told) {
		spoor_orphans_hear_late(h, PATIENCE_MS);
		return;
	}
	if (!h->asked.sent) {
		if (!is_silent(h->keeper))
			spoor_orphans_keeper_ended(h);
		return;
	}
	fd = from_keeper(h, h->asked.listener, &who);
	if (fd >= 0)
		let_in(h, &who, fd);
}

void spoor_hub_accept_late(struct spoor_hub *h)
{
	struct pollfd f = { .fd = h->keeper, .events = POLLIN };

	if (h->keeper < 0 || (h->keeper_told && !h->asked.sent) || h->asked.waited_for)
		return;
	h->asked.waited_for = true; /* or each command would keep all programs waiting while it is stopped */
	if (poll(&f, 1, PATIENCE_MS) == 1)
		spoor_hub_keeper_says(h);
}

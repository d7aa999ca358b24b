/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A keeper's messages, and what it holds. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "collect/user/keeper_internal.h"

/* ---- messages ---- */

/* What of a message is sent, but for what is said. */
#define HEAD offsetof(struct keeper_message, said)

int keeper_send_message(int to, const struct keeper_message *m, int fd)
{
	return spoor_fds_send(to, m, HEAD, &fd, fd >= 0, 0);
}

int keeper_send(int to, uint32_t word, const struct spoor_kept *k, int fd)
{
	struct keeper_message m = { .word = word };

	if (k)
		m.kept = *k;
	return keeper_send_message(to, &m, fd);
}

int keeper_send_number(int to, uint32_t word, uint32_t number, int fd)
{
	struct keeper_message m = { .word = word, .number = number };

	return keeper_send_message(to, &m, fd);
}

int keeper_send_said(int to, const struct keeper_said *s)
{
	struct keeper_message m = { .word = KEEPER_SAID, .number = s->size };

	memcpy(m.said, s->bytes, s->size);
	return spoor_fds_send(to, &m, HEAD + s->size, &s->fd, s->fd >= 0, 0);
}

static bool is_message(const struct keeper_message *m, ssize_t n)
{
	return n >= (ssize_t)HEAD && (size_t)n == HEAD + (m->word == KEEPER_SAID ? m->number : 0);
}

int keeper_receive(int from, struct keeper_message *m, int *ret_fd)
{
	ssize_t n = spoor_fds_receive(from, m, sizeof(*m), ret_fd, 1, NULL, 0);

	if (n < 0)
		return (int)n;
	if (is_message(m, n))
		return 0;
	if (*ret_fd >= 0)
		close(*ret_fd);
	return -EPIPE;
}

/* ---- what it holds ---- */

static void drop(struct keeper *k, const uint8_t *uuid)
{
	for (size_t i = 0; i < k->n; i++) {
		if (memcmp(k->all[i].kept.uuid, uuid, 16))
			continue;
		close(k->all[i].fd);
		k->all[i] = k->all[--k->n];
		return;
	}
}

static void keep(struct keeper *k, const struct spoor_kept *kept, int fd)
{
	drop(k, kept->uuid);
	if (k->n == k->room && k->room < KEEPER_MOST) {
		size_t room = k->room ? k->room * 2 : 64;
		void *grown = reallocarray(k->all, room, sizeof(*k->all));

		k->all = grown ? grown : k->all;
		k->room = grown ? room : k->room;
	}
	if (k->n < k->room)
		k->all[k->n++] = (struct keeper_held){ *kept, fd };
	else
		close(fd);
}

static int tell_end(const struct keeper *k, int daemon)
{
	struct keeper_message m = { .word = KEEPER_END, .number = k->turned_away, .kept.session = KEEPER_ACCEPTS };

	return keeper_send_message(daemon, &m, k->listener);
}

static int tell_all(const struct keeper *k, int daemon)
{
	int r = 0;

	for (size_t i = 0; !r && i < k->n; i++)
		r = keeper_send(daemon, KEEPER_HERE, &k->all[i].kept, k->all[i].fd);
	if (!r)
		r = keeper_tell_waiters(k, daemon);
	return r ? r : tell_end(k, daemon);
}

static int let_in(struct keeper *k, const struct keeper_message *m, int daemon)
{
	const int sockets[] = { k->own[0], k->own[1], k->listener };
	uint32_t to = m->kept.session;
	int fd = to < sizeof(sockets) / sizeof(*sockets) ? keeper_let_in(k, sockets[to], m->number) : -1;
	int r = keeper_send_number(daemon, KEEPER_LET_IN, m->number, fd);

	/* Too many descriptors are on their way (unix(7), ETOOMANYREFS): it is to ask again for whom we have. */
	return r && fd >= 0 ? keeper_send_number(daemon, KEEPER_HAS_HIM, m->number, -1) : r;
}

/* fd: the message's, which is taken over. */
static int carry_out(struct keeper *k, const struct keeper_message *m, int *fd, int daemon)
{
	int *own;

	switch (m->word) {
	case KEEPER_KEEP:
		if (*fd >= 0)
			keep(k, &m->kept, TAKE_FD(*fd));
		return 0;
	case KEEPER_DROP:
		drop(k, m->kept.uuid);
		return 0;
	case KEEPER_LISTEN:
		keeper_listen(k, TAKE_FD(*fd));
		return 0;
	case KEEPER_MET:
		if (*fd >= 0)
			keeper_meet(k, m->number, TAKE_FD(*fd));
		return 0;
	case KEEPER_HEARD:
		keeper_heard(k, m->number);
		return 0;
	case KEEPER_ACCEPT:
		return let_in(k, m, daemon);
	case KEEPER_OWN:
	case KEEPER_OWN_TOO:
		own = &k->own[m->word == KEEPER_OWN_TOO];
		if (*own >= 0)
			close(*own);
		*own = TAKE_FD(*fd);
		return 0;
	case KEEPER_ASK:
		return keeper_send(daemon, KEEPER_END, NULL, -1);
	case KEEPER_HUSH:
		keeper_hush(k);
		return 0;
	case KEEPER_TAKEN:
		keeper_waiters_taken(k);
		return 0;
	case KEEPER_GET:
		return tell_all(k, daemon);
	}
	return 0;
}

int keeper_serve(struct keeper *k, int daemon)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct keeper_message m;
	int r = keeper_receive(daemon, &m, &fd);

	if (r == -EMFILE) /* what there is no descriptor for is not held; the daemon is there all the same */
		return 0;
	if (!r)
		r = carry_out(k, &m, &fd, daemon);
	else if (r != -ECONNRESET)
		return r;
	/* It does not hear us any more; what it said before it ended is to be carried out all the same. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

void keeper_begin(struct keeper *k)
{
	*k = (struct keeper){ .listener = -1, .own = { -1, -1 } };
}

void keeper_let_go(struct keeper *k)
{
	for (size_t i = 0; i < k->n; i++)
		close(k->all[i].fd);
	free(k->all);
	keeper_waiters_taken(k);
	keeper_hush(k);
	keeper_daemon_left(k); /* where nobody waits any more */
	keeper_begin(k);
}

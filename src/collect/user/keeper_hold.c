/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A keeper's messages, and what it holds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "collect/user/keeper_internal.h"

/* ---- messages ---- */

int keeper_send(int to, uint32_t word, const struct spoor_kept *k, int fd)
{
	struct keeper_message m = { .word = word };

	if (k)
		m.kept = *k;
	return spoor_fds_send(to, &m, sizeof(m), &fd, fd >= 0, 0);
}

int keeper_receive(int from, struct keeper_message *m, int *ret_fd)
{
	ssize_t n = spoor_fds_receive(from, m, sizeof(*m), ret_fd, 1, NULL, 0);

	if (n < 0)
		return (int)n;
	if (n == sizeof(*m))
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

int keeper_serve(struct keeper *k, int daemon)
{
	struct keeper_message m;
	int fd, r = keeper_receive(daemon, &m, &fd);

	if (r)
		return r;
	if (m.word == KEEPER_KEEP && fd >= 0)
		keep(k, &m.kept, fd);
	else if (fd >= 0)
		close(fd);
	if (m.word == KEEPER_DROP)
		drop(k, m.kept.uuid);
	for (size_t i = 0; m.word == KEEPER_GET && !r && i < k->n; i++)
		r = keeper_send(daemon, KEEPER_HERE, &k->all[i].kept, k->all[i].fd);
	if (m.word == KEEPER_GET && !r)
		r = keeper_send(daemon, KEEPER_END, NULL, -1);
	return r;
}

void keeper_let_go(struct keeper *k)
{
	for (size_t i = 0; i < k->n; i++)
		close(k->all[i].fd);
	free(k->all);
	*k = (struct keeper){};
}

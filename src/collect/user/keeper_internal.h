/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What a daemon and its keeper say to each other, and what the keeper does about it: for keeper*.c. */
#include "collect/user/keeper.h"

#define KEEPER_MOST 20000 /* arenas that it holds */

enum keeper_word { KEEPER_KEEP = 1, KEEPER_DROP, KEEPER_GET, KEEPER_HERE, KEEPER_END };

struct keeper_message {
	uint32_t word; /* enum keeper_word */
	uint32_t zero;
	struct spoor_kept kept;
};

struct keeper_held {
	struct spoor_kept kept;
	int fd;
};

struct keeper {
	struct keeper_held *all;
	size_t n, room;
};

int keeper_send(int to, uint32_t word, const struct spoor_kept *k, int fd); /* fd -1: none; it stays the caller's */
/* -errno, -EPIPE also for what is no message: then there is no descriptor. */
int keeper_receive(int from, struct keeper_message *m, int *ret_fd);
/* Carries out one message of a daemon, and waits for it. -errno: the daemon is gone, or broke the protocol. */
int keeper_serve(struct keeper *k, int daemon);
void keeper_let_go(struct keeper *k);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A process that does nothing but hold programs' arenas for a daemon, so that what a program leaves that ends while no
 * daemon is there is not lost. It lives at SOCKET.keeper as long as somebody is connected, or, for an hour at most, it
 * holds something; the next daemon gets everything from it, and goes on with it. Used by the hub's thread.
 */
#include "collect/user/arena.h"

struct spoor_kept {
	uint8_t uuid[16];
	uint32_t pid;     /* the host's */
	uint32_t session;
	uint64_t start_time; /* of the process: its arena's */
};

/* Connects to the keeper at path, or starts one. Returns the connection, or -errno: then nothing is kept. */
int spoor_keeper_open(const char *path);
void spoor_keeper_keep(int keeper, const struct spoor_kept *k, int fd);
void spoor_keeper_drop(int keeper, const uint8_t uuid[16]);
/* Everything that it holds: each() gets descriptors to close. */
int spoor_keeper_get(int keeper, void (*each)(void *ctx, const struct spoor_kept *k, int fd), void *ctx);

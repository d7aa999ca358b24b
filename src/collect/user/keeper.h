/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A process that does nothing but hold programs' arenas for a daemon, so that what a program leaves that ends while no
 * daemon is there is not lost; and where programs wait that begin then. It lives at SOCKET.keeper as long as somebody
 * is connected, or, for an hour at most, it holds something or programs may come; the next daemon gets everything from
 * it, and goes on with it. Used by the hub's thread.
 *
 *	program --HELLO, ARENA--> SOCKET           daemon  --ACCEPT, KEEP, DROP--> SOCKET.keeper
 *	        --HELLO, ARENA--> SOCKET.waiting   keeper          (no daemon is there)
 *	                                           keeper  --HERE, CAME, SAID--> the next daemon
 */
#include <stdbool.h>

#include "collect/user/arena.h"

struct spoor_kept {
	uint8_t uuid[16];
	uint32_t pid; /* the host's */
	uint32_t session;
	uint64_t start_time; /* of the process: its arena's */
};

#define SPOOR_KEEPER_SAID 1024 /* bytes that are kept of a message of a program: none is larger */

/*
 * Connects to the keeper at path, or starts one (*ret_begun). Returns the connection, or -errno: then nothing is kept.
 * A keeper is our own user's, or root's: whoever else listened there (*ret_strange) is told nothing, and replaced.
 */
int spoor_keeper_open(const char *path, bool *ret_begun, bool *ret_strange);
/*
 * Is there one, and no daemon with it, whose end, if it was just now, it has noticed? Waits for that, some seconds. 0;
 * -EAGAIN: it has not answered; or -errno: there is none.
 */
int spoor_keeper_is_free(const char *path);
/* The daemon's own socket: who has connected there and is not let in when we are killed is not lost. */
void spoor_keeper_own(int keeper, int fd);
void spoor_keeper_own_too(int keeper, int fd); /* that without a file */
void spoor_keeper_keep(int keeper, const struct spoor_kept *k, int fd);
void spoor_keeper_drop(int keeper, const uint8_t uuid[16]);
/*
 * A program that we have let in, until it has said what it has to say at its beginning: if we are killed before, it is
 * with the next daemon that it goes on. id: ours for it.
 */
void spoor_keeper_met(int keeper, uint32_t id, int fd);
void spoor_keeper_heard(int keeper, uint32_t id);

enum spoor_keeper_socket { SPOOR_KEEPER_OWN, SPOOR_KEEPER_OWN_TOO, SPOOR_KEEPER_LISTEN };
/*
 * The keeper is to let in who has connected to a socket of ours, so that it has him before we do: there is no moment at
 * which we could be killed and he be nowhere. One question at a time. Asked for an id that it has, it gives that again.
 */
int spoor_keeper_ask_in(int keeper, enum spoor_keeper_socket to, uint32_t id);
/*
 * Its answer, for which it waits so many ms: who came, as after spoor_keeper_met(). -EAGAIN: not yet; -ENOENT: nobody,
 * or it has no room; -EMFILE: we have none: he is to be asked for once more; -EPIPE: it is gone.
 */
int spoor_keeper_let_in(int keeper, int ms);
/* The socket where programs come while no daemon is there; it stays the caller's. -1: none is to come any more. */
void spoor_keeper_listen(int keeper, int fd);

/* Who is told what it holds; descriptors are his. */
struct spoor_keeper_taker {
	void (*kept)(void *ctx, const struct spoor_kept *k, int fd);
	/* A program, of which it is that is; met: a daemon had let it in, before. fd -1: there was no room for it. */
	void (*came)(void *ctx, int fd, bool met);
	void (*said)(void *ctx, const void *bytes, size_t size, int fd); /* said; fd -1: without one */
	/* listener -1: there is no socket yet; accepts: it can be asked to let programs in */
	void (*end)(void *ctx, uint32_t turned_away, int listener, bool accepts);
	void *ctx;
};
/* Nobody waits for it to hear what it is told: what finds no room in its socket it will not know of. */
void spoor_keeper_is_slow(int keeper, bool slow);
/* Asks for everything. It tells of programs, and who was turned away, until it hears spoor_keeper_taken(). */
int spoor_keeper_get(int keeper);
/*
 * Its answer, for which it waits so many ms; and for each part of it. -EAGAIN: not all of it has come yet: call it
 * again when there is more; -EPIPE: it is gone.
 */
int spoor_keeper_hear(int keeper, int ms, const struct spoor_keeper_taker *t);
void spoor_keeper_taken(int keeper);

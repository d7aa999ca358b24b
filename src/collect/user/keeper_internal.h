/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What a daemon and its keeper say to each other, and what the keeper does about it: for keeper*.c. */
#include <poll.h>

#include "collect/user/keeper.h"
#include "collect/user/socket_file.h"
#include "collect/user/turned_away.h"

#define KEEPER_MOST 20000 /* arenas that it holds */

/* A keeper may be older than its daemon: words keep their numbers, and who does not know one leaves it. */
enum keeper_word {
	KEEPER_KEEP = 1, /* an arena */
	KEEPER_DROP,
	KEEPER_GET,    /* is answered by HEREs, CAMEs with their SAIDs, and END */
	KEEPER_HERE,   /* an arena */
	KEEPER_END,    /* with the socket for programs; number: who was turned away */
	KEEPER_CAME,   /* a program's connection, number: 1: a daemon had let it in, */
	KEEPER_SAID,   /* and what that said, one message after the other */
	KEEPER_TAKEN,  /* who has waited, or was turned away, as GET told, need not be told again */
	KEEPER_LISTEN, /* a socket for programs, while no daemon is there */
	KEEPER_HUSH,
	KEEPER_MET,   /* a program's connection that the daemon has let in; number: its own for it */
	KEEPER_HEARD, /* it has said all that it has to say at its beginning; number: as with MET */
	KEEPER_OWN,   /* the daemon's own socket: who was not let in there yet waits, too, if it is killed */
	KEEPER_ASK,   /* END: the daemon before is gone, and nobody is at its socket */
	KEEPER_OWN_TOO, /* the daemon's socket without a file: as OWN */
	KEEPER_ACCEPT,  /* let in who connected to kept.session, enum spoor_keeper_socket; number: as with MET */
	KEEPER_LET_IN,  /* with the connection, which is as if it was told by MET; without: there is none */
	KEEPER_HAS_HIM, /* in place of LET_IN: the connection is here, and cannot be passed now */
};

#define KEEPER_ACCEPTS 1 /* in END's kept.session, of a keeper that knows ACCEPT */

struct keeper_message {
	uint32_t word;   /* enum keeper_word */
	uint32_t number; /* SAID: bytes of `said`, and only those are sent; else see there */
	struct spoor_kept kept;
	char said[SPOOR_KEEPER_SAID];
};

struct keeper_held {
	struct spoor_kept kept;
	int fd;
};

struct keeper_said {
	int fd; /* -1: none */
	uint32_t size;
	char *bytes;
};

/* A program that came while no daemon was there. */
struct keeper_waiter {
	int fd;
	ino_t socket; /* which that is of */
	uint32_t uid;
	bool met;   /* a daemon had let it in, and may have heard something */
	bool heard; /* it has ended; or what it says from here on stays in the socket */
	unsigned n, n_fds; /* what it said; with so many descriptors */
	struct keeper_said *said;
};

struct keeper_met {
	uint32_t id; /* the daemon's */
	int fd;
};

struct keeper {
	struct keeper_held *all;
	size_t n, room;
	int listener;           /* -1: no session, nobody is to wait */
	struct spoor_socket_file place; /* the listener's */
	int own[2];             /* the daemon's; -1: there is none */
	struct keeper_met *met; /* by the daemon that is there */
	size_t n_met;
	struct keeper_waiter *waiters;
	size_t n_waiters, waiters_room;
	size_t fds;           /* of waiters, with what they sent */
	uint64_t bytes;       /* of what they sent, as of the last look, */
	uint64_t looked;      /* ns: which was then */
	uint32_t turned_away; /* since they found no room */
	struct spoor_turned_away away;
};

int keeper_send(int to, uint32_t word, const struct spoor_kept *k, int fd); /* fd -1: none; it stays the caller's */
int keeper_send_message(int to, const struct keeper_message *m, int fd); /* that says nothing */
int keeper_send_number(int to, uint32_t word, uint32_t number, int fd);
int keeper_send_said(int to, const struct keeper_said *s);
/* -errno, -EPIPE also for what is no message: then there is no descriptor. */
int keeper_receive(int from, struct keeper_message *m, int *ret_fd);
void keeper_begin(struct keeper *k);
/* Carries out one message of a daemon, and waits for it. -errno: the daemon is gone, or broke the protocol. */
int keeper_serve(struct keeper *k, int daemon);
void keeper_let_go(struct keeper *k);

/* keeper_waiting.c */
#define WAITING_MOST 4096
#define WAITING_POLLED (WAITING_MOST + 1)
/* What there is to wait for; keeper_wait_done() is told what came of it. */
unsigned keeper_wait_for(const struct keeper *k, struct pollfd *p); /* room: WAITING_POLLED */
void keeper_wait_done(struct keeper *k, const struct pollfd *p);
void keeper_meet(struct keeper *k, uint32_t id, int fd); /* fd is taken over */
int keeper_let_in(struct keeper *k, int listener, uint32_t id); /* who has met it; -errno */
void keeper_heard(struct keeper *k, uint32_t id);
void keeper_daemon_left(struct keeper *k);
int keeper_tell_waiters(const struct keeper *k, int daemon);
void keeper_waiters_taken(struct keeper *k);
void keeper_listen(struct keeper *k, int listener); /* it is taken over */
void keeper_hush(struct keeper *k);                 /* and the socket's file is removed, if nobody has */

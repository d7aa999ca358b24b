/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The connection to the recorder. All of it is system calls, so that it can be had in signal handlers and between fork
 * and exec; changes of it happen under the agent's lock.
 */
#include <stdbool.h>

#include "agent/control/board.h"
#include "agent/control/protocol.h"
#include "agent/core/sys.h"

/* Reads the environment: which sockets there may be. Once, in the constructor. */
void connection_prepare(void);
/* Was a recorder named by the environment? Then call stacks are worth waiting for. */
bool connection_is_private(void);

/* The boards of the places where a recorder may be, best first; false: there is no such place. */
bool connection_board(unsigned place, struct board *ret);
/* Is there a recorder? */
bool connection_reaches(unsigned place);
/*
 * Connects to that place and says HELLO, to who wrote the board, or, if that wants us and nobody is there, to who keeps
 * us for the next one; a closed board's gets a HELLO, too. The fd, or -errno: -EAGAIN: too many wait there. flags:
 * enum spoor_control_hello_flag.
 */
int connection_begin(unsigned place, const struct board *board, unsigned flags);
/* Was that since a recorder that is there has no room for us, and closed what it had let in? */
bool connection_was_refused(int error);
/*
 * Connects to whoever is there, if that is not so yet, and says HELLO. The fd, or -errno. n_arenas: of FORKED, which
 * are to be sent then; who has any waits where nobody is there.
 */
int connection_open(unsigned flags, unsigned n_arenas);
/* The fd if there is a connection of this process; else -1. */
int connection_fd(void);
/* Is it to who keeps us for the next recorder? Nobody answers there. */
bool connection_waits(void);
/* Where nobody was to be reached: is that since no session is left? called: by a recorder, or by what is left of it. */
bool connection_is_over(bool called);
void connection_close(void);
/* A descriptor of the parent's is closed, if it is that still. */
void connection_forget(void);

int connection_send(struct spoor_control_head *m, unsigned type, unsigned size, __u32 serial, int fd);
/*
 * One message into buf (SPOOR_CONTROL_MAX_SIZE). Its size; 0: there is none; or -errno: it is to be closed. *ret_fd:
 * what came with it, the caller's; -1: nothing.
 */
int connection_receive(void *buf, int *ret_fd);
/* Waits until there is something to be received. ms < 0: for ever. */
bool connection_wait(int ms);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The far side of the compiler service.
 *
 *   us --(object, reply socket)--> server --fork--> worker --(sealed memfd)--> reply socket --> us
 *
 * The server never looks into a file: it forks a fresh worker for each request. So a worker that a hostile file took
 * over cannot touch the rows of the next file, and its death ends the reply socket, which is all the notice we need.
 */
#define SPOOR_ROWD_SECONDS 10

/* Serves requests from sock until it ends. Never returns. */
_Noreturn void spoor_rowd_serve(int sock);

/* One message of one byte with n descriptors (at most 2). 0 or -errno; on receiving, exactly n or -EBADMSG. */
int spoor_rowd_send(int sock, const int *fds, int n);
int spoor_rowd_receive(int sock, int *ret_fds, int n);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The far side of the compiler service.
 *
 *   server --fork--> workers
 *   us --(object, reply socket)--> a worker --(sealed memfd)--> reply socket --> us
 *
 * The server looks into no message: it forks workers, each of which takes one request, closes the socket that it came
 * by, and ends. So a worker that a hostile file took over cannot touch the rows of the next file, and its death ends
 * the reply socket, which is all the notice we need.
 */
#define SPOOR_ROWD_SECONDS 10

/* Has the requests from sock served until it ends. Never returns. */
_Noreturn void spoor_rowd_serve(int sock);

/* One message of one byte with n descriptors (at most 2). 0 or -errno; on receiving, exactly n or -EBADMSG. */
int spoor_rowd_send(int sock, const int *fds, int n);
int spoor_rowd_receive(int sock, int *ret_fds, int n);

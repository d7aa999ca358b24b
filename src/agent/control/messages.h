/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* What a recorder sends, and the board says, carried out and answered. All of it with the agent's lock held. */
#include <stdbool.h>

#include "agent/control/protocol.h"

extern bool messages_late; /* a session may want us, and we went on without an answer */

/* The connection is no more: what it said in part counts for nothing. Async-signal-safe. */
void messages_cut(void);
/* One that came by no connection, without a descriptor. -errno: it makes no sense. */
int messages_take(const struct spoor_control_head *m);
/* To a session that this process, a child, cannot be in: -errno. */
void messages_refuse(__u32 session, int error);
/* What there is. Returns 0, or -errno: the connection is closed. */
int messages_serve(void);
/* The same, but what belongs together comes together: waits up to ms for each next one of it. */
int messages_serve_all(int ms);

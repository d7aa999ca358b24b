/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The program's side of the control socket (protocol.h): inside the library. Nothing here allocates; what may be called
 * from signal handlers and between fork and exec says so, and does so by system calls alone.
 *
 * Two ways lead to the same function that serves the socket:
 *  - the listener: one thread with all signals blocked, started by the constructor if a session applies to the program;
 *  - a kick: a SIGURG with our value, queued by the recorder, for programs without that thread (they ran before, or are
 *    children by fork). The handler serves what is there and returns; if the library's lock is taken, the recorder
 *    kicks again. To other SIGURGs it does what was there before it.
 *
 * At a program's start it is: spoor_control_start() -> HELLO, SETUP -> spoor_agent_setup(), spoor_agent_rule()s.
 */
#include <stdbool.h>

#include "agent/control/protocol.h"

/*
 * From the constructor, once everything else is ready. Looks for the recorder: $SPOOR_UST_SOCKET, else the user's
 * socket, else the machine's; in a setuid program the machine's alone. Waits for its answer a millisecond at most: what
 * comes later is served by a kick. Returns 1 if a session applies (the rules are then in force), 0 if none does.
 */
int spoor_control_start(void);

/* A new arena: sends its fd to the recorder. Async-signal-safe, does not block. 0, or -errno: nobody has it. */
int spoor_control_offer(int fd, const __u8 uuid[16]);

/* In the child of a fork, by whatever noticed it: the parent's connection is not ours. Async-signal-safe. */
void spoor_control_forked(void);

/* From the destructor: ends the listener. */
void spoor_control_stop(void);

/* ---- what the rest of the library gives (src/agent/core, src/agent/ust) ---- */

/*
 * The one lock under which everything changes. wait false: -EBUSY at once if it is taken (signal handlers). A thread
 * that holds it has all its signals blocked.
 */
int spoor_agent_lock(bool wait);
void spoor_agent_unlock(void);

/* With the lock held. How arenas made from now on are to be. 0 or -errno. */
int spoor_agent_setup(const struct spoor_control_setup *s);
/*
 * With the lock held. Number of sites that the rule changed, or -errno (-EINVAL: a filter, -EPERM: they cannot be
 * switched). text: why, or that some of them cannot.
 */
int spoor_agent_rule(const struct spoor_control_rule *r, char *text, unsigned size);
/* With the lock held. Sites that the rules enable are on or off. As spoor_agent_rule(). */
int spoor_agent_record(bool on, char *text, unsigned size);
/* With the lock held. An object with sites has come: a session that had none to record may begin now. */
void spoor_agent_objects(void);
/* With the lock held. The session is over: no rules, sites off, the arena ended; another session may follow. */
void spoor_agent_end(void);
/* Sites of the program, and how many of them cannot be switched on. */
unsigned spoor_agent_sites(__u32 *ret_stuck);
/* fd and uuid of the present arena, if there is one, for a recorder that is new: 0, or -ENOENT. Async-signal-safe. */
int spoor_agent_arena(int *ret_fd, __u8 ret_uuid[16]);

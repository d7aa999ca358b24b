/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The program's side of the control socket (protocol.h): inside the library. Nothing here allocates; what may be called
 * from signal handlers and between fork and exec says so, and does so by system calls alone.
 *
 * Two ways lead to the same function that serves the socket:
 *  - the listener: one thread with all signals blocked, started by the constructor if a session applies to the program;
 *  - a kick: a SIGURG with our value, queued by the recorder, for programs without that thread (they ran before, or are
 *    children by fork). The handler serves what is there and returns; if the library's lock is taken, whoever has it
 *    kicks again when it gives it back. To other SIGURGs it does what was there before it.
 * Who blocks SIGURG then has at least rows: while they are missing, events look themselves whether some have come.
 *
 * At a program's start it is: spoor_control_start() -> HELLO, then for each session a SETUP -> spoor_agent_setup(),
 * spoor_agent_rule()s, spoor_agent_record().
 */
#include <stdbool.h>

#include "agent/control/protocol.h"

/* What a DONE says besides its result. */
struct spoor_agent_said {
	__u32 about; /* enum spoor_control_done_about */
	char text[240];
};

/* An arena and for which session it is. */
struct spoor_agent_arena {
	__u32 session;
	int fd;
	__u8 uuid[16];
};

/*
 * From the constructor, once everything else is ready. Looks for the recorder: $SPOOR_UST_SOCKET, else the user's
 * socket, else the machine's; in a setuid program the machine's alone. If the program has sites, its board (board.h)
 * says which sessions want it, and nobody is waited for; where there is no board, for an answer, a millisecond at most:
 * what comes later is served by a kick. Returns 1 if a session applies (the rules are then in force), 0 if none does.
 */
int spoor_control_start(void);

/* An object with sites has come (dlopen): the same, if it is the first. With the lock held. */
void spoor_control_objects(void);

/*
 * The arenas that there are anew in a child, or one that was made: the recorder gets them. -errno: there is none, or it
 * cannot be reached. Async-signal-safe.
 */
int spoor_control_offer(const struct spoor_agent_arena *arenas, unsigned n);

/* One that was made, or is asked for. A child that finds its connection gone offers all that it has. */
void spoor_control_offer_one(const struct spoor_agent_arena *arena);

/* In place of arenas that a child can have none of: why; -errno. Async-signal-safe. */
void spoor_control_offer_none(const __u32 *sessions, unsigned n, int error);

/*
 * Serves the socket as a kick does, if there is no listener, but waits for nothing: what has not come is for the next
 * time. Async-signal-safe.
 */
void spoor_control_look(void);

/* From the destructor: ends the listener. */
void spoor_control_stop(void);

/* ---- what the rest of the library gives (src/agent/core, src/agent/ust) ---- */

/*
 * The one lock under which everything changes. wait false: -EBUSY at once if it is taken (signal handlers). A thread
 * that holds it has all its signals blocked.
 */
int spoor_agent_lock(bool wait);
void spoor_agent_unlock(void);

/* The following with the lock held. Sessions are known by the recorder's numbers. */

/*
 * A session, and how its arena is to be; one that is known keeps its arena, and its rules until spoor_agent_record() is
 * called: from then on those hold that come after this. 0; -EBUSY: there are too many; or another -errno.
 */
int spoor_agent_setup(const struct spoor_control_setup *s);
/* Its rules never come to their end, or one of them cannot be: those before them go on to hold. */
void spoor_agent_setup_cut(__u32 session);
/*
 * Number of sites that the rule concerns, or -errno (-EINVAL: a filter, -EPERM: none can be switched on). said: why, or
 * what is to be known about it.
 */
int spoor_agent_rule(const struct spoor_control_rule *r, struct spoor_agent_said *said);
/* Sites that the rules enable are on or off. Likewise. */
int spoor_agent_record(__u32 session, bool on, struct spoor_agent_said *said);
/* An object with sites has come: sessions that had none to record may begin now. */
void spoor_agent_objects(void);
/* What was said of it up to that change has been done; which that is. */
void spoor_agent_hear(__u32 session, __u32 change);
__u32 spoor_agent_heard(__u32 session);
/* Does it record? */
bool spoor_agent_records(__u32 session);
/* The session is over: no rules, its arena ended. */
void spoor_agent_end(__u32 session);
/* What a HELLO's answer has not named does not record any more; what is in its buffers stays there. */
void spoor_agent_begin_answer(void);
void spoor_agent_end_answer(void);
/* Does any record? */
bool spoor_agent_any(void);
/* How to walk through an object; fd: its rows, which stays the caller's, or -1. */
void spoor_agent_rows(const struct spoor_control_rows *m, int fd);
/* Objects that the recorder has yet to say that of, if call stacks are recorded. */
unsigned spoor_agent_rows_awaited(void);
/* Sites of the program, and how many of them cannot be switched on. Under the lock. */
unsigned spoor_agent_sites(__u32 *ret_stuck);
/* The arena of a session, for a recorder that is new: 0, or -ENOENT. */
int spoor_agent_arena(__u32 session, struct spoor_agent_arena *ret);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Where traced programs and their recorder meet: a socket, the programs that came to it, the sessions that record
 * them. `spoor ust run`, `spoor daemon` and `spoor record --ust` are hosts of a hub; it lives in the host's poll loop:
 *
 *	poll(spoor_hub_fd(h)) -> spoor_hub_serve(h)       connections, messages, ends of programs
 *	every so often        -> spoor_hub_tick(h)        rounds of the sessions; returns when it is due again
 *
 * Nothing a peer does blocks it or takes it down: sockets are non-blocking, messages are checked, a peer that breaks
 * the protocol is disconnected. Not thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/user/session.h"

#define SPOOR_HUB_MOST_PROGRAMS 20000
/* Why sites cannot be switched on, and what helps. */
#define SPOOR_HUB_STUCK \
	"the program may not write its code (build it with -DSPOOR_FLAG_SITES), or a breakpoint stood there"

struct spoor_hub;
/*
 * A request that programs are to answer, and whose sum goes to a client. The hub counts answers; it is answered when
 * all have come, or after a second, naming who has not.
 */
struct spoor_hub_request;

struct spoor_hub_options {
	const char *path; /* of the socket */
	bool everybody;   /* programs of all users may come */
	bool passing;     /* it is of one command: after it comes no other */
	const char *keeper; /* where there is one, or is to be (keeper.h); NULL: none, we do without */
	bool goes_on;       /* sessions of the recorder before us are to be added, before spoor_hub_keep() */
	const char *cache_dir; /* of unwind rows; NULL: none */
	/* A command of a client (`spoor ust`), words separated by NULs. Answers by spoor_hub_answer(). NULL: none. */
	void (*command)(void *ctx, struct spoor_hub *h, const char *text, size_t len, struct spoor_hub_request *q);
	/* A session that is to end later (spoor_hub_end_later()) can be: calls spoor_hub_end(), and answers q. */
	void (*ended)(void *ctx, struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_request *q);
	/*
	 * A session could not write something: called before the buffers with it go back to their programs, so that
	 * the recorder after us can be told (spoor_state_save()). NULL: there is none.
	 */
	void (*unwritten)(void *ctx);
	/* Something that a person should know. NULL: nobody hears it. */
	void (*warn)(void *ctx, const char *text);
	void *ctx;
};

/* -EADDRINUSE: another recorder lives there. A socket that nobody listens on is replaced. */
int spoor_hub_open(const struct spoor_hub_options *o, struct spoor_hub **ret, struct spoor_error *e);
/* Who made the socket at path, and lives: not one whose socket another process holds yet. */
bool spoor_hub_maker_lives(const char *path);
/* Closes everything; sessions must be closed before. Removes the socket. NULL is fine. */
void spoor_hub_close(struct spoor_hub *h);

/*
 * What the keeper holds for us is taken; from here on it holds arenas, and outlives us. Sessions must have been added
 * before. It has our socket since before anybody could come there. Where there can be none the hub does without.
 */
void spoor_hub_keep(struct spoor_hub *h);

int spoor_hub_fd(const struct spoor_hub *h);
void spoor_hub_serve(struct spoor_hub *h);
/* Returns ms until it is due again. */
int spoor_hub_tick(struct spoor_hub *h);

/*
 * Programs that begin from now on find the sessions as they are. The hub does it when it is due, and before a client is
 * answered; a host that adds a session and then starts a program does it in between.
 */
void spoor_hub_publish(struct spoor_hub *h);

/*
 * Begins what compiles unwind rows: a child, which needs its parent's privileges to become nobody. Else it begins with
 * the first program that walks its stacks; so this is for a host that gives up privileges before. false: it cannot be
 * had, as was said.
 */
bool spoor_hub_begin_rows(struct spoor_hub *h);

/* Adds a session, which the hub owns from then on: programs that come get its rules. */
void spoor_hub_add(struct spoor_hub *h, struct spoor_ust_session *s); /* id 0: it gets one */
struct spoor_ust_session *spoor_hub_find(struct spoor_hub *h, const char *name);
/* NULL: the first. */
struct spoor_ust_session *spoor_hub_next(struct spoor_hub *h, struct spoor_ust_session *s);
/*
 * Ends a session: takes what its programs have written so far, tells them that it is over, closes the trace.
 * *ret (may be NULL) gets what it was at the end. Who came before is to have been caught up with
 * (spoor_hub_catch_up()); not here, for a client may say then that this session is to end.
 */
struct spoor_hub_result {
	uint64_t events, lost, bytes;
	uint64_t overwritten; /* not lost: by newer events, in channels that are to do that */
	uint64_t refused; /* of what is lost: it found no room on the way to the relay; */
	uint64_t undescribed; /* its class has no description that makes sense */
	unsigned dropped; /* segments, to keep to the trace's largest size: what was in them is among the events */
	unsigned programs, crashed;
	struct spoor_user_damaged damaged;
	unsigned stuck; /* programs with sites that could not be switched on */
	uint32_t uncounted; /* counters that some events could not have: bits of contexts */
	unsigned late;  /* programs that were recorded from later than their main() on, since we did not answer */
	unsigned away;  /* programs that found no room, at a recorder or to wait for one */
	bool held_lost; /* what its programs left while no recorder was there, if they left something */
	unsigned came;  /* programs with sites that the session was for, whether they wrote an event or not */
	unsigned go_on; /* of spoor_hub_end(): programs that run, and are recorded no more */
	struct spoor_ust_apart apart; /* who came and is not recorded */
	char why[512];                /* it failed */
	char failed_once[512];        /* so it had, and has gone on since; "": it had not */
	char elsewhere[512];          /* why the trace is another one than it was begun with; "": it is not */
};
/* The same of a session that goes on, as of its last round; what recorders before us wrote is in it. */
void spoor_hub_totals(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_hub_result *ret);
int spoor_hub_end(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_result *ret,
		  struct spoor_error *e);
/* What the session's programs left while no recorder was there is not known yet: who holds it does not answer. */
bool spoor_hub_awaits_keeper(const struct spoor_hub *h, const struct spoor_ust_session *s);
/*
 * The same where that is awaited, or the trace goes to a relay, which may be slow, or away: its programs stop, what
 * they wrote is taken while the hub serves everybody else, and when it is where it should be, or after some seconds,
 * `ended` is called. q is not answered before.
 */
void spoor_hub_end_later(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_request *q);
struct hub_program;
/*
 * The recorder is to end, and its sessions are not: who comes from here on waits for the next one. Who came before, and
 * what he said, is known when it returns.
 */
void spoor_hub_leave(struct spoor_hub *h);
/* Who came before this moment, what they said, and who ended, is known when it returns. From within a turn, too. */
void spoor_hub_catch_up(struct spoor_hub *h, const struct hub_program *but);
/*
 * The recorder ends, and its programs go on: what they write from here on stays in their buffers for the next one. The
 * session's trace is closed; s is freed. Who came before is to have been caught up with, and drained.
 */
int spoor_hub_suspend(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_error *e);
/* Takes what there is, and in addition ends what is full of a rotating session. Called by tick. */
void spoor_hub_drain(struct spoor_hub *h, struct spoor_ust_session *s);
/* Its writer, which is another one's too, has begun a segment. */
void spoor_hub_segment(struct spoor_hub *h, struct spoor_ust_session *s);
int spoor_hub_snapshot(struct spoor_hub *h, struct spoor_ust_session *s, const char *path, struct spoor_error *e);

/* ---- telling programs ---- */

/* A rule, kept in the session and told to the programs that it concerns. */
int spoor_hub_rule(struct spoor_hub *h, struct spoor_ust_session *s, const struct spoor_ust_rule *rule,
		   struct spoor_hub_request *q, struct spoor_error *e);
/* Starts and stops recording, of one program (pid), or of all: keeps it, and tells programs. How many, or -errno. */
int spoor_hub_record(struct spoor_hub *h, struct spoor_ust_session *s, uint32_t pid, bool on,
		     struct spoor_hub_request *q, struct spoor_error *e);
/*
 * Programs that are there already get a session that is new, or has come to want them. pid 0: all.
 */
void spoor_hub_join(struct spoor_hub *h, struct spoor_ust_session *s, uint32_t pid, struct spoor_hub_request *q);
/*
 * Finds programs that run already and do not know of us, and kicks them. pid 0: all. q is told what they have to say of
 * s. Returns how many.
 */
int spoor_hub_kick(struct spoor_hub *h, const struct spoor_ust_session *s, uint32_t pid, struct spoor_hub_request *q);
/* The recorder of one command, whose socket was at `path`, was killed: its programs are called, and see that. */
void spoor_kick_left(const char *path);
/*
 * Who may record for a session that is over, since it was away when that was told, or is a child that nobody has heard
 * of, is called: in so many ns, when those that are here have heard it, and some times more, until nobody is found.
 */
void spoor_hub_recall(struct spoor_hub *h, uint64_t after);
bool spoor_hub_recalls(const struct spoor_hub *h); /* it is at it */
/* Can the process be told of a session at all? -ENOENT, -EBUSY. */
int spoor_hub_reaches(struct spoor_hub *h, uint32_t pid, struct spoor_error *e);

/*
 * What is asked holds for programs to come as well: it is done, and no failure, when programs that are there do not do
 * it, each of which is named all the same.
 */
void spoor_hub_stands(struct spoor_hub_request *q);
/* Sites are to be switched on: where programs have none of these, it is said how to find out which they have. */
void spoor_hub_enables(struct spoor_hub_request *q);
/* A session has begun, and stays where no process does what is asked: who stopped to answer may do it yet. */
void spoor_hub_begins(struct spoor_hub_request *q);
/* A line for the client; the last one ends the request when nothing is awaited any more. */
void spoor_hub_answer(struct spoor_hub_request *q, const char *text);
void spoor_hub_result(struct spoor_hub_request *q, int result, const char *text);
/* Says, before the last line, if the session's relay has not answered within a moment. */
void spoor_hub_greet_relay(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_hub_request *q);

/* What programs a session has. each() gets one after another. */
struct spoor_hub_program_info {
	uint32_t pid;
	const char *comm, *exe;
	const char *refused; /* why it is not recorded; "": it is */
	unsigned n_sites, n_arenas;
	bool records, single; /* it was told to; it does not do as the session does */
	unsigned n_stuck;     /* of n_sites: cannot be switched on, since the program may not change its code */
	uint64_t events, lost, overwritten, malformed;
	bool resumed;    /* a recorder before us had others of its events */
	uint64_t shared; /* events that found no packet of their thread's own */
	enum spoor_coming how;
	bool listens; /* has its thread; else it is kicked */
	const char *deaf; /* why that does not reach it; NULL: it does */
};
void spoor_hub_programs(struct spoor_hub *h, const struct spoor_ust_session *s,
			void (*each)(void *ctx, const struct spoor_hub_program_info *p), void *ctx);

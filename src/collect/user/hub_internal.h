/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The hub's parts: hub.c (sockets), hub_listen.c, hub_accept.c, hub_waiting.c, hub_rounds.c, hub_end.c, program.c
 * (traced programs), request.c (clients), kick.c, unreached.c.
 */
#include <sys/types.h>
#include <sys/socket.h>

#include "collect/user/hub.h"
#include "collect/user/keeper.h"
#include "collect/user/rows.h"
#include "collect/user/shares.h"
#include "collect/user/socket_file.h"
#include "collect/user/turned_away.h"
#include "collect/user/waker.h"

#define HUB_MOST_ARENAS 64 /* of one process, in all sessions */

enum hub_kind { HUB_LISTENER, HUB_PEER, HUB_PROCESS, HUB_WAKER, HUB_ROWS, HUB_KEEPER };

/* What epoll tells of: a socket, or a process. */
struct hub_fd {
	enum hub_kind kind;
	int fd;
	void *owner;
};

struct hub_awaited { /* a message that a program has not answered yet */
	uint32_t serial;
	struct spoor_hub_request *request; /* NULL: nobody wants to know */
};

/* A program in a session: its buffers for that. */
struct hub_member {
	struct spoor_ust_session *session;
	struct spoor_source **arenas;
	size_t n_arenas;
	uint32_t setup;   /* serial of its SETUP, or a later RECORD, while that is not answered */
	char refused[sizeof(((struct spoor_control_done *)NULL)->text) + 1]; /* why it is not recorded; "": it is */
	bool stuck;       /* sites that could be switched when it came could not be; counted by the session */
	bool records;     /* it was told to */
	uint32_t heard; /* of a child: the last change of rules that its parent had heard when it was forked, or it */
	bool record_untold; /* of a child: nor whether to record */
	enum spoor_coming how;
	bool known;       /* a recorder before us had told how */
	bool let_go;      /* it has ended, and others need the memory: all of it is on its way, or was refused */
	bool dropped;     /* and then they needed it still */
};

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* of Linux 6.5 */
#endif

/* Whoever connected: a traced program once it said HELLO, a client once it sent a COMMAND. */
struct hub_program {
	struct hub_program *prev, *next;
	struct spoor_hub *hub;
	uint64_t id;                 /* never another's */
	struct hub_fd sock, process; /* fd -1: closed, gone */
	uint64_t came;               /* ns: when it said HELLO */
	struct ucred cred;
	struct spoor_ust_process identity; /* pid 0: nobody has asked (spoor_program_process()) */
	bool program; /* it said HELLO */
	bool listens;
	bool answering; /* it is being answered */
	bool kept;      /* the keeper has its connection, too, in case that we are killed before we have heard it */
	bool met; /* it had been let in by the recorder before us, which may have heard its HELLO */
	bool forked;    /* met, and has offered buffers as a child */
	bool untold;    /* a child's socket has not taken all that was said since it was forked */
	bool unwanted;  /* no session wanted it when it came */
	bool dead;                  /* to be freed after this turn */
	bool gone;                  /* its arenas end with the next round */
	enum spoor_program_end end; /* then: how */
	char comm[16], exe[256];
	unsigned n_sites, n_stuck; /* stuck: cannot be switched on */
	uint32_t called;           /* pid, as it sees itself */
	struct hub_member members[SPOOR_UST_MOST_SESSIONS];
	unsigned n_members;
	uint32_t *apart; /* sessions that it cannot be in */
	unsigned n_apart;
	unsigned arenas_to_come; /* of a child, for sessions that its parent is in */
	struct hub_awaited *awaited;
	size_t n_awaited;
	uint64_t kicked; /* ns; 0: not since it answered, and read all */
	unsigned kicks;  /* in vain, one after the other */
	uint64_t taker_found; /* ns: when it was last seen whether a kick would come to the program itself */
	bool is_taken;        /* it would */
	uint64_t looked; /* ns: whether its arenas are mapped still */
};

struct spoor_hub_request {
	struct spoor_hub_request *next;
	struct hub_program *client; /* NULL: it left, or there is none */
	uint32_t serial;            /* of its command */
	unsigned awaited;
	uint64_t waited;   /* ms: for the client to read */
	uint64_t deadline; /* ns */
	bool enables;      /* it is to switch on sites: where there are none, how to see which there are is said */
	bool begins;       /* a session, which stays where nobody does what is asked */
	bool stands;       /* what is asked holds for programs to come: it is done, whoever of these does not do it */
	bool again;        /* all programs are looked for once more when these have answered: what they forked before */
	unsigned looks;    /* so often at most; 0 also where single ones were asked */
	bool answered;     /* result is there; TEXT with `last` goes when nothing is awaited */
	uint32_t greets;   /* the session whose relay is awaited; 0: none */
	uint64_t greet_by; /* ns */
	int result;
	const struct spoor_ust_session *session; /* of whose SETUP answers are awaited from who was kicked */
	int64_t sum;                             /* of what programs answered */
	unsigned programs, refused, concerned,
		noted; /* concerned: with sites; noted: of these, with something to say */
	char note[240];
	char text[1024];      /* of the last line */
	uint32_t *expected; /* processes that were kicked, and have not come yet */
	unsigned n_expected;
	unsigned n_unreached; /* programs of ours that no signal reaches (unreached.c) */
};

struct hub_board {
	int fd; /* -1: there is none */
	uint32_t generation;
	bool single; /* with rules for single processes */
	struct spoor_control_note *notes;
	size_t n;
	uint64_t beat, looked; /* ns: when that was done last */
};

/* What the keeper tells of programs that came while no recorder was there. */
struct hub_waited {
	struct hub_words *first, *last;
	bool nobody; /* he of whom it is telling cannot come */
	bool failed; /* there is no socket for them, which was said */
};

/* Whom the keeper was asked to let in. */
struct hub_asked {
	uint64_t id; /* what he is to be; 0: nobody */
	int listener;
	enum spoor_keeper_socket socket; /* the same, as the keeper has it */
	bool sent;   /* the answer is still to come */
	bool waited_for; /* beyond that, by a command */
};

struct spoor_hub {
	struct spoor_hub_options o;
	char path[108];
	struct spoor_socket_file file; /* there */
	int epoll_fd;
	struct hub_fd listener, beyond_root, wakes;
	struct hub_fd waiting; /* where programs come while no recorder is there: the keeper has it, too */
	struct spoor_waker *waker;
	struct hub_program *first;
	unsigned n_programs;
	struct spoor_shares shares; /* of them, by user */
	struct spoor_turned_away away;
	struct spoor_ust_session *sessions;
	struct spoor_hub_request *requests;
	uint32_t serial;
	uint64_t period, due, last; /* ns; last: the round before */
	uint64_t ticked; /* ns: when we were last asked whether there is anything to do */
	uint32_t next_session;
	char keeper_path[128];
	struct hub_fd kept;
	int keeper; /* kept.fd; -1: none */
	bool keeper_accepts; /* it can be asked to let programs in */
	struct hub_asked asked;
	uint64_t keeper_begun; /* ns */
	unsigned keepers_ended; /* one soon after the other */
	bool keeper_asked, keeper_told; /* what it held for us; told: all of it */
	bool goes_on; /* there are sessions of the recorder before us, and they have not been added yet */
	bool keeper_late; /* we have begun without what it holds */
	bool keeper_lost; /* there was none, but sessions that go on */
	bool keeper_missed; /* there could be none, which was said */
	uint64_t keeper_again; /* ns: then it is tried again */
	struct hub_board board;
	bool catching_up;
	bool no_files; /* there was one too few, which was said */
	bool deaf;     /* there is one too few now */
	unsigned recalls; /* looks for programs that record for sessions which are over; */
	uint64_t recall;  /* ns: the next */
	uint32_t *recalled; /* who has come since the first, and heard that none wants him */
	size_t n_recalled;
	unsigned crowd; /* programs that came one behind the other: as many as can wait may have kept others out */
	bool leaves; /* sessions, and what programs need of us to begin, stay for the next one */
	struct hub_orphan *orphans, *adopted; /* adopted: of programs that were gone */
	struct hub_waited waited;
	struct spoor_user_rows *rows; /* NULL: nobody has needed them yet */
	struct hub_fd rows_done;
	bool rows_failed; /* they cannot be had, or not of an object, which was said */
	uint64_t last_program;
};

/* hub.c */
int spoor_hub_watch(struct spoor_hub *h, struct hub_fd *f, int fd, void *owner, enum hub_kind kind);
void spoor_hub_unwatch(struct spoor_hub *h, struct hub_fd *f);
void spoor_hub_listen_to_all(struct spoor_hub *h, bool yes);
void spoor_hub_flush(struct hub_program *p); /* what it has sent and we have not read */
void spoor_hub_heard(struct hub_program *p, const void *message, size_t size, int fd); /* and that before */
void spoor_hub_warn(struct spoor_hub *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
void spoor_hub_no_files(struct spoor_hub *h);
ssize_t spoor_hub_receive(const struct hub_program *p, void *bytes, size_t room, int *ret_fd, int flags);
void spoor_hub_bury(struct spoor_hub *h); /* programs that are dead */
/* Who has called chroot() is to find it, too; 0 also if it is open already, or nobody is to. */
int spoor_hub_open_beyond_root(struct spoor_hub *h, struct spoor_error *e);

/* The socket at its path is its own: so are the files beside it. A directory may be removed, and made for another. */
bool spoor_hub_has_place(const struct spoor_hub *h);

/* hub_listen.c */
#define HUB_BACKLOG 4096 /* programs that wait to be let in */
/* A socket there. Until it is listened to programs find nobody; who binds there meanwhile takes the path. */
int spoor_hub_bind(const char *path, bool everybody, struct spoor_error *e);
int spoor_hub_listen(int fd, const char *path, struct spoor_error *e);
int spoor_hub_taken(const char *path, struct spoor_error *e); /* says so; returns -errno */

/* board.c */
void spoor_board_tick(struct spoor_hub *h, uint64_t now);
void spoor_board_remove(struct spoor_hub *h);

/* hub_rounds.c */
void spoor_hub_hurry(struct spoor_hub *h); /* a program is new: nobody knows yet how much it writes */
void spoor_hub_full(struct spoor_hub *h);  /* many packets are: a program writes faster than rounds come */
/* How much of what there is. */
enum hub_taking {
	TAKE_DUE,      /* what a round takes: of a flight recorder nothing, with a relay what there is room for */
	TAKE_POSSIBLE, /* of a flight recorder, too */
	TAKE_ALL,      /* also what there is no room for: it is lost, and counted */
};
int spoor_hub_take(struct spoor_hub *h, struct spoor_ust_session *s, enum hub_taking how);
void spoor_hub_unlink(struct spoor_hub *h, struct spoor_ust_session *s);

/* hub_end.c */
void spoor_hub_end_step(struct spoor_hub *h, struct spoor_ust_session *s, uint64_t now);

/* hub_accept.c */
bool spoor_hub_accept(struct spoor_hub *h, int listener); /* there may be more */
void spoor_hub_accept_asked(struct spoor_hub *h); /* whom the keeper was asked for, and could not be taken */
void spoor_hub_keeper_says(struct spoor_hub *h);  /* or is gone */
void spoor_hub_accept_late(struct spoor_hub *h);  /* whom it has let in; waits a moment for its answer */

/* program.c */
void spoor_program_add(struct spoor_hub *h, struct hub_program *p); /* to those of the hub */
struct hub_program *spoor_program_take_in(struct spoor_hub *h, int fd); /* NULL: it may not; fd is taken over */
void spoor_program_meet(struct hub_program *p);
void spoor_program_heard(struct hub_program *p); /* or it left */
const struct spoor_ust_process *spoor_program_process(struct hub_program *p);
/* One message of it, with at most one descriptor, which stays the caller's. -errno: it broke the protocol. */
int spoor_program_message(struct hub_program *p, const void *m, size_t size, int fd);
void spoor_program_hung_up(struct hub_program *p);
void spoor_program_ended(struct hub_program *p);
void spoor_program_end_arenas(struct hub_program *p, enum spoor_program_end end);
/* From time to time: has it executed another program? */
void spoor_program_look(struct hub_program *p, uint64_t now);
bool spoor_program_has_unread(const struct hub_program *p); /* of what it was told */
void spoor_program_kick_again(struct hub_program *p, uint64_t now); /* if it is time to */
bool spoor_process_left(uint32_t pid, ino_t ino); /* it has come to map something else than this arena */
/* Of one that is gone: is all that it left where it is safe? */
bool spoor_program_is_taken(const struct hub_program *p);
void spoor_program_finish(struct hub_program *p); /* its arenas have been taken to their end */
/* A session is over; or its buffers are to stay as they are, for another recorder. */
void spoor_program_leave(struct hub_program *p, const struct spoor_ust_session *s);
void spoor_program_forget(struct hub_program *p, const struct spoor_ust_session *s);
/* It cannot be recorded: each session that wants it counts it, once, and who has called it hears why. */
void spoor_program_keep_out(struct hub_program *p, const char *why);
void spoor_program_free(struct hub_program *p);

/* program_sessions.c */
int spoor_program_send(struct hub_program *p, struct spoor_control_head *m, unsigned type, size_t size,
		       struct spoor_hub_request *q);
/* NULL: too many. how: if it is new there. */
struct hub_member *spoor_program_add_member(struct hub_program *p, struct spoor_ust_session *s, enum spoor_coming how);
struct hub_member *spoor_program_member(struct hub_program *p, const struct spoor_ust_session *s); /* NULL: it is not */
/* It cannot be in the session, and why: -errno. */
void spoor_program_refuses(struct hub_program *p, struct hub_member *member, int error, const char *text);
/* Whether to record, whatever it does. -errno: it was not told. */
int spoor_program_record(struct hub_program *p, struct hub_member *member, bool on, struct spoor_hub_request *q);
size_t spoor_program_arenas(const struct hub_program *p);                                          /* how many */
/* It hangs up when it has read what it was told, and connects again. */
void spoor_program_come_again(struct hub_program *p);
/* Its socket takes no more, or what it is in is not known here: it is to hang up, come again, and hear it all. */
void spoor_program_start_over(struct hub_program *p);
/* To its HELLO: all sessions that want it. -errno: it was not told all of them. */
int spoor_program_answer(struct hub_program *p, const struct spoor_control_hello *m);
/* Tells it of all sessions that want it, as if it had said HELLO now. */
void spoor_program_answer_again(struct hub_program *p);
/* Tells the program of a session that wants it and that it is not in. 0: it does not; 1; or -errno. */
int spoor_program_join(struct hub_program *p, struct spoor_ust_session *s, struct spoor_hub_request *q);

/* telling.c */
/* A child whose buffers have come: what it has not heard of its sessions, and all of others that want it. */
void spoor_program_tell_child(struct hub_program *p);
void spoor_program_tell_rest(struct hub_program *p); /* what its socket did not take then */

/* telling_rows.c */
void spoor_program_ask_rows(struct hub_program *p); /* for what its arenas have defined */
void spoor_hub_tell_rows(struct spoor_hub *h);

/* request.c */
/* -EPERM: its user may give none, of which it was told: it is to be hung up. */
int spoor_request_command(struct hub_program *client, const struct spoor_control_head *m, size_t size);
/* Whatever the command is, it is not carried out. Does not wait: who does not read it does not hear it. */
void spoor_request_refuse(struct hub_program *client, uint32_t serial, int error, const char *why);
void spoor_request_done(struct spoor_hub_request *q, uint32_t pid, int result, const char *text); /* q NULL: nothing */
/* It is done, and there is something to be said of it if all that were concerned say so. */
void spoor_request_note(struct spoor_hub_request *q, int result, const char *text);
void spoor_request_expect(struct spoor_hub_request *q, uint32_t pid);
bool spoor_request_expects(const struct spoor_hub_request *q, const struct hub_program *p);
/* The one that waits for that program to come to the session; NULL: none. */
struct spoor_hub_request *spoor_request_for(struct spoor_hub *h, const struct hub_program *p,
					    const struct spoor_ust_session *s);
/* It has come: nobody need wait for that any more. */
void spoor_requests_came(struct spoor_hub *h, const struct hub_program *p);
/* And does not do what it was called for: who has called it hears why. */
void spoor_requests_refused(struct spoor_hub *h, const struct hub_program *p, int error, const char *why);
void spoor_requests_wait_longer(struct spoor_hub *h, uint64_t ns);
void spoor_requests_tick(struct spoor_hub *h, uint64_t now);
bool spoor_requests_have(const struct spoor_hub *h, const struct hub_program *client); /* one of his */
void spoor_requests_forget(struct spoor_hub *h, struct hub_program *client);
void spoor_request_free(struct spoor_hub_request *q);

/* program_arenas.c: -errno: it broke the protocol */
int spoor_program_arena(struct hub_program *p, const struct spoor_control_arena *m, int fd);
/*
 * If an arena comes next, the keeper has it before it is taken from the socket: were we killed in between, it would be
 * nowhere.
 */
void spoor_program_look_ahead(struct hub_program *p);
/* A child says in place of an arena why it can have none. */
void spoor_program_no_arena(struct hub_program *p, uint32_t session, int error, const char *text);
/* What a program left that ended while nobody was there. */
void spoor_program_adopt(struct spoor_hub *h, const struct spoor_kept *k, int fd, enum spoor_program_end end);

/* exit.c */
enum spoor_program_end spoor_exit_of(pid_t pid, int pidfd);

/*
 * hub_gone.c: the source's program is gone, and all that it wrote was taken; frees the source. The keeper is to let go
 * of its buffers once it is written how it ended: a recorder that is killed before leaves that to the next one.
 */
void spoor_hub_gone(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_source *source,
		    enum spoor_program_end end);
void spoor_hub_gone_look(struct spoor_hub *h, struct spoor_ust_session *s); /* what is written, and where it is safe */
void spoor_hub_gone_finish(struct spoor_hub *h, struct spoor_ust_session *s);

/* retired.c: takes the source over. */
void spoor_hub_retire(struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_source *source,
		      enum spoor_program_end end);
void spoor_hub_retired_look(struct spoor_hub *h, struct spoor_ust_session *s); /* those that the relay has are done */
void spoor_hub_retired_finish(struct spoor_hub *h, struct spoor_ust_session *s);
void spoor_hub_retired_forget(struct spoor_ust_session *s); /* the keeper holds them */

/* hub_waiting.c */
void spoor_waiting_came(void *hub, int fd, bool met);
void spoor_waiting_said(void *hub, const void *bytes, size_t size, int fd);
void spoor_waiting_end(void *hub, uint32_t turned_away, int listener, bool accepts);
void spoor_waiting_hear(struct spoor_hub *h); /* what the keeper has told, when that is all */
void spoor_waiting_update(struct spoor_hub *h); /* programs are to wait while there are sessions */
void spoor_waiting_close(struct spoor_hub *h);

/* orphans.c */
void spoor_orphans_begin(struct spoor_hub *h); /* before we listen; what a keeper holds is asked for later */
void spoor_orphans_hear_late(struct spoor_hub *h, int ms); /* what a keeper holds that was slow; or its end */
void spoor_orphans_keeper_ended(struct spoor_hub *h); /* another one goes on */
/* From time to time: where there could be none before; or it had not let go of what was the recorder's before us. */
void spoor_orphans_find_keeper(struct spoor_hub *h, uint64_t now);
void spoor_orphans_look(struct spoor_hub *h, bool at_once);
/* What a program has offered to the recorder before us, and not to us. */
bool spoor_orphans_of(struct spoor_hub *h, struct hub_program *p);
/* What that was called, which the program itself may have overwritten; NULL: there is none. */
const uint8_t *spoor_orphans_uuid(struct spoor_hub *h, struct hub_program *p, uint32_t session);
bool spoor_orphans_had(const struct spoor_hub *h, const uint8_t *uuid); /* its program is gone: it was adopted */
void spoor_orphans_free(struct spoor_hub *h);

/* kick.c */
void spoor_recall_tick(struct spoor_hub *h, uint64_t now);
void spoor_recall_heard(struct spoor_hub *h, uint32_t pid); /* that program, that no session wants it */
int spoor_kick_all(struct spoor_hub *h, struct spoor_hub_request *q);
void spoor_kick(struct hub_program *p); /* not if it would come to the program itself, which does not know of it */
const char *spoor_kick_fails(uint32_t pid); /* why it does not get there, while the process runs; NULL: it does */

/* unreached.c: q NULL: nobody wants to know */
void spoor_unreached_note(struct spoor_hub *h, const struct spoor_hub_request *q, uint32_t pid, const char *why);
void spoor_unreached_tell(struct spoor_hub *h, struct spoor_hub_request *q, uint32_t pid, int result, const char *why);
void spoor_unreached_sum_up(struct spoor_hub_request *q); /* of those that were not named */

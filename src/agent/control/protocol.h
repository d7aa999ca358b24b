/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What a traced program and whoever records it say to each other: messages of fixed sizes over a SOCK_SEQPACKET Unix
 * socket, one message a packet. This is the one definition; docs/formats/ust-control.md tells the story.
 *
 *   program                                       recorder
 *     | -- HELLO -------------------------------->  |  at its start, after fork, or when it was kicked
 *     | <- SETUP, then its RULEs ----------------   |  one for each session that wants it; of none: nothing for you
 *     | -- ARENA + memfd ------------------------>  |  as often as it makes one
 *     | <- SETUP, RULE, RECORD, END -------------   |  while it runs
 *     | -- DONE --------------------------------->  |  one for each of these but END, with its serial
 *
 * Beside its socket the recorder keeps a file, the board, of what it would answer to a HELLO (below): who begins reads
 * it and waits for nobody. Its HELLO has the board's generation for a serial; where that is the present one the
 * recorder sends no SETUPs.
 *
 * A recorder of another version gets a HELLO that it can read (the head never changes), and says so in its DONE.
 * Whoever receives a message of a wrong size or type, or a version that it does not know, closes the connection.
 */
#include <linux/types.h>

#include "agent/core/arena.h"

#define SPOOR_CONTROL_MAGIC 0x43525053U /* "SPRC" */
#define SPOOR_CONTROL_VERSION 3
#define SPOOR_CONTROL_SOCKET "/run/spoor/ust.sock" /* the machine's daemon */
#define SPOOR_CONTROL_USER_SOCKET "spoor-ust.sock" /* a user's: in $XDG_RUNTIME_DIR */
#define SPOOR_CONTROL_VARIABLE "SPOOR_UST_SOCKET"  /* a private one: the path; no other is then tried */
#define SPOOR_CONTROL_KICK 0x53504f4f524b494bULL   /* value of the queued SIGURG: "look at your socket" */
#define SPOOR_CONTROL_MAX_SIZE 4096
#define SPOOR_CONTROL_BOARD ".sessions" /* behind the socket's path */
/*
 * Behind the path, too: where who begins while no recorder is there says the same, to a process that understands none
 * of it and gives it, with the connection, to the recorder that comes next.
 */
#define SPOOR_CONTROL_WAITING ".waiting"
/* There as long as there are sessions, whether or not a recorder is. */
#define SPOOR_CONTROL_STATE ".state"
#define SPOOR_CONTROL_BOARD_MAGIC 0x42525053U /* "SPRB" */
#define SPOOR_CONTROL_BOARD_NOTES 64 /* offset of the first note */

enum spoor_control_type {
	SPOOR_CONTROL_HELLO = 1,
	SPOOR_CONTROL_ARENA = 2,
	SPOOR_CONTROL_DONE = 3,
	SPOOR_CONTROL_SETUP = 16,
	SPOOR_CONTROL_RULE = 17,
	SPOOR_CONTROL_RECORD = 18,
	SPOOR_CONTROL_END = 19,
	SPOOR_CONTROL_ROWS = 24,
	SPOOR_CONTROL_COMMAND = 32, /* `spoor ust`: words, each to its NUL; answered by TEXTs, the last with `last` */
	SPOOR_CONTROL_TEXT = 33,
};

struct spoor_control_head {
	__u32 magic;
	__u16 version;
	__u16 type;   /* enum spoor_control_type */
	__u32 size;   /* of the whole message */
	/*
	 * Of DONE: that of what is done; of HELLO: the board's it follows, 0: none; of ARENA: the last change known; of
	 * ROWS: the id of the object's definition.
	 */
	__u32 serial;
};

enum spoor_control_hello_flag {
	SPOOR_HELLO_KICKED = 1, /* it runs since long: it was asked to come */
	SPOOR_HELLO_ALONE = 4,  /* it will have no listener: it is to be kicked whenever there is something for it */
	SPOOR_HELLO_FORKED = 2, /* a child that goes on under its parent's rules: it needs no SETUP for those */
	SPOOR_HELLO_STRANGER = 8, /* it does not obey this recorder, who is to count it; it hangs up */
};

struct spoor_control_hello {
	struct spoor_control_head head;
	__u32 arena_version; /* SPOOR_ARENA_VERSION */
	__u32 flags;
	__u32 pid; /* as it sees itself; the kernel tells the recorder the true one */
	__u32 n_sites;
	__u64 start_time;
	__u32 n_arenas; /* FORKED: ARENAs that follow at once; or DONEs, serial: of which session, why there is none */
	__u32 n_stuck;  /* of n_sites: how many cannot be switched on, since this process's code cannot be written */
	char comm[16];
	char exe[256]; /* cut */
};

enum spoor_control_arena_flag {
	SPOOR_ARENA_LATE = 1,    /* main() had begun before the recorder answered: what it did until then is missing */
	SPOOR_ARENA_STOPPED = 2, /* of a child: it does not record, as its parent did not */
	SPOOR_ARENA_FORKED = 4,  /* it is one of those that a HELLO with FORKED told of */
};

/* With the arena's memfd, sealed against shrinking. */
struct spoor_control_arena {
	struct spoor_control_head head;
	__u8 uuid[16];
	__u32 session; /* of the SETUP that it was made for, by the program or by whom it was forked from */
	__u32 flags;   /* enum spoor_control_arena_flag */
};

enum spoor_control_done_about {                        /* what the text of one that succeeded is about */
				SPOOR_DONE_SITES = 0,  /* this program's sites */
				SPOOR_DONE_FIELDS = 1, /* the filter names a field that none of the events has here */
				SPOOR_DONE_ALONE = 2,  /* no answer: it could have no listener after all */
};

struct spoor_control_done {
	struct spoor_control_head head;
	__s32 result;   /* what was asked: number of sites that it concerned, or -errno */
	__u32 about;    /* enum spoor_control_done_about */
	char text[240]; /* of a failure: why; else what there is to be said of it, mostly nothing */
};

struct spoor_control_channel {
	char name[32];
	__u32 mode;        /* enum spoor_arena_mode */
	__u32 packet_size; /* bytes; 0: as the program thinks best */
	__u32 share;       /* of the buffers; those of all channels are added up */
	__u32 block_us;
	__u32 contexts; /* enum spoor_arena_context */
	__u16 stack_mode;   /* enum spoor_stack_mode */
	__u16 stack_budget; /* call sites; 0: as many as by default */
	__u32 reserved[2];
};

enum spoor_control_setup_flag {
	SPOOR_SETUP_RECORD = 2, /* record from now on; else the rules wait for a RECORD */
};

struct spoor_control_setup {
	struct spoor_control_head head;
	__u32 flags;
	__u32 n_rules;
	__u64 buffers;    /* bytes of an arena; 0: default */
	__u32 n_channels; /* 1 .. 8 */
	__u32 session;    /* the recorder's number of it; 0: none wants the program */
	__u16 left;       /* so many SETUPs answer the same HELLO behind this one */
	__u16 answers;    /* it is one of those that answer a HELLO; sessions that none of them names are over */
	__u32 change;     /* of what was said of the session the last that is in it */
	struct spoor_control_channel channels[SPOOR_ARENA_MAX_CHANNELS];
};

/*
 * A session's rules are kept in the order in which they came, and each is applied to the sites that are there and that
 * come (dlopen): of the rules for a channel that a site matches, the last decides whether its events go there.
 */
struct spoor_control_rule {
	struct spoor_control_head head;
	__u32 session;
	__u8 enable;   /* 0: disable */
	__u8 channels; /* a bit for each */
	__u8 level;    /* sites of a level up to this number (0 emergency .. 14 debug); 255: any */
	__u8 kind;     /* 0: any; else 1 + enum spoor_def_kind */
	__u32 change;  /* the session's number of what it says: the later the higher */
	char pattern[256]; /* glob of "provider:name": * and ? */
	char filter[500];  /* expression over the event's fields (agent/ust/filter_core.h); "": none */
};

struct spoor_control_record {
	struct spoor_control_head head;
	__u32 session;
	__u32 on;
	__u32 change; /* as of a RULE */
	__u32 reserved;
};

struct spoor_control_end { /* the session is over: its arena is ended and forgotten */
	struct spoor_control_head head;
	__u32 session;
	__u32 reserved;
};

/*
 * How to walk through an object that the program's arena defines: with a memfd of its rows (unwind/row_layout.h),
 * sealed against shrinking and writing; without one, it has none: frame pointers. Not answered.
 */
struct spoor_control_rows {
	struct spoor_control_head head;
	__u64 start, end, bias; /* as in struct spoor_def_object; all 0: code of no object is meant */
	__u32 session;          /* whose call sites are meant by: */
	__u16 app;              /* 1: it is the application's own code */
	__u16 limit;            /* SPOOR_STACK_CUSTOM: call sites to take of it */
};

/*
 * The board: replaced as a whole (by rename), and of each session a SETUP with its RULEs behind it. A process takes the
 * rules for all and for itself; `n_rules` of the SETUPs are those of all processes. Their serials are the sessions'.
 * RECORDs may follow, of single processes: they say of these, in place of the SETUP, whether to record.
 *
 *   0                    64                   864
 *   +--------------------+--------------------+--------------------+--
 *   | board              | note: SETUP        | note: RULE         | ...
 *   +--------------------+--------------------+--------------------+--
 */
struct spoor_control_board {
	__u32 magic;
	__u16 version; /* SPOOR_CONTROL_VERSION */
	__u8 single;   /* there are rules for single processes */
	__u8 passing;  /* the recorder is of one command: if it is killed none comes after it */
	__u32 generation; /* never 0, another one each time */
	__u32 n_notes;
	__u64 beat; /* CLOCK_MONOTONIC ns at which the recorder was at work; live: it is written ten times a second */
};

struct spoor_control_note {
	__u32 pid; /* of a RULE, or a RECORD: the host's; 0: for all */
	__u32 reserved;
	__u64 start_time; /* of that process, clock ticks since boot */
	union {
		struct spoor_control_head head;
		struct spoor_control_setup setup;
		struct spoor_control_rule rule;
		struct spoor_control_record record;
	};
};

struct spoor_control_text {
	struct spoor_control_head head;
	__u32 last;
	__s32 result; /* of the last one: 0 or -errno */
	char text[];  /* to the message's end, no NUL */
};

_Static_assert(sizeof(struct spoor_control_head) == 16, "");
_Static_assert(sizeof(struct spoor_control_hello) == 16 + 32 + 16 + 256, "");
_Static_assert(sizeof(struct spoor_control_channel) == 64, "");
_Static_assert(sizeof(struct spoor_control_setup) == 16 + 32 + 8 * 64, "");
_Static_assert(sizeof(struct spoor_control_rule) == 16 + 12 + 256 + 500, "");
_Static_assert(sizeof(struct spoor_control_note) == 16 + 784, "");
_Static_assert(sizeof(struct spoor_control_rows) == 16 + 24 + 8, "");

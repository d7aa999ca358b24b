/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What a traced program and whoever records it say to each other: messages of fixed sizes over a SOCK_SEQPACKET Unix
 * socket, one message a packet. This is the one definition; docs/formats/ust-control.md tells the story.
 *
 *   program                                       recorder
 *     | -- HELLO -------------------------------->  |  at its start, after fork, or when it was kicked
 *     | <- SETUP, then its RULEs ----------------   |  SETUP.n_rules of them; 0 and no flag: nothing for you
 *     | -- ARENA + memfd ------------------------>  |  as often as it makes one
 *     | <- RULE, RECORD, END --------------------   |  while it runs
 *     | -- DONE --------------------------------->  |  one for each of these, with its serial
 *
 * A recorder of another version gets a HELLO that it can read (the head never changes), and says so in its DONE.
 * Whoever receives a message of a wrong size or type, or a version that it does not know, closes the connection.
 */
#include <linux/types.h>

#include "agent/core/arena.h"

#define SPOOR_CONTROL_MAGIC 0x43525053U /* "SPRC" */
#define SPOOR_CONTROL_VERSION 1
#define SPOOR_CONTROL_SOCKET "/run/spoor/ust.sock"     /* the machine's daemon */
#define SPOOR_CONTROL_USER_SOCKET "spoor-ust.sock"     /* a user's: in $XDG_RUNTIME_DIR */
#define SPOOR_CONTROL_VARIABLE "SPOOR_UST_SOCKET"      /* a private one: the path; no other is then tried */
#define SPOOR_CONTROL_KICK 0x53504f4f524b494bULL       /* value of the queued SIGURG: "look at your socket" */
#define SPOOR_CONTROL_MAX_SIZE 4096

enum spoor_control_type {
	SPOOR_CONTROL_HELLO = 1,
	SPOOR_CONTROL_ARENA = 2,
	SPOOR_CONTROL_DONE = 3,
	SPOOR_CONTROL_SETUP = 16,
	SPOOR_CONTROL_RULE = 17,
	SPOOR_CONTROL_RECORD = 18,
	SPOOR_CONTROL_END = 19,
	SPOOR_CONTROL_COMMAND = 32, /* `spoor ust`: a line of text; answered by TEXTs, the last with `last` */
	SPOOR_CONTROL_TEXT = 33,
};

struct spoor_control_head {
	__u32 magic;
	__u16 version;
	__u16 type;   /* enum spoor_control_type */
	__u32 size;   /* of the whole message */
	__u32 serial; /* of DONE: that of what is done */
};

enum spoor_control_hello_flag {
	SPOOR_HELLO_KICKED = 1, /* it runs since long: it was asked to come */
	SPOOR_HELLO_FORKED = 2, /* a child that goes on under its parent's rules: it needs no SETUP */
};

struct spoor_control_hello {
	struct spoor_control_head head;
	__u32 arena_version; /* SPOOR_ARENA_VERSION */
	__u32 flags;
	__u32 pid; /* as it sees itself; the kernel tells the recorder the true one */
	__u32 n_sites;
	__u64 start_time;
	__u32 session; /* FORKED: of the SETUP that its parent had */
	__u32 n_stuck; /* of n_sites: how many cannot be switched on, since this process's code cannot be written */
	char comm[16];
	char exe[256]; /* cut */
};

/* With the arena's memfd, sealed against shrinking. */
struct spoor_control_arena {
	struct spoor_control_head head;
	__u8 uuid[16];
};

struct spoor_control_done {
	struct spoor_control_head head;
	__s32 result; /* what was asked: number of sites that it concerned, or -errno */
	__u32 reserved;
	char text[240]; /* of a failure: why; else what there is to be said of it, mostly nothing */
};

struct spoor_control_channel {
	char name[32];
	__u32 mode;        /* enum spoor_arena_mode */
	__u32 packet_size; /* bytes; 0: as the program thinks best */
	__u32 share;       /* of the buffers; those of all channels are added up */
	__u32 block_us;
	__u32 contexts; /* enum spoor_arena_context */
	__u32 reserved[3];
};

enum spoor_control_setup_flag {
	SPOOR_SETUP_LISTEN = 1, /* a session applies: start the listener, if threads can be started here */
	SPOOR_SETUP_RECORD = 2, /* record from now on; else the rules wait for a RECORD */
};

struct spoor_control_setup {
	struct spoor_control_head head;
	__u32 flags;
	__u32 n_rules;
	__u64 buffers; /* bytes of an arena; 0: default */
	__u32 n_channels; /* 1 .. 8 */
	__u32 session;    /* the recorder's number of it */
	struct spoor_control_channel channels[SPOOR_ARENA_MAX_CHANNELS];
};

/*
 * Rules are kept in the order in which they came, and each is applied to the sites that are there and that come
 * (dlopen): of the rules that a site matches, the last decides.
 */
struct spoor_control_rule {
	struct spoor_control_head head;
	__u8 enable;  /* 0: disable */
	__u8 channel; /* index */
	__u8 level;   /* sites of a level up to this number (0 emergency .. 14 debug); 255: any */
	__u8 kind;    /* 0: any; else 1 + enum spoor_def_kind */
	__u32 reserved;
	char pattern[256]; /* glob of "provider:name": * and ? */
	char filter[504];  /* expression over the event's fields; "": none */
};

struct spoor_control_record {
	struct spoor_control_head head;
	__u32 on;
	__u32 reserved;
};

/* The session is over: sites off, the arena ended and forgotten. It consists of the head alone. */

struct spoor_control_text {
	struct spoor_control_head head;
	__u32 last;
	__s32 result; /* of the last one: 0 or -errno */
	char text[];  /* to the message's end, no NUL */
};

_Static_assert(sizeof(struct spoor_control_head) == 16, "");
_Static_assert(sizeof(struct spoor_control_hello) == 16 + 32 + 16 + 256, "");
_Static_assert(sizeof(struct spoor_control_channel) == 64, "");
_Static_assert(sizeof(struct spoor_control_setup) == 16 + 24 + 8 * 64, "");
_Static_assert(sizeof(struct spoor_control_rule) == 16 + 8 + 256 + 504, "");

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What a sender and a relay say to each other, over one connection for each trace: docs/formats/relay.md. Numbers are
 * little-endian. Every message begins with a head; that and the first two members of HELLO, WELCOME and REFUSE are the
 * same in all versions.
 *
 *   sender                                  relay
 *   HELLO        who, which trace     -->
 *                                     <--   WELCOME    what it has carried out; to go on: DIGEST ...
 *   operations   numbered, in order   -->
 *                                     <--   ACK        all up to this number are carried out
 *                                     <--   WAIT       not now (its disk is full); it tries again by itself
 *   PING                              -->   PONG
 *                                     <--   REFUSE     and the end
 */
#include <stddef.h>
#include <stdint.h>

#define SPOOR_RELAY_MAGIC "SPOORREL"
#define SPOOR_RELAY_VERSION 3
#define SPOOR_RELAY_PORT "7176"
#define SPOOR_RELAY_DATA (128u << 10) /* of one message, at most */
#define SPOOR_RELAY_NAME 128          /* of a trace, with its NUL */
#define SPOOR_RELAY_HOST 64
#define SPOOR_RELAY_WINDOW (16ULL << 30) /* a sender's is no larger */

enum spoor_relay_type {
	SPOOR_RELAY_HELLO = 1,
	SPOOR_RELAY_WELCOME,
	SPOOR_RELAY_REFUSE,
	SPOOR_RELAY_DIGEST,
	SPOOR_RELAY_ACK,
	SPOOR_RELAY_WAIT,
	SPOOR_RELAY_PING,
	SPOOR_RELAY_PONG,
	/* operations: struct spoor_relay_op */
	SPOOR_RELAY_SEGMENT = 16,
	SPOOR_RELAY_METADATA,
	SPOOR_RELAY_READY,
	SPOOR_RELAY_PACKET,
	SPOOR_RELAY_MANIFEST,
	SPOOR_RELAY_DROP,
	SPOOR_RELAY_END,
	SPOOR_RELAY_TYPE_MAX,
};

struct spoor_relay_head {
	uint32_t size; /* of the message, with this */
	uint16_t type;
	uint16_t zero;
	uint64_t number; /* of an operation: 1, 2, 3 ...; ACK: the last one that was carried out; else 0 */
};

enum { SPOOR_RELAY_BEGIN = 1, SPOOR_RELAY_RESUME };

struct spoor_relay_hello {
	struct spoor_relay_head head;
	char magic[8];
	uint32_t version;
	uint32_t kind;           /* BEGIN: a new trace, or the same sender once more; RESUME: another sender's */
	uint8_t token[16];       /* secret: whose trace it is */
	uint8_t incarnation[16]; /* which sender: numbers of operations are its own */
	uint8_t boot_id[16];
	uint64_t acked;  /* the last operation of which it knows that it was carried out */
	uint64_t window; /* bytes that it can have on the way */
	uint32_t parts;  /* a bit for each: kernel, ust */
	uint32_t zero;
	char host[SPOOR_RELAY_HOST]; /* fit for a file's name */
	char name[SPOOR_RELAY_NAME]; /* NAME.spoor, likewise */
};

struct spoor_relay_welcome {
	struct spoor_relay_head head;
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t applied;            /* the last operation that was carried out */
	char name[SPOOR_RELAY_NAME]; /* that it has: another one if its own was taken */
};

struct spoor_relay_refuse { /* WAIT, too */
	struct spoor_relay_head head;
	char magic[8];
	uint32_t version;
	uint32_t error; /* errno */
	char text[256];
};

struct spoor_relay_digest {
	struct spoor_relay_head head;
	uint64_t last; /* 1: the digest is whole with this */
	uint8_t data[];
};

struct spoor_relay_op {
	struct spoor_relay_head head;
	uint16_t part, instance;
	uint32_t segment;
	uint64_t offset;
	uint64_t flag; /* MANIFEST: the last piece; END: in order */
	uint8_t data[];
};

#define SPOOR_RELAY_MOST (sizeof(struct spoor_relay_op) + SPOOR_RELAY_DATA)

/* The head of a message of which at least the head is there: its size, or -EBADMSG: none can begin so. */
int spoor_relay_size(const void *head);
/*
 * A whole message. 0; -EBADMSG: it makes no sense. Strings of fixed fields end with a NUL then. Of another version:
 * -EPROTO for HELLO and WELCOME; REFUSE is understood whatever its version is.
 */
int spoor_relay_check(const void *message, size_t size);
/* May it be a file's name: 1 to max - 1 letters, digits, '.', '-', '_', the first one no '.'? */
int spoor_relay_is_name(const char *name, size_t max);
/* Makes it one. */
void spoor_relay_make_name(const char *from, char *to, size_t max);
/* A host's, which is a directory's in its traces, too. */
void spoor_relay_make_host(const char *from, char to[SPOOR_RELAY_HOST]);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Spoor's own events as data (schema.def), and the CTF metadata of a trace. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/record.h"

/* X64: shown in hex. BYTES_LEN: as many bytes as the field `len` says; FRAMES: as many frames as `n` says. */
#define SPOOR_FIELD_TYPES(X) \
	X(U8) X(U16) X(U32) X(U64) X(S32) X(S64) X(X64) X(X64_6) X(BYTES_4) X(BYTES_16) X(BYTES_32) X(TEXT_16) \
	X(STRING) X(BYTES_LEN) X(FRAMES)
#define SPOOR_FIELD_ENUM(t) SPOOR_FIELD_##t,
enum spoor_field_type { SPOOR_FIELD_TYPES(SPOOR_FIELD_ENUM) SPOOR_FIELD_TYPE_MAX };

struct spoor_schema_field {
	const char *name; /* also the name in JSON and CTF */
	const char *doc;
	uint16_t offset; /* bytes from the event's begin */
	uint8_t type;    /* enum spoor_field_type */
};

struct spoor_schema_event {
	const char *name; /* in CTF and JSON it is "spoor:" name */
	const char *doc;
	uint16_t id;       /* enum spoor_event_id */
	uint16_t min_size; /* bytes of the fixed part */
	uint16_t n_fields;
	const struct spoor_schema_field *fields;
};

/* NULL unless id is one of Spoor's own events. */
const struct spoor_schema_event *spoor_schema_event(unsigned id);
/* Version of the format. docs/formats/trace.md says what may change without a new one. */
#define SPOOR_TRACE_VERSION 2

/* The packet's header and context: what stands in front of the events in a stream file. Little endian. */
#define SPOOR_PACKET_MAGIC 0xC1FC1FC1u
struct spoor_packet {
	uint32_t magic;
	uint8_t uuid[16]; /* spoor_part_uuid(): the same in all segments of a part */
	uint32_t stream_id;
	uint64_t stream_instance_id;
	uint64_t ts_begin, ts_end;
	uint64_t content_size, packet_size; /* bits, this header included */
	uint64_t seq;                       /* per stream instance, from 0, through all segments */
	uint64_t discarded;                 /* per stream instance, total since the recording began */
	uint32_t cpu;
	uint32_t segment;
};
_Static_assert(sizeof(struct spoor_packet) == 88, "");

/* Bytes from a packet's begin to what stands behind its events: those are multiples of 4, it begins at one of 8. */
static inline uint64_t spoor_packet_behind(const struct spoor_packet *p)
{
	return (p->content_size / 8 + 7) & ~7ULL;
}

/* Stream classes. Each part has one, and all of its packets are of that one. */
#define SPOOR_STREAM_KERNEL 0
#define SPOOR_STREAM_UST 1

/*
 * In the part `ust` lanes take the place of CPUs, `cpu` is the vtid of the one thread that the packet is of (0: of
 * several), and behind the events, from spoor_packet_behind() to packet_size, stands where they were taken from: a
 * consumer that is started again finds what is written already. (There readers of CTF do not look, and do not show it.)
 */
struct spoor_packet_source {
	uint8_t arena[16]; /* identity of the buffer */
	uint64_t serial;   /* of the buffer's packet */
	uint64_t position; /* bytes of that packet which have been written, this one's included */
};
_Static_assert(sizeof(struct spoor_packet_source) == 32, "");
#define SPOOR_SOURCE_LOST 0 /* no packet's serial: position is how many of its losses lanes have counted by now */
#define SPOOR_SOURCE_EVENTS 0 /* of no arena (all 0): position is how many events have been written, these included */
/* Nor this: position is how many of its events newer ones have overwritten; of no arena: of all programs' events. */
#define SPOOR_SOURCE_OVERWRITTEN UINT64_MAX
/* Nor this: position is how many events of its overwriting channels are in the trace, with this packet. */
#define SPOOR_SOURCE_TAKEN (UINT64_MAX - 1)
/* Nor this, of no arena: position is how many events found no place in any lane, since they came too late. */
#define SPOOR_SOURCE_LATE (UINT64_MAX - 2)
/* Nor this, of no arena: position is how many events are lost since their class has no description that makes sense. */
#define SPOOR_SOURCE_UNDESCRIBED (UINT64_MAX - 3)
static inline int spoor_source_is_count(const struct spoor_packet_source *s)
{
	return s->serial == SPOOR_SOURCE_LOST || s->serial >= SPOOR_SOURCE_UNDESCRIBED;
}
#define SPOOR_MAX_SOURCES 16384
#define SPOOR_MAX_LANES 64

#define SPOOR_INSTANCE_LEVEL 4096 /* cpuN.L is stream instance N + L * this */
#define SPOOR_MAX_CPUS 4096
#define SPOOR_MAX_LEVELS 8
/*
 * Definitions of segment S: two instances in turn, because while a segment hands over to the next both are written
 * to, and packets of one instance must not overlap.
 */
#define SPOOR_INSTANCE_DEFS(segment) (65534u + ((segment) & 1))

struct spoor_metadata {
	const uint8_t *uuid, *boot_id; /* 16 bytes each */
	uint64_t epoch_offset;         /* ns to add to CLOCK_MONOTONIC */
	const char *hostname, *release, *domain;
	unsigned stream_id; /* SPOOR_STREAM_KERNEL, SPOOR_STREAM_UST */
};
/* The parts of a trace have uuids of their own, for readers of CTF take what has one uuid for one trace. */
void spoor_part_uuid(const uint8_t recording[16], unsigned stream_id, uint8_t ret[16]);
/* A string literal in it: quotes and backslashes are escaped; control characters and what is no UTF-8 become '?'. */
void spoor_put_literal(FILE *f, const char *s);
/* CTF 1.8 text. free() *ret. Returns 0 or -ENOMEM. */
int spoor_schema_metadata(const struct spoor_metadata *m, char **ret, size_t *ret_len);
/* The one event class of this id in it; empty if there is none. free() *ret. */
int spoor_schema_class(unsigned id, unsigned stream_id, char **ret, size_t *ret_len);
/* The table for docs/formats/trace.md (Markdown). free() *ret. */
int spoor_schema_document(char **ret);

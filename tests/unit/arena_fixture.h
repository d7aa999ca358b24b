/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* An arena of our own making, in memory: what a program would have written. One channel, two kinds of events. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/arena.h"
#include "collect/user/arena.h"
#include "trace/record.h"

#define ARENA_PACKET 4096
#define ARENA_DEFS 1024
#define CLASS_INTS 1 /* s32 a, u64 b in hex */
#define CLASS_TEXT 2 /* string s, sequence of u16 */

struct made_arena {
	uint8_t *base;
	size_t size;
	unsigned n_packets;
};

static inline struct spoor_arena *arena_head(struct made_arena *m)
{
	return (void *)m->base;
}

static inline struct spoor_arena_packet *arena_packet(struct made_arena *m, unsigned i)
{
	return (struct spoor_arena_packet *)(m->base + arena_head(m)->headers_offset) + i;
}

static inline uint8_t *arena_data(struct made_arena *m, unsigned i)
{
	return m->base + arena_head(m)->data_offset + i * ARENA_PACKET;
}

static inline size_t put_text(uint8_t *to, const char *s)
{
	memcpy(to, s, strlen(s) + 1);
	return strlen(s) + 1;
}

static inline size_t put_field(uint8_t *to, struct spoor_def_field f, const char *name)
{
	f.size = (sizeof(f) + strlen(name) + 1 + 7) & ~7UL;
	memcpy(to, &f, sizeof(f));
	put_text(to + sizeof(f), name);
	return f.size;
}

static inline void arena_define(struct made_arena *m, unsigned id, const char *name,
				const struct spoor_def_field *fields, const char *const *names, unsigned n)
{
	struct spoor_arena *h = arena_head(m);
	uint8_t *at = m->base + h->defs_offset + h->defs_used;
	struct spoor_def_class d = {
		.def = { .type = SPOOR_DEF_CLASS, .id = id }, .level = 6, .n_fields = n, .line = 17
	};
	size_t len = sizeof(d);

	len += put_text(at + len, "zoo");
	len += put_text(at + len, name);
	len += put_text(at + len, "zoo.c");
	len += put_text(at + len, "feed");
	len += put_text(at + len, "");
	len = (len + 7) & ~7UL;
	d.text_size = len - sizeof(d);
	for (unsigned i = 0; i < n; i++)
		len += put_field(at + len, fields[i], names[i]);
	d.def.size = len;
	memcpy(at, &d, sizeof(d));
	h->defs_used += len;
}

static inline void arena_lay_out(struct made_arena *m, unsigned n_packets)
{
	struct spoor_arena *h;

	m->n_packets = n_packets;
	m->size = 4096 + ARENA_DEFS + n_packets * (sizeof(struct spoor_arena_packet) + ARENA_PACKET);
	m->base = aligned_alloc(1024, (m->size + 1023) / 1024 * 1024);
	memset(m->base, 0, m->size);
	h = arena_head(m);
	h->magic = SPOOR_ARENA_MAGIC;
	h->version = SPOOR_ARENA_VERSION;
	h->state = SPOOR_ARENA_LIVE;
	h->size = m->size;
	memset(h->uuid, 0x5a, 16);
	h->pid = 4000000;
	h->clock = SPOOR_ARENA_MONOTONIC;
	h->made = 1000;
	h->realtime = 1700000000000001000;
	h->n_channels = 1;
	h->n_packets = n_packets;
	h->defs_offset = 4096;
	h->defs_size = ARENA_DEFS;
	h->headers_offset = 4096 + ARENA_DEFS;
	h->data_offset = h->headers_offset + n_packets * sizeof(struct spoor_arena_packet);
	strcpy(h->comm, "zoo");
	strcpy(h->exe, "/usr/bin/zoo");
	strcpy(h->channels[0].name, "default");
	h->channels[0].packet_size = ARENA_PACKET;
	h->channels[0].n_packets = n_packets;
	h->serial = 1;
}

static inline struct made_arena arena_make(unsigned n_packets)
{
	static const struct spoor_def_field ints[] = {
		{ .type = SPOOR_DEF_INT, .bytes = 4, .base = 10, .flags = SPOOR_DEF_SIGNED },
		{ .type = SPOOR_DEF_INT, .bytes = 8, .base = 16 } };
	static const struct spoor_def_field text[] = {
		{ .type = SPOOR_DEF_STRING, .bytes = 1 },
		{ .type = SPOOR_DEF_INT, .shape = SPOOR_DEF_SEQUENCE, .bytes = 2, .base = 10 } };
	struct made_arena m;

	arena_lay_out(&m, n_packets);
	arena_define(&m, CLASS_INTS, "ints", ints, (const char *const[]){ "a", "b" }, 2);
	arena_define(&m, CLASS_TEXT, "text", text, (const char *const[]){ "s", "q" }, 2);
	return m;
}

/* A packet of thread tid. */
static inline void arena_open(struct made_arena *m, unsigned i, unsigned state, uint32_t tid)
{
	struct spoor_arena_packet *p = arena_packet(m, i);

	p->owner = SPOOR_OWNER(1, 0, state, tid);
	p->serial = p->begun = arena_head(m)->serial++;
	p->committed = p->consumed = 0;
}

static inline void arena_event(struct made_arena *m, unsigned i, uint64_t ts, unsigned id, const void *body, size_t len)
{
	struct spoor_arena_packet *p = arena_packet(m, i);
	uint8_t *at = arena_data(m, i) + p->committed;
	struct spoor_event_header h = { .ts = ts, .id = id, .size4 = (sizeof(h) + len + 7) / 8 * 2, .tid = p->owner };

	memset(at, 0, spoor_event_size(&h));
	memcpy(at, &h, sizeof(h));
	memcpy(at + sizeof(h), body, len);
	p->committed += spoor_event_size(&h);
}

static inline void arena_ints(struct made_arena *m, unsigned i, uint64_t ts, int32_t a, uint64_t b)
{
	uint8_t body[12];

	memcpy(body, &a, 4);
	memcpy(body + 4, &b, 8);
	arena_event(m, i, ts, CLASS_INTS, body, sizeof(body));
}

static inline void arena_text(struct made_arena *m, unsigned i, uint64_t ts, const char *s, unsigned n)
{
	uint8_t body[256];
	size_t len = put_text(body, s);

	memcpy(body + len, &(uint16_t){ n }, 2);
	len += 2;
	for (unsigned k = 0; k < n; k++, len += 2)
		memcpy(body + len, &(uint16_t){ k }, 2);
	arena_event(m, i, ts, CLASS_TEXT, body, len);
}

/* As a consumer sees it; it stays the caller's. */
static inline int open_made(struct made_arena *m, struct spoor_user_arena **ret, struct spoor_error *e)
{
	uint8_t *copy = malloc(m->size);

	memcpy(copy, m->base, m->size);
	return spoor_user_arena_own(copy, m->size, ret, e);
}

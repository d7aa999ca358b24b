/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A reading position in untrusted bytes. Reading past the end gives zeros and sets `bad`, which stays set, so that a
 * caller may read a whole record and ask once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline size_t cursor_left(const struct cursor *c)
{
	return c->end - c->at;
}

static inline const uint8_t *cursor_skip(struct cursor *c, uint64_t n)
{
	const uint8_t *at = c->at;

	if (n > cursor_left(c)) {
		c->bad = true;
		c->at = c->end;
		return NULL;
	}
	c->at += n;
	return at;
}

#define CURSOR_READ(name, type) \
	static inline type name(struct cursor *c) \
	{ \
		const uint8_t *from = cursor_skip(c, sizeof(type)); \
		type v = 0; \
		if (from) \
			memcpy(&v, from, sizeof(v)); \
		return v; \
	}
CURSOR_READ(cursor_u8, uint8_t)
CURSOR_READ(cursor_u16, uint16_t)
CURSOR_READ(cursor_u32, uint32_t)
CURSOR_READ(cursor_u64, uint64_t)
#undef CURSOR_READ

/* DWARF 5 section 7.6. Bits above 64 are dropped. */
static inline uint64_t cursor_uleb(struct cursor *c)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(c);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return v;
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(c);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		v |= -(uint64_t)1 << shift;
	return v;
}

/* The next n bytes as a cursor of their own. */
static inline struct cursor cursor_sub(struct cursor *c, uint64_t n)
{
	const uint8_t *from = cursor_skip(c, n);

	return from ? (struct cursor){ from, from + n, false } : (struct cursor){ c->end, c->end, true };
}

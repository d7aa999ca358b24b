/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Reading a ring from user space: record by record, where they lie, up to where the kernel was when it began. What was
 * read is given back in one go.
 */
#include <stdbool.h>
#include <stdint.h>

#include "collect/kernel/kernel.h"

struct spoor_ring_reader {
	struct spoor_ring *ring;
	uint64_t mask;
	uint64_t at, to; /* bytes since ever */
	bool damaged;    /* what lay there made no sense: the rest was passed over */
};

static inline struct spoor_ring_reader spoor_ring_begin(const struct spoor_kernel *k, struct spoor_ring *ring)
{
	return (struct spoor_ring_reader){
		.ring = ring,
		.mask = k->ring_size - 1,
		.at = ring->tail,
		.to = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE),
	};
}

/* Where the record after h begins. One that reached the ring's end is followed by the next lap. */
static inline uint64_t spoor_ring_after(const struct spoor_ring_reader *r, const struct spoor_event_header *h)
{
	uint64_t size = spoor_event_size(h);

	return (r->at & r->mask) + size > r->mask ? (r->at | r->mask) + 1 : r->at + size;
}

/* The next record, or NULL: that was all. */
static inline const struct spoor_event_header *spoor_ring_peek(struct spoor_ring_reader *r)
{
	const uint8_t *data = (const uint8_t *)r->ring + SPOOR_RING_DATA;
	const struct spoor_event_header *h = (const void *)(data + (r->at & r->mask));

	if (r->at >= r->to)
		return NULL;
	if (spoor_event_size(h) >= sizeof(*h) && spoor_ring_after(r, h) <= r->to)
		return h;
	r->damaged = true; /* never seen; but nothing must hang on it */
	r->at = r->to;
	return NULL;
}

/* Passes over the record just peeked at. */
static inline void spoor_ring_skip(struct spoor_ring_reader *r, const struct spoor_event_header *h)
{
	r->at = spoor_ring_after(r, h);
}

/* Gives the room of what was passed over back to the kernel. Returns how many bytes. */
static inline uint64_t spoor_ring_release(struct spoor_ring_reader *r)
{
	uint64_t n = r->at - r->ring->tail;

	__atomic_store_n(&r->ring->tail, r->at, __ATOMIC_RELEASE);
	return n;
}

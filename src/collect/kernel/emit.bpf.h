/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * The transport: reserve room in this CPU's ring, write the event in its final form, commit.
 *
 * System call, scheduler and process tracepoints run with preemption off, so on one CPU a producer is interrupted
 * only by what uses another level's ring. Hence plain loads and stores. Should that ever not hold, `busy` refuses the
 * inner one and counts it. Everything about the transport is in this file: an overwriting ring needs no change
 * elsewhere.
 */
#include "collect/kernel/maps.bpf.h"

#define barrier() asm volatile("" ::: "memory")

struct reservation {
	struct spoor_ring *ring;
	u8 *to;
};

static __always_inline struct spoor_ring *ring_of(u32 level)
{
	u32 key = bpf_get_smp_processor_id() * SPOOR_LEVELS + level;

	return bpf_map_lookup_elem(&rings, &key);
}

static __always_inline void wake_consumer(void)
{
	u64 one = 1;

	bpf_ringbuf_output(&wakeups, &one, sizeof(one), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void ring_commit(struct spoor_ring *ring, u32 size)
{
	u64 old = ring->head, new = old + size;

	if ((old & ring_mask) + size > ring_mask)
		new = (old | ring_mask) + 1;
	barrier(); /* the record before the head that shows it; x86 keeps stores in order */
	*(volatile u64 *)&ring->head = new;
	if ((old ^ new) & ~(ring_mask >> 2))
		wake_consumer();
}

/* What producers may write behind the end of a record, because they copy by words of a fixed number. */
#define RING_MARGIN 192

static __always_inline u8 *ring_room(struct spoor_ring *ring, u32 size)
{
	if (ring->head + size + RING_MARGIN - *(volatile u64 *)&ring->tail > ring_mask + 1)
		return NULL;
	return (u8 *)ring + SPOOR_RING_DATA + (ring->head & ring_mask);
}

/* Raw stacks, a hundred times larger than events, and what can be told later leave a quarter of the ring to them. */
static __always_inline bool ring_takes_more(u32 level)
{
	struct spoor_ring *ring = ring_of(level);

	return ring && ring->head - *(volatile u64 *)&ring->tail < ring_mask / 4 * 3;
}

/* size: a multiple of 4. */
static __always_inline void emit_header(void *to, u16 id, u16 flags, u32 size, u32 tid, u64 ts)
{
	struct spoor_event_header *h = to;
	u32 *words = (u32 *)((u8 *)h + sizeof(h->ts));

	h->ts = ts;
	words[0] = id | size << 14;         /* id, size4 */
	words[1] = tid | (u32)flags << 29;
}

/* The first record after a change of segment says so: the consumer cuts this ring's stream exactly here. */
__noinline int ring_mark(u32 level)
{
	struct spoor_ring *ring = ring_of(level & 1);
	struct spoor_ctl_mark *m;
	u64 now = *(volatile u64 *)&epoch;

	if (!ring)
		return 0;
	m = (void *)ring_room(ring, sizeof(*m));
	if (!m)
		return 0;
	emit_header(m, SPOOR_CTL_MARK, 0, sizeof(*m), 0, bpf_ktime_get_ns());
	m->epoch = now;
	ring->epoch = now;
	ring_commit(ring, sizeof(*m));
	return 0;
}

/* size: a multiple of 4, below SPOOR_RING_SLACK. r->to is NULL and the loss counted where there is no room. */
static __always_inline void emit_reserve(struct reservation *r, u32 level, u32 size)
{
	r->to = NULL;
	r->ring = ring_of(level);
	if (!r->ring)
		return;
	if (r->ring->busy) {
		r->ring->nested++;
		r->ring->dropped++;
		return;
	}
	if (r->ring->epoch != epoch)
		ring_mark(level);
	r->to = ring_room(r->ring, size);
	if (r->to)
		r->ring->busy = 1;
	else
		r->ring->dropped++;
}

static __always_inline void emit_commit(struct reservation *r, u32 size)
{
	r->ring->busy = 0;
	ring_commit(r->ring, size);
}

static __always_inline void emit_cancel(struct reservation *r)
{
	r->ring->busy = 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Interning: content is known by a 64-bit hash, events name it by a small id, and the definition is emitted once per
 * segment. This CPU's cache answers nearly always; behind it a map that all CPUs share.
 */
#include "collect/kernel/walk.bpf.h"

__noinline int emit_stack(struct scratch *sc, u32 id, u32 status, u32 n)
{
	struct spoor_stack *s;
	struct reservation r;
	u32 size = sizeof(*s) + (n & 1023) * 8;

	if (!sc || n > SPOOR_MAX_FRAMES)
		return -1;
	emit_reserve(&r, 0, size);
	if (!r.to)
		return -1;
	s = (void *)r.to;
	emit_header(s, SPOOR_EV_STACK, 0, size, 0, bpf_ktime_get_ns());
	s->id = id;
	s->status = status;
	s->way = SPOOR_WAY_KERNEL;
	s->n = n;
	bpf_probe_read_kernel(s->frames, (n & 1023) * 8, sc->frames);
	emit_commit(&r, size);
	return 0;
}

__noinline u32 stack_id_slow(struct cpu *c, struct scratch *sc, u64 hash, u32 status, u32 n)
{
	struct interned fresh = { .epoch = epoch }, *known;
	struct id_entry *e;

	if (!c || !sc)
		return 0;
	known = bpf_map_lookup_elem(&stack_ids, &hash);
	if (known)
		fresh.id = known->id;
	else
		fresh.id = __sync_fetch_and_add(&next_stack, 1);
	if (!known || known->epoch != fresh.epoch) {
		if (emit_stack(sc, fresh.id, status, n))
			return 0;
		c->stats.stack_defs++;
		bpf_map_update_elem(&stack_ids, &hash, &fresh, BPF_ANY);
	}
	e = &c->stack_ids[hash & (ID_SLOTS - 1)];
	e->hash = hash;
	e->id = fresh.id;
	e->epoch = fresh.epoch;
	return fresh.id;
}

/* The id of the stack in sc->frames. 0: its definition was lost. */
static __always_inline u32 stack_id(struct cpu *c, struct scratch *sc, u64 hash, u32 status, u32 n)
{
	struct id_entry *e = &c->stack_ids[hash & (ID_SLOTS - 1)];

	if (e->hash == hash && e->epoch == (u32)epoch)
		return e->id;
	return stack_id_slow(c, sc, hash, status, n);
}

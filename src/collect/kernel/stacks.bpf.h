/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Ids of stacks, and their definitions. */
#include "collect/kernel/walk.bpf.h"

__noinline int emit_stack(struct scratch *sc, u32 id)
{
	struct spoor_stack *s;
	struct reservation r;
	u32 n, size;

	if (!sc)
		return -1;
	n = sc->walk.n;
	if (n > SPOOR_MAX_FRAMES)
		return -1;
	size = sizeof(*s) + (n & 1023) * 8;
	emit_reserve(&r, 0, size);
	if (!r.to)
		return -1;
	s = (void *)r.to;
	emit_header(s, SPOOR_EV_STACK, 0, size, 0, bpf_ktime_get_ns());
	s->id = id;
	s->status = sc->walk.status;
	s->way = SPOOR_WAY_KERNEL;
	s->n = n;
	bpf_probe_read_kernel(s->frames, (n & 1023) * 8, sc->frames);
	emit_commit(&r, size);
	return 0;
}

__noinline u32 stack_id_new(struct cpu *c, struct scratch *sc, u64 hash, u32 id)
{
	u32 now = epoch;

	if (!c || !sc)
		return 0;
	if (!id)
		id = __sync_fetch_and_add(&next_stack, 1);
	if (emit_stack(sc, id))
		return 0;
	c->stats.stack_defs++;
	id_put(&stack_ids, STACK_BUCKETS, hash, id, now);
	return id;
}

/* The id of the stack in sc->frames. 0: its definition was lost. */
static __always_inline u32 stack_id(struct cpu *c, struct scratch *sc)
{
	u64 hash = mix(sc->walk.hash, (u64)sc->walk.status << 32 | sc->walk.n);
	u32 in, id = id_get(&stack_ids, STACK_BUCKETS, hash, &in);

	return id && in == (u32)epoch ? id : stack_id_new(c, sc, hash, id);
}

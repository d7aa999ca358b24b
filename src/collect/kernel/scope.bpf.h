/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * The scope of a walk: which call sites it collects, and when it can collect no more (Algorithm 1 of the Uscope paper;
 * its availability map is `used`).
 *
 * Mode custom can collect no more when each object that the process has mapped has given what its limit allows. That
 * sum is counted once for each layout (set of executable mappings), and again while an object's limit is not known yet.
 */
#include "collect/kernel/objects.bpf.h"
#include "collect/kernel/threads.bpf.h"

static __always_inline bool walk_takes(struct walk *w, struct cpu *c, struct row_entry *e)
{
	u32 object, limit = 1;
	u64 *used;

	if (w->mode == SPOOR_MODE_APP || w->mode == SPOOR_MODE_APP_ALL)
		return e->app;
	if (w->mode == SPOOR_MODE_ALL)
		return true;
	object = SPOOR_FRAME_OBJECT(e->frame);
	if (w->mode == SPOOR_MODE_CUSTOM) {
		struct spoor_kernel_object *o = bpf_map_lookup_elem(&objects, &object);

		limit = o ? o->limit : 0;
	}
	used = &c->used[object & (SPOOR_KERNEL_OBJECTS - 1)];
	if (*used >> 10 != c->walk)
		*used = c->walk << 10;
	if ((*used & 1023) >= limit)
		return false;
	++*used;
	return true;
}

/* Adds what one mapping's object can give, once for all its mappings. false: that is not known. */
static __always_inline bool capacity_add(struct cpu *c, struct scratch *sc, struct vm_area_struct *vma)
{
	struct spoor_kernel_object *o;
	u32 object = SPOOR_OBJECT_NONE;
	struct vma_answer *a = &sc->vma;
	u64 *used;

	vma_read(vma, a);
	sc->capacity_seen = 1;
	if (!a->exec)
		return true;
	if (a->vdso == a->start)
		object = SPOOR_OBJECT_VDSO;
	else if (a->file)
		object = object_of(a, sc);
	if (a->file && object == SPOOR_OBJECT_NONE)
		return true; /* there are too many objects: walks end in it */
	o = bpf_map_lookup_elem(&objects, &object);
	if (!o || o->state == SPOOR_OBJECT_NEW || o->state == SPOOR_OBJECT_FAILED)
		return false;
	used = &c->used[object & (SPOOR_KERNEL_OBJECTS - 1)];
	if (*used >> 10 != c->walk)
		sc->capacity += o->limit;
	*used = c->walk << 10;
	return true;
}

/* Call sites that mode custom can take of one stack of the current process, or -1. */
static __noinline int capacity_count(struct cpu *c, struct scratch *sc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	bool known = true;

	if (!bpf_iter_task_vma_new)
		return -1;
	c->walk++; /* marks the objects that are counted */
	sc->capacity = sc->capacity_seen = 0;
	bpf_iter_task_vma_new(&it, task, 0);
	while (known && (vma = bpf_iter_task_vma_next(&it)))
		known = capacity_add(c, sc, vma);
	bpf_iter_task_vma_destroy(&it);
	return known && sc->capacity_seen ? sc->capacity : -1; /* none seen: another thread is changing them */
}

/* The same, remembered. SPOOR_MAX_FRAMES: not known, or so many. */
__noinline u32 scope_capacity(struct thread *t, struct cpu *c, struct scratch *sc)
{
	u32 now = bpf_ktime_get_ns() >> 20, layout, slot;
	struct capacity *k;
	u64 known;
	int n;

	if (!t || !c || !sc)
		return SPOOR_MAX_FRAMES;
	layout = layout_of(bpf_get_current_task_btf(), t);
	slot = layout & (CAPACITIES - 1);
	k = bpf_map_lookup_elem(&capacities, &slot);
	if (!k)
		return SPOOR_MAX_FRAMES;
	known = k->known;
	if (known >> 32 == layout)
		return known;
	if (now - k->tried < AGAIN)
		return SPOOR_MAX_FRAMES;
	n = capacity_count(c, sc);
	if (n < 0) {
		k->tried = now;
		return SPOOR_MAX_FRAMES;
	}
	n = n < SPOOR_MAX_FRAMES ? n : SPOOR_MAX_FRAMES;
	k->known = (u64)layout << 32 | n;
	return n;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * From a pc to its row: this CPU's row cache, keyed by (image, pc), is filled here. The mapping is looked up (cached
 * per page), then the row is searched for among those of its object.
 */
#include "collect/kernel/images.bpf.h"
#include "collect/kernel/memo.bpf.h"
#include "collect/kernel/objects.bpf.h"

enum {
	WALK_RAW = 100, /* an object without rows yet: hand out a raw copy */
};

static __always_inline u32 slot_of(u64 key, u32 image, u32 slots)
{
	u64 h = (key ^ ((u64)image << 32)) * 0x9e3779b97f4a7c15ULL;

	return (h >> 40) & (slots - 1);
}

/* Fills the page entry for pc. Returns 0, WALK_RAW, or a status. */
static __always_inline int page_fill(struct page_entry *pe, struct scratch *sc, u64 pc, u32 image)
{
	struct spoor_kernel_object *o;
	u32 object = SPOOR_OBJECT_NONE;
	struct vma_answer *a;
	u64 delta = 0;
	int r;

	if (!pe || !sc)
		return SPOOR_WALK_NO_ROWS;
	a = &sc->vma;
	r = find_mapping(pc, a);
	if (r == -EBUSY)
		return WALK_RAW; /* user space will look */
	if (r || !a->exec)
		return SPOOR_WALK_NO_ROWS;
	if (a->vdso == a->start) {
		object = SPOOR_OBJECT_VDSO;
		delta = a->start;
	} else if (a->file) {
		object = object_of(a, sc);
		delta = a->start - a->offset;
		if (object == SPOOR_OBJECT_NONE)
			return SPOOR_WALK_GONE;
	}
	o = bpf_map_lookup_elem(&objects, &object);
	if (!o)
		return SPOOR_WALK_NO_ROWS;
	if (o->state == SPOOR_OBJECT_NEW)
		return WALK_RAW;
	if (o->state == SPOOR_OBJECT_MADE)
		object = delta = 0;
	code_note(image, a->start, a->end);
	pe->page = pc >> 12;
	pe->image = image;
	pe->object = object;
	pe->delta = delta;
	return 0;
}

/* File offset -> ELF virtual address by the executable loads of the object. */
static __always_inline u64 object_vaddr(struct spoor_kernel_object *o, u64 offset)
{
	u64 v = offset;
	int i;

#pragma unroll
	for (i = 0; i < SPOOR_OBJECT_LOADS; i++)
		if (i < o->n_loads && offset >= o->loads[i].offset && offset < o->loads[i].end)
			v = offset + o->loads[i].delta;
	return v;
}

/*
 * The rule for vaddr by the object's rows. The search has no branches: with them the verifier would follow 2^14
 * paths. v - key is negative exactly where the row is not beyond the key; its sign moves `lo`.
 */
__noinline int row_search(struct spoor_kernel_object *o, u64 vaddr, struct spoor_rule *ret)
{
	struct spoor_row_chunk *chunk;
	struct spoor_row_page *page;
	struct spoor_rule *rule;
	u32 key, at, lo, len, half, index, zero = 0;
	void *inner;
	int i;

	if (!o || !ret)
		return -1;
	if (vaddr < o->text_base || (vaddr - o->text_base) >> SPOOR_TEXT_PAGE_SHIFT >= o->n_pages)
		return -1;
	at = o->first_page + ((vaddr - o->text_base) >> SPOOR_TEXT_PAGE_SHIFT);
	page = bpf_map_lookup_elem(&row_pages, &at);
	if (!page || !page->count)
		return -1;
	index = page->first / SPOOR_CHUNK_ROWS;
	inner = bpf_map_lookup_elem(&row_chunks, &index);
	if (!inner)
		return -1;
	chunk = bpf_map_lookup_elem(inner, &zero);
	if (!chunk)
		return -1;
	key = vaddr & ((1 << SPOOR_TEXT_PAGE_SHIFT) - 1);
	lo = page->first & (SPOOR_CHUNK_ROWS - 1);
	len = page->count;
#pragma unroll
	for (i = 0; i < 14; i++) {
		s64 d;

		half = len >> 1;
		d = (s64)chunk->rows[(lo + half) & (SPOOR_CHUNK_ROWS - 1)].pc - key - 1;
		lo += half & (u32)(d >> 63);
		len -= half;
	}
	index = chunk->rows[lo & (SPOOR_CHUNK_ROWS - 1)].rule;
	rule = bpf_map_lookup_elem(&rules, &index);
	if (!rule)
		return -1;
	*ret = *rule;
	return 0;
}

/* The page entry for pc in ret. Returns 0, WALK_RAW, or a status. */
static __always_inline int page_of(struct cpu *c, struct scratch *sc, u64 pc, u32 image, struct page_entry *ret)
{
	u32 at = slot_of(pc >> 12, image, PAGE_SLOTS);
	struct page_entry *first = &c->pages[at & (PAGE_SLOTS - 1)], *second = &c->pages[(at ^ 1) & (PAGE_SLOTS - 1)];
	int r;

	if (first->page == pc >> 12 && first->image == image) {
		*ret = *first;
		return 0;
	}
	if (second->page == pc >> 12 && second->image == image) {
		*ret = *second;
		return 0;
	}
	r = page_fill(ret, sc, pc, image);
	if (r)
		return r;
	*second = *first;
	*first = *ret;
	return 0;
}

/* Fills the row entry for pc. Returns 0, WALK_RAW, or the status in which the walk ends. */
__noinline int row_fill(struct cpu *c, struct scratch *sc, u32 slot, u64 pc, u32 image)
{
	const struct spoor_rule fp = { .op = SPOOR_RULE_FP, .reg_rbp = 6 | SPOOR_RBP_AT_CFA << 4, .rbp_off = -16 };
	const struct spoor_rule just_called = SPOOR_RULE_JUST_CALLED;
	struct spoor_kernel_object *o;
	struct page_entry *page;
	struct row_entry *e;
	bool code;
	u32 object;
	u64 vaddr;
	int r;

	if (!c || !sc)
		return SPOOR_WALK_NO_ROWS;
	page = &sc->page;
	c->stats.row_misses++;
	r = page_of(c, sc, pc, image, page);
	code = r != SPOOR_WALK_NO_ROWS;
	if (!code)
		memo_give_up(&sc->walk); /* some may be mapped there */
	if (r && (code || !sc->walk.s.signal))
		return r;
	e = &c->rows[slot & (ROW_SLOTS - 1)];
	c->rows[(slot ^ 1) & (ROW_SLOTS - 1)] = *e; /* the last one moves to the second place */
	e->image = 0;
	if (!code) { /* not to be remembered: some may be mapped there */
		e->app = 0;
		e->rule = just_called;
		e->frame = SPOOR_FRAME(SPOOR_OBJECT_NONE, pc);
		return 0;
	}
	object = page->object;
	o = bpf_map_lookup_elem(&objects, &object);
	if (!o)
		return SPOOR_WALK_NO_ROWS;
	if (o->state == SPOOR_OBJECT_FAILED) {
		object_again(object, pc, sc);
		return SPOOR_WALK_GONE;
	}
	vaddr = pc - page->delta;
	if (object != SPOOR_OBJECT_VDSO)
		vaddr = object_vaddr(o, vaddr);
	e->app = o->app;
	e->rule = fp;
	e->rule.cfa_off = unwind_with == SPOOR_UNWIND_CFI; /* who asked for frame pointers knows */
	if (o->state == SPOOR_OBJECT_NO_MEMORY)
		e->rule.op = SPOOR_RULE_NONE;
	if (o->state == SPOOR_OBJECT_READY && unwind_with == SPOOR_UNWIND_CFI) {
		struct spoor_rule rule = {};

		if (row_search(o, vaddr, &rule))
			rule.op = SPOOR_RULE_NONE;
		e->rule = rule;
	}
	if (unwind_with == SPOOR_UNWIND_SCAN)
		e->rule.op = SPOOR_RULE_SCAN;
	if (!is_wide(bpf_get_current_task_btf()->mm))
		e->rule.op = SPOOR_RULE_NONE;
	e->pc = pc;
	e->frame = SPOOR_FRAME(object, vaddr);
	e->image = image;
	return 0;
}

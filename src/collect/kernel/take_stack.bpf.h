/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The current thread's stack as an id: remembered, walked, or handed out raw for user space to unwind. */
#include "collect/kernel/stacks.bpf.h"
#include "collect/kernel/threads.bpf.h"

/* Begins a raw stack in a ring: all but its bytes. NULL: no room. */
static __always_inline struct spoor_ctl_raw *raw_begin(struct reservation *r, u32 level, u32 size,
						       struct task_struct *task, struct pt_regs *regs, u32 mode)
{
	struct spoor_ctl_raw *raw;

	emit_reserve(r, level, size);
	if (!r->to)
		return NULL;
	raw = (void *)r->to;
	emit_header(raw, SPOOR_CTL_RAW, 0, size, tid_for_spoor(task), bpf_ktime_get_ns());
	raw->stack = __sync_fetch_and_add(&next_stack, 1);
	raw->pid = tgid_for_spoor(task);
	read_dwarf_regs(raw->dwarf_regs, regs);
	raw->pc = regs->ip;
	raw->mode = mode;
	raw->narrow = !is_wide(task->mm);
	raw->budget = budget;
	raw->layout = 0;
	raw->remote = 0;
	raw->len = 0;
	return raw;
}

/*
 * The copy page by page up to one that was never touched, as there may be between a program's first frame and its
 * strings (execve leaves a gap of random size there). Returns the bytes copied.
 */
static __always_inline u32 copy_pages(struct spoor_ctl_raw *raw, u64 sp, u32 len)
{
	u32 at = 0, n = 4096 - (sp & 4095), i;

	for (i = 0; i < SPOOR_RAW_STACK / 4096 + 1 && at < len; i++) {
		if (n > len - at)
			n = len - at;
		if (bpf_probe_read_user(raw->bytes + (at & (2 * SPOOR_RAW_STACK - 1)), n & 8191, (void *)(sp + at)))
			break;
		at += n;
		n = 4096;
	}
	return at;
}

/* The raw stack itself, of this layout (0: not described). Returns its id; 0: there is no room. */
static __noinline u32 emit_raw_bytes(struct scratch *sc, u32 mode, u32 layout)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct spoor_ctl_raw *raw;
	struct reservation r;
	u32 size, len = SPOOR_RAW_STACK, id;
	u64 sp = regs->sp;

	if (!sc)
		return 0;
	if (!find_mapping(sp, &sc->vma) && sc->vma.end - sp < len)
		len = sc->vma.end - sp;
	size = SPOOR_EVENT_ROUND(sizeof(*raw) + len);
	raw = raw_begin(&r, 0, size, task, regs, mode);
	if (!raw)
		return 0;
	id = raw->stack;
	raw->layout = layout;
	raw->len = len;
	if (bpf_probe_read_user(raw->bytes, opaque(len) & (2 * SPOOR_RAW_STACK - 1), (void *)sp))
		raw->len = copy_pages(raw, sp, len);
	emit_commit(&r, size);
	return id;
}

/*
 * A stack that the kernel cannot walk yet: registers and a bounded copy go to user space, which unwinds and defines
 * the id. The copy is the last resort of the first second of an object's life.
 */
__noinline u32 emit_raw(struct scratch *sc, struct thread *t, u32 mode)
{
	u32 id, layout;
	int described;

	if (!sc || !t || !ring_takes_more(0))
		return 0; /* events come first */
	layout = layout_of(bpf_get_current_task_btf(), t);
	described = emit_layout(layout, sc);
	if (described == -EAGAIN) /* a number of its own: what others describe later is not it */
		layout = __sync_fetch_and_add(&next_layout, 1);
	id = emit_raw_bytes(sc, mode, described == -ENOSYS ? 0 : layout);
	if (id)
		t->owed = described == -EAGAIN ? layout : 0;
	return id;
}

/* How much may be collected, and whether that is all there is: the end of such a walk is complete. */
static __always_inline void walk_limit(struct walk *w, struct cpu *c, struct scratch *sc, struct thread *t, u32 mode)
{
	u32 capacity;

	w->mode = mode;
	w->budget = mode == SPOOR_MODE_APP ? 1 : budget;
	w->full = mode == SPOOR_MODE_APP ? SPOOR_WALK_COMPLETE : SPOOR_WALK_BUDGET;
	if (mode != SPOOR_MODE_CUSTOM)
		return;
	capacity = scope_capacity(t, c, sc);
	if (capacity < w->budget) {
		w->budget = capacity;
		w->full = SPOOR_WALK_COMPLETE;
	}
}

static __always_inline void walk_begin(struct walk *w, struct scratch *sc, struct pt_regs *regs, u32 image)
{
	w->s.pc = regs->ip;
	w->s.sp = w->sp = regs->sp;
	w->s.bp = regs->bp;
	w->s.exact = 1;
	w->s.signal = 0;
	w->s.bx_sp = 0;
	w->s.guessed = 0;
	w->hash = 0;
	w->image = image;
	w->n = 0;
	w->status = w->budget ? SPOOR_WALK_TRUNCATED : w->full;
	w->depth = 0;
	w->searched = 0;
	w->mapped = 0;
	w->window_len = 0;
	if (bpf_rdonly_cast)
		user_begin(sc);
}

/* Pages were taken away, most likely other ones. Where that goes on a deep stack would hardly ever be read in time. */
static __always_inline void walk_again(struct walk *w, struct cpu *c, struct scratch *sc, struct pt_regs *regs,
				       u32 image)
{
	walk_begin(w, sc, regs, image);
	user_leave(sc);
	c->walk++;
}

/* The id of the stack that sc->walk has found. */
static __always_inline u32 walk_end(struct cpu *c, struct scratch *sc, struct task_struct *task, struct thread *t)
{
	struct walk *w = &sc->walk;
	u32 id;

	c->stats.frames += w->depth;
	if (w->status != WALK_RAW) {
		w->status = spoor_walk_ended(&w->s, w->status);
		c->stats.walks[w->status & 15]++;
		return stack_id(c, sc);
	}
	id = emit_raw(sc, t, w->mode);
	if (id) {
		c->stats.raw++;
		return id;
	}
	c->stats.raw_lost++;
	w->status = SPOOR_WALK_LOST;
	w->hash = w->n = 0;
	return stack_id(c, sc);
}

/*
 * Would the same walk find the same a second later? A file that was gone may be found, a page may be there then, and
 * frame pointers may be seen to be kept.
 */
static __always_inline bool walk_lasts(const struct walk *w)
{
	return w->status == SPOOR_WALK_COMPLETE || w->status == SPOOR_WALK_BUDGET || w->status == SPOOR_WALK_NO_ROWS ||
	       w->status == SPOOR_WALK_TRUNCATED;
}

static __always_inline u32 take_stack(struct cpu *c, struct scratch *sc, struct task_struct *task, struct thread *t,
				      struct pt_regs *regs, u32 mode)
{
	struct walk *w = &sc->walk;
	struct memo *m;
	u64 key;
	u32 id, now;
	u32 image = image_of(task, t); /* first: it may make the layout another one */

	walk_limit(w, c, sc, t, mode);
	walk_begin(w, sc, regs, image);
	c->walk++;
	key = memo_key(w);
	m = memo_find(c, sc, key);
	if (m) {
		c->stats.remembered++;
		c->stats.frames += m->depth;
		c->stats.walks[m->status & 15]++;
		return m->id;
	}
	memo_begin(w);
	if (w->budget)
		walk_frames(c, sc);
	if (!walk_stands(w, sc)) {
		walk_again(w, c, sc, regs, image);
		memo_begin(w);
		walk_frames(c, sc);
	}
	now = epoch; /* before: a definition of this segment does not serve the next */
	id = walk_end(c, sc, task, t);
	if (walk_lasts(w))
		memo_end(c, sc, key, id, now);
	return id;
}

/* The same for kernels without may_goto. */
static __always_inline u32 take_stack_compat(struct cpu *c, struct scratch *sc, struct task_struct *task,
					     struct thread *t, struct pt_regs *regs, u32 mode)
{
	struct walk *w = &sc->walk;
	u32 image = image_of(task, t); /* first: it may make the layout another one */

	walk_limit(w, c, sc, t, mode);
	walk_begin(w, sc, regs, image);
	c->walk++;
	if (w->budget)
		walk_frames_compat(c, sc);
	if (!walk_stands(w, sc)) {
		walk_again(w, c, sc, regs, image);
		walk_frames_compat(c, sc);
	}
	return walk_end(c, sc, task, t);
}

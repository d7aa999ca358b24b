/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The current thread's stack as an id: remembered, walked, or handed out raw for user space to unwind. */
#include "collect/kernel/images.bpf.h"
#include "collect/kernel/stacks.bpf.h"

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
	raw->len = raw->holes = 0;
	raw->beneath_len = raw->beneath_holes = 0;
	return raw;
}

/* As the verifier sees it: a part begins below SPOOR_RAW_STACK, and has less than twice as much. */
struct raw_bytes {
	u8 at[3 * SPOOR_RAW_STACK];
};

/*
 * Copies len bytes of a stack from sp up, behind n others: page by page where some were never touched, as in large
 * buffers, and between a program's first frame and its strings (execve leaves a gap of random size there). Returns how
 * many there are up to the last page that is there, and in the upper half a bit for each page that is missing.
 */
__noinline u32 copy_stack(struct raw_bytes *to, u32 n, u64 sp, u32 len)
{
	u32 at = 0, end = 0, holes = 0, step = 4096 - (sp & 4095), i;

	if (!to || !bpf_probe_read_user(to->at + (n & (SPOOR_RAW_STACK - 1)),
					opaque(len) & (2 * SPOOR_RAW_STACK - 1), (void *)sp))
		return len;
	for (i = 0; i < SPOOR_RAW_STACK / 4096 + 1 && at < len; i++) {
		if (step > len - at)
			step = len - at;
		if (bpf_probe_read_user(to->at + ((n + at) & (2 * SPOOR_RAW_STACK - 1)), opaque(step) & 8191,
					(void *)(sp + at)))
			holes |= 1U << i;
		else
			end = at + step;
		at += step;
		step = 4096;
	}
	return end | holes << 16;
}

/* How far a stack may go on from sp: to the end of its mapping, but no further than `most`. */
static __always_inline u32 stack_room(struct scratch *sc, u64 sp, u32 most)
{
	return !find_mapping(sp, &sc->vma) && sc->vma.end - sp < most ? sc->vma.end - sp : most;
}

/* ---- of a handler on an alternate stack: the stack that it has interrupted ---- */

#define SIGNAL_FRAME_UC 304 /* bytes of its ucontext: flags, link, stack_t, registers, mask */
#define SIGNAL_FRAME_SP 160 /* where the interrupted stack pointer is in it */
#define RED_ZONE 128 /* bytes below a stack pointer that are in use: a register may be saved there. psABI 3.2.2 */
#define SIGNAL_FRAME_STEPS 1024 /* of 16 bytes, over the state of the floating point unit; with AMX that has 11 kB */

struct alternate {
	u64 start, size, sp;
	u64 beneath; /* the stack pointer that was found; 0: none */
};

/* The frame of the signal by which the thread came here: it names this stack, and a stack pointer elsewhere. */
static long find_signal_frame(u32 i, void *ctx)
{
	struct alternate *a = ctx;
	u64 uc = ((a->start + a->size) & ~15ULL) - SIGNAL_FRAME_UC - 16 * i, sp = 0;
	struct {
		u64 link, start, flags, size;
	} said;

	if (uc < a->sp || bpf_probe_read_user(&said, sizeof(said), (void *)(uc + 8)))
		return 1;
	if (said.link || said.start != a->start || said.size != a->size ||
	    bpf_probe_read_user(&sp, sizeof(sp), (void *)(uc + SIGNAL_FRAME_SP)) || sp - a->start <= a->size)
		return 0;
	a->beneath = sp;
	return 1;
}

/* How many bytes of its alternate stack a thread uses, and the stack pointer beneath. 0: none, or it is not found. */
static __always_inline u32 on_alternate(struct task_struct *task, u64 sp, u64 *ret_beneath)
{
	struct alternate a = { .start = task->sas_ss_sp, .size = task->sas_ss_size, .sp = sp };

	if (sp - a.start >= a.size || !is_wide(task->mm))
		return 0;
	bpf_loop(SIGNAL_FRAME_STEPS, find_signal_frame, &a, 0);
	if (!a.beneath || a.start + a.size - sp >= SPOOR_RAW_STACK - RED_ZONE)
		return 0;
	*ret_beneath = a.beneath;
	return a.start + a.size - sp;
}

/* The raw stack itself, of this layout (0: not described). Returns its id; 0: there is no room. */
static __noinline u32 emit_raw_bytes(struct scratch *sc, u32 mode, u32 layout)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct spoor_ctl_raw *raw;
	struct reservation r;
	u64 sp = regs->sp, beneath = 0;
	u32 size, alternate, rest, copied, id;

	if (!sc)
		return 0;
	alternate = on_alternate(task, sp, &beneath);
	if (alternate) {
		rest = stack_room(sc, beneath, SPOOR_RAW_STACK - RED_ZONE - alternate) + RED_ZONE;
		beneath -= RED_ZONE;
	} else {
		rest = stack_room(sc, sp, SPOOR_RAW_STACK);
	}
	size = SPOOR_EVENT_ROUND(sizeof(*raw) + alternate + rest);
	raw = raw_begin(&r, 0, size, task, regs, mode);
	if (!raw)
		return 0;
	id = raw->stack;
	raw->layout = layout;
	raw->beneath = beneath;
	copied = copy_stack((void *)raw->bytes, 0, sp, alternate ? alternate : rest);
	raw->len = copied;
	raw->holes = copied >> 16;
	if (alternate) {
		copied = copy_stack((void *)raw->bytes, raw->len, beneath, rest);
		raw->beneath_len = copied;
		raw->beneath_holes = copied >> 16;
	}
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

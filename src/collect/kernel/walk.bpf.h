/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Walking the user stack of the current thread, in the kernel, by compiled unwind rows.
 *
 * Per frame: a row from this CPU's row cache, which rows.bpf.h fills. The scope of the walk (mode, budget S) is decided
 * here, frame by frame, so that it ends as soon as nothing more can be collected (Algorithm 1 of the Uscope paper; its
 * availability map is `used`).
 */
#include "collect/kernel/memo.bpf.h"
#include "collect/kernel/rows.bpf.h"
#include "collect/kernel/scope.bpf.h"

#define MAX_DEPTH 2048 /* frames stepped over in one walk */

static __always_inline void walk_collect(struct walk *w, struct scratch *sc, u64 frame)
{
	sc->frames[w->n & (SPOOR_MAX_FRAMES - 1)] = frame;
	w->hash = mix(w->hash, frame);
	w->n++;
}

#define SCAN_WORDS 128 /* looked at for one call site */
#define SKIP_WORDS 2048 /* looked at for the first return address of a frame, */
#define SEARCH_MOST SKIP_WORDS /* and so many in a walk: who is recorded makes stacks as he likes */
#define PROLOGUE_WITHIN 8192 /* bytes of code before it, for the begin of its function */

struct scan_loop {
	struct cpu *c;
	struct scratch *sc;
	u64 at;
	u64 found;
	int result;
	bool called; /* only addresses to return to are looked for */
	u64 data, data_end; /* a mapping that has no code: most words that are addresses lead to few of them */
};

/* Also if that cannot be read; but before the vDSO, whose address is on each stack, nothing can. */
static __always_inline bool may_return_to(u64 pc)
{
	u64 code[2] = {};

	if (bpf_probe_read_user(code, sizeof(code), (void *)(pc - sizeof(*code))))
		return pc & 4095;
	return spoor_may_return(code);
}

static long scan_word(u32 i, void *ctx)
{
	struct scan_loop *l = ctx;
	struct walk_ctx x = { .w = &l->sc->walk, .sc = l->sc };
	u64 v = 0;
	int r;

	l->result = spoor_load(&x, l->at, &v);
	if (l->result)
		return 1;
	l->at += 8;
	/* Code lies neither in the first pages nor beyond user space. */
	if (v < 0x10000 || v >> 47 || v - l->data < l->data_end - l->data)
		return 0;
	r = page_of(l->c, l->sc, v, l->sc->walk.image, &l->sc->page);
	if (r == SPOOR_WALK_NO_ROWS && l->sc->vma.found && !l->sc->vma.exec) {
		l->data = l->sc->vma.start;
		l->data_end = l->sc->vma.end;
	}
	if (r == SPOOR_WALK_NO_ROWS || (r && !l->called))
		return 0;
	/* What is no code is not read: it may be a device. */
	if (l->called && !r && !may_return_to(v))
		return 0;
	l->found = v;
	return 1;
}

/* The next stack word that lies in code (Algorithm 1 of the Uscope paper; a stale return address counts as a hit). */
__noinline int walk_scan(struct cpu *c, struct scratch *sc)
{
	struct scan_loop l = { .c = c, .sc = sc };

	if (!c || !sc)
		return SPOOR_WALK_NO_ROWS;
	l.at = sc->walk.s.sp;
	bpf_loop(SCAN_WORDS, scan_word, &l, 0);
	if (!l.found)
		return l.result == SPOOR_WALK_UNREADABLE ? SPOOR_WALK_COMPLETE : l.result;
	sc->walk.s.pc = l.found;
	sc->walk.s.sp = l.at;
	sc->walk.s.exact = 0;
	return SPOOR_WALK_NEXT;
}

struct prologue_loop {
	u64 at;
	s64 frame; /* as spoor_prologue() */
};

static long prologue_before(u32 i, void *ctx)
{
	struct prologue_loop *l = ctx;
	u64 code[3];
	int k;

	l->at -= 8; /* aligned: where code begins there may be nothing before */
	if (bpf_probe_read_user(code, sizeof(code), (void *)l->at))
		return 1;
#pragma unroll
	for (k = 56; k >= 0; k -= 8) {
		u64 here = code[0] >> k | (k ? code[1] << (64 - k) : 0);

		if ((here & 0xffff) != 0x4855)
			continue;
		l->frame = spoor_prologue(here, code[1] >> k | (k ? code[2] << (64 - k) : 0));
		if (l->frame >= 0)
			return 1;
	}
	return 0;
}

/* By how its function begins: how far below rbp the frame reaches that it makes; 0: that is not known. */
__noinline int fp_frame(u64 pc)
{
	struct prologue_loop l = { .at = pc & ~7ULL, .frame = -1 };

	bpf_loop(PROLOGUE_WITHIN / 8, prologue_before, &l, 0);
	return l.frame > 0 && l.frame < 8 * SKIP_WORDS ? (int)l.frame : 0;
}

static __always_inline bool fp_is_own(u64 pc)
{
	u64 code;

	return !bpf_probe_read_user(&code, sizeof(code), (void *)pc) && spoor_rbp_is_own(code);
}

/*
 * May rbp be another frame's, in code of which nobody knows whether it keeps frame pointers? If it keeps them, the
 * first return address on the stack is that beside rbp, or where rbp is 0 there is none. Once they are seen to be kept
 * at a pc they are there each time; what old words lie in a frame differs. Where that hides them the code is looked at,
 * once: rbp is right where it says so, or where the frame is as large as it says. It may be larger, by arguments that
 * are pushed for a callee (HotSpot does it for one that is interpreted). Returns 0: no; or what to ask with the next
 * time: 1: the code was not looked at; else 2 + the frame that it says.
 */
__noinline int fp_may_skip(struct cpu *c, struct scratch *sc, int known)
{
	struct scan_loop l = { .c = c, .sc = sc, .called = true };
	u64 words = SKIP_WORDS, bp;

	if (!c || !sc)
		return known;
	l.at = sc->walk.s.sp;
	bp = sc->walk.s.bp;
	if (bp)
		words = ((bp - l.at) >> 3) + 2;
	if (words > SKIP_WORDS || l.at & 7 || sc->walk.searched >= SEARCH_MOST)
		return known;
	bpf_loop(words, scan_word, &l, 0);
	sc->walk.searched += (u32)(l.at - sc->walk.s.sp) >> 3;
	if (bp ? l.found && l.at == bp + 16 : !l.found)
		return 0;
	if (!bp)
		return known;
	if (known == 1) {
		if (fp_is_own(sc->walk.s.pc))
			return 0;
		sc->walk.searched += PROLOGUE_WITHIN / 8;
		known = 2 + fp_frame(sc->walk.s.pc);
	}
	return known > 2 && (u64)known == 2 + bp - sc->walk.s.sp ? 0 : known;
}

/* Apart, so that the verifier follows it once. */
__noinline int walk_rbx(struct scratch *sc, struct spoor_rule *rule)
{
	struct walk_ctx x;

	if (!sc || !rule)
		return SPOOR_WALK_NO_ROWS;
	x.w = &sc->walk;
	x.sc = sc;
	return spoor_walk_rbx(&x, &sc->walk.s, rule);
}

__noinline int walk_rare(struct cpu *c, struct scratch *sc, struct spoor_rule *rule)
{
	struct walk_ctx x;

	if (!c || !sc || !rule)
		return SPOOR_WALK_NO_ROWS;
	if (rule->op == SPOOR_RULE_RBX)
		return walk_rbx(sc, rule);
	x.w = &sc->walk;
	x.sc = sc;
	return spoor_walk_other(&x, &sc->walk.s, rule);
}

/*
 * One frame: collects it if it is in scope, and moves to its caller. Returns 1 when the walk has ended. modern: not
 * before 6.14, where nothing is remembered and scanning would nest calls too deep.
 */
static __always_inline int walk_frame(struct cpu *c, struct scratch *sc, bool modern)
{
	struct walk *w = &sc->walk;
	struct walk_ctx x = { .w = w, .sc = sc };
	struct row_entry *e;
	u32 slot, notexact;
	u64 pc, bp = w->s.bp;
	int r;

	notexact = !w->s.exact;
	pc = w->s.pc - notexact;
	slot = slot_of(pc, w->image, ROW_SLOTS);
	e = &c->rows[slot & (ROW_SLOTS - 1)];
	if (e->pc != pc || e->image != w->image) {
		e = &c->rows[(slot ^ 1) & (ROW_SLOTS - 1)]; /* the second place, in the same cache line */
		if (e->pc != pc || e->image != w->image) {
			r = row_fill(c, sc, slot, pc, w->image);
			if (r) {
				if (r == SPOOR_WALK_GONE && w->mode == SPOOR_MODE_ALL)
					walk_collect(w, sc, SPOOR_FRAME(SPOOR_OBJECT_NONE, pc + notexact));
				w->status = r;
				return 1;
			}
			e = &c->rows[slot & (ROW_SLOTS - 1)];
		}
	}
	if (e->rule.op == SPOOR_RULE_NONE && !w->depth && w->s.exact) {
		w->s.exact =
			0; /* what follows the call's instruction is not described (__restore_rt): the instruction is */
		return 0;
	}
	if (walk_takes(w, c, e)) {
		/* SPOOR_FRAME_INTERRUPTED */
		walk_collect(w, sc, (e->frame + notexact) | (u64)(w->depth && !notexact) << 63);
		if (w->n >= w->budget) {
			w->status = w->full;
			return 1;
		}
	}
	r = spoor_walk_common(&x, &w->s, &e->rule);
	if (r == SPOOR_WALK_RARE) {
		if (modern && e->rule.op == SPOOR_RULE_FP && e->rule.cfa_off)
			e->rule.cfa_off = fp_may_skip(c, sc, e->rule.cfa_off);
		r = modern && e->rule.op == SPOOR_RULE_SCAN ? walk_scan(c, sc) : walk_rare(c, sc, &e->rule);
	}
	w->depth++;
	if (modern && e->rule.op != SPOOR_RULE_END)
		memo_step(sc, &e->rule, bp);
	if (r == SPOOR_WALK_NEXT)
		return 0;
	w->status = r;
	return 1;
}

/* Walks from sc->walk's state to the end. A frame costs no call here: each return is dear where the kernel guards
 * returns against speculation. */
__noinline int walk_frames(struct cpu *c, struct scratch *sc)
{
	if (!c || !sc)
		return 0;
	for (;;) {
		if (walk_frame(c, sc, true) || sc->walk.depth > MAX_DEPTH)
			break;
		may_goto(end);
	}
end:
	return 0;
}

/* The same for kernels without may_goto. */
__noinline int walk_one(struct cpu *c, struct scratch *sc)
{
	return !c || !sc || walk_frame(c, sc, false);
}

struct walk_loop {
	struct cpu *c;
	struct scratch *sc;
};

static long walk_round(u32 i, void *ctx)
{
	struct walk_loop *l = ctx;

	return opaque(walk_one(l->c, l->sc)) & 1;
}

static __always_inline void walk_frames_compat(struct cpu *c, struct scratch *sc)
{
	struct walk_loop l = { .c = c, .sc = sc };

	bpf_loop(MAX_DEPTH, walk_round, &l, 0);
}

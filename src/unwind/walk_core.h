/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once
/*
 * One step of a stack walk: from a frame to its caller, by one rule. The kernel walker, the unwinder of raw
 * stacks and the in-process agent include this file; each first defines
 *
 *   static int spoor_load(struct SPOOR_WALK_CTX *c, __u64 addr, __u64 *ret);  reads 8 bytes of the stack's
 *       process; 0, or SPOOR_WALK_UNREADABLE / SPOOR_WALK_TRUNCATED
 *   static int spoor_reg(struct SPOOR_WALK_CTX *c, __u32 reg, __u64 *ret);    a register that is not followed from
 *       frame to frame (neither rsp nor rbp); 0, or SPOOR_WALK_NO_ROWS where its value is not known
 *
 * Source: DWARF 5 section 6.4.3 (virtual unwinding), psABI x86-64; signal frames: arch/x86 struct rt_sigframe.
 */
#include "trace/record.h"
#include "unwind/row.h"
#include "unwind/walk_state.h"

#ifndef SPOOR_INLINE
#define SPOOR_INLINE static inline __attribute__((always_inline))
#endif

/* Not a status of a walk: go on. */
#define SPOOR_WALK_NEXT (-1)

/* uc_mcontext.gregs within struct ucontext; index of each DWARF register 0..15 there. */
#define SPOOR_UC_GREGS 40
#define SPOOR_UC_R8 0
#define SPOOR_UC_RBP 10
#define SPOOR_UC_RSP 15
#define SPOOR_UC_RIP 16

SPOOR_INLINE int spoor_walk_signal(struct SPOOR_WALK_CTX *c, struct spoor_frame_state *s)
{
	__u64 gregs = s->sp + SPOOR_UC_GREGS, pc = 0, sp = 0, bp = 0;
	int r;

	s->uc = gregs;
	s->bx_sp = 0;
	r = spoor_load(c, gregs + 8 * SPOOR_UC_RBP, &bp);
	if (!r)
		r = spoor_load(c, gregs + 8 * SPOOR_UC_RSP, &sp);
	if (!r)
		r = spoor_load(c, gregs + 8 * SPOOR_UC_RIP, &pc);
	if (r)
		return r;
	s->pc = pc;
	s->sp = sp;
	s->bp = bp;
	s->exact = 1;
	s->signal = 1;
	return SPOOR_WALK_NEXT;
}

/*
 * The rule for an interrupted pc (s->signal) where no code is, which ends other walks: through a null or wild pointer
 * a call was made, and no more than that. As in gdb, whose unwinder of last resort does so above a signal's frame.
 */
#define SPOOR_RULE_JUST_CALLED { .op = SPOOR_RULE_CFA, .reg_rbp = 7, .cfa_off = 8 }

/* Not a status either: a rule that spoor_walk_common() does not know. */
#define SPOOR_WALK_RARE (-2)

/*
 * What nearly every frame needs: CFA = rsp or rbp + offset, rbp unchanged or saved beside the return address. A short
 * path for the kernel; all else is left to spoor_walk_step(), which knows these rules too.
 */
SPOOR_INLINE int spoor_walk_common(struct SPOOR_WALK_CTX *c, struct spoor_frame_state *s, const struct spoor_rule *rule)
{
	__u32 reg = rule->reg_rbp & 15, how = rule->reg_rbp >> 4;
	__u64 cfa, ra = 0, bp = s->bp;
	int r;

	if (rule->op != SPOOR_RULE_CFA || (reg & 14) != 6 || how > SPOOR_RBP_AT_CFA)
		return SPOOR_WALK_RARE;
	cfa = (reg == 7 ? s->sp : bp) + (__s64)rule->cfa_off;
	r = spoor_load(c, cfa - 8, &ra);
	if (r)
		return r;
	if (how == SPOOR_RBP_AT_CFA) {
		r = spoor_load(c, cfa + (__s64)rule->rbp_off, &bp);
		if (r)
			return r;
	}
	s->pc = ra;
	s->sp = cfa;
	s->bp = bp;
	s->exact = 0;
	s->signal = 0;
	return ra ? SPOOR_WALK_NEXT : SPOOR_WALK_COMPLETE;
}

/* rbx of the frame; as spoor_reg(). */
SPOOR_INLINE int spoor_rbx(struct SPOOR_WALK_CTX *c, const struct spoor_frame_state *s, __u64 *ret)
{
	if (s->bx_sp != s->sp)
		return spoor_reg(c, 3, ret);
	*ret = s->bx;
	return 0;
}

/* SPOOR_RULE_RBX. rbx that is not known, or not readable, ends no walk that does not need it. */
SPOOR_INLINE int spoor_walk_rbx(struct SPOOR_WALK_CTX *c, struct spoor_frame_state *s, const struct spoor_rule *rule)
{
	struct spoor_rule plain = { .op = SPOOR_RULE_CFA,
				    .reg_rbp = rule->reg_rbp,
				    .rbp_off = rule->rbp_off,
				    .cfa_off = (__s32)((__u32)rule->cfa_off << 8) >> 8 };
	__u64 below = (__u32)rule->cfa_off >> 24 << 3, bx = 0;
	int unknown = spoor_rbx(c, s, &bx), r;

	if ((rule->reg_rbp & 15) == 3) {
		if (unknown)
			return unknown;
		s->sp = bx; /* which was its value, and is taken again */
		plain.reg_rbp += 7 - 3;
	}
	r = spoor_walk_common(c, s, &plain);
	if (r != SPOOR_WALK_NEXT)
		return r == SPOOR_WALK_RARE ? SPOOR_WALK_NO_ROWS : r; /* no compiler of rows made this */
	if (below)
		unknown = spoor_load(c, s->sp - below, &bx);
	s->bx = bx;
	s->bx_sp = unknown ? 0 : s->sp;
	return r;
}

#define SPOOR_NO_ADDRESS (1ULL << 63) /* nothing near it is an address of user space */

/*
 * All rules but SPOOR_RULE_RBX. rbp that cannot be read ends no walk that does not need it: while they realign the
 * stack, functions are described as having saved it where their caller's points to, whatever that is. (Beside the
 * return address it can be read if that can: spoor_walk_common().) Returns as spoor_walk_step().
 */
SPOOR_INLINE int spoor_walk_other(struct SPOOR_WALK_CTX *c, struct spoor_frame_state *s, const struct spoor_rule *rule)
{
	__u32 reg = rule->reg_rbp & 15, op = rule->op, how = rule->reg_rbp >> 4;
	__u64 base, cfa, ra = 0, bp = s->bp;
	__s64 ra_off = -8;
	int r;

	if (reg == 7)
		base = s->sp;
	else if (reg == 6)
		base = s->bp;
	else if ((r = spoor_reg(c, reg, &base)))
		return r;

	cfa = base + (__s64)rule->cfa_off;
	if (op != SPOOR_RULE_CFA) {
		__s64 lo = (__s16)(rule->cfa_off & 0xffff), hi = (__s16)((__u32)rule->cfa_off >> 16);

		if (op == SPOOR_RULE_END)
			return SPOOR_WALK_COMPLETE;
		if (op == SPOOR_RULE_SIGNAL)
			return spoor_walk_signal(c, s);
		if (op == SPOOR_RULE_FP) {
			s->guessed |= (__u32)rule->cfa_off;
			/* A chain of frame pointers ends with 0 by convention. */
			if (!s->bp)
				return SPOOR_WALK_COMPLETE;
			cfa = s->bp + 16;
		} else if (op == SPOOR_RULE_DEREF) {
			__u64 v = 0;

			r = spoor_load(c, base + lo, &v);
			if (r)
				return r;
			cfa = v + hi;
		} else if (op == SPOOR_RULE_PLT) {
			cfa = s->sp + 8 + ((s->pc & 15) >= (__u64)(__u32)rule->cfa_off ? 8 : 0);
		} else if (op == SPOOR_RULE_RA_REG) {
			cfa = base + lo;
			ra_off = 0;
		} else if (op == SPOOR_RULE_RA_OFF) {
			cfa = base + lo;
			ra_off = hi;
		} else if (op != SPOOR_RULE_INJECTED) {
			return SPOOR_WALK_NO_ROWS;
		}
	}

	if (op == SPOOR_RULE_RA_REG)
		r = spoor_reg(c, ((__u32)rule->cfa_off >> 16) & 15, &ra);
	else
		r = spoor_load(c, cfa + ra_off, &ra);
	if (r)
		return r;

	if (how == SPOOR_RBP_AT_CFA)
		r = spoor_load(c, cfa + (__s64)rule->rbp_off, &bp);
	else if (how == SPOOR_RBP_AT_RBP)
		r = spoor_load(c, s->bp + (__s64)rule->rbp_off, &bp);
	else if (how == SPOOR_RBP_AT_REG)
		r = spoor_load(c, base + (__s64)rule->rbp_off, &bp);
	if (r)
		bp = SPOOR_NO_ADDRESS;

	s->pc = ra;
	s->sp = cfa;
	s->bp = bp;
	s->exact = op == SPOOR_RULE_INJECTED;
	s->signal = 0;
	return ra ? SPOOR_WALK_NEXT : SPOOR_WALK_COMPLETE;
}

/* Returns SPOOR_WALK_NEXT with *s moved to the caller, or the status in which the walk ends. */
SPOOR_INLINE int spoor_walk_step(struct SPOOR_WALK_CTX *c, struct spoor_frame_state *s, const struct spoor_rule *rule)
{
	return rule->op == SPOOR_RULE_RBX ? spoor_walk_rbx(c, s, rule) : spoor_walk_other(c, s, rule);
}

#define SPOOR_EACH(byte) ((byte) * 0x0101010101010101ULL)

/*
 * May an address be one to return to, by the 8 bytes before it and those at it? A call ends there: e8 and four bytes,
 * or ff /2, of two to seven. Or it is like those that HotSpot's interpreter pushes, which jumps to what it calls: no
 * function begins with a load by rbp. Without branches: z has a byte 0 where ff is before a byte with 2 in its middle.
 */
SPOOR_INLINE int spoor_may_return(const __u64 code[2])
{
	__u64 z = ~code[0] | ((code[0] ^ SPOOR_EACH(0x10)) & SPOOR_EACH(0x38)) >> 8 | 0xff000000000000ffULL;

	return (code[0] >> 24 & 255) == 0xe8 || (code[1] & 0xc7fff8) == 0x458b48 ||
	       ((z - SPOOR_EACH(1)) & ~z & SPOOR_EACH(0x80));
}

/*
 * By the bytes of a function's begin, and those that follow them: -1: it is none that is known; 0: it makes a frame
 * without keeping a frame pointer; else how far below it its frame reaches. push rbp; mov rbp, rsp; sub rsp, N, as C
 * compilers and HotSpot have it.
 */
SPOOR_INLINE __s64 spoor_prologue(__u64 code, __u64 more)
{
	__u32 second = code >> 16 & 0xffff, third = code >> 32 & 0xffffff;

	if ((code & 0xffff) != 0x4855)
		return -1;
	if (second == 0xec83 || second == 0xec81)
		return 0;
	if (second != 0xec8b && second != 0xe589)
		return -1;
	if (third == 0xec8348)
		return code >> 56;
	return third == 0xec8148 ? (__u32)(code >> 56 | more << 8) : 0;
}

/*
 * Does code begin with a load by rbp from below it, as HotSpot's interpreter and stubs have it where calls return to?
 * Then rbp is the base of its frame: what does not keep frame pointers leaves the rbp of others alone. (By r13 it is
 * the same code but for REX.B.)
 */
SPOOR_INLINE int spoor_rbp_is_own(__u64 code)
{
	return (code & 0x80c7fffb) == 0x80458b48;
}

/* The status of a walk that ended with this one, complete or at its budget: only if no caller may be missing. */
SPOOR_INLINE int spoor_walk_ended(const struct spoor_frame_state *s, int status)
{
	return s->guessed && (__u32)status <= SPOOR_WALK_BUDGET ? SPOOR_WALK_GUESSED : status;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Walks remembered. By the same rows, what a walk finds follows from its first pc and from the stack words that it
 * read: the return addresses, and the saved frame pointers that it went by. Programs ask the kernel from few places, so
 * those words are kept with the result. Where they stand as they stood, the stack has its id without a walk: a
 * comparison a frame.
 *
 * Words are kept relative to the stack pointer, so that threads and forked workers share what is remembered. A saved
 * rbp that no frame address was calculated from is not looked at: it is any value of the program's.
 *
 *     word: at = offset from sp, a multiple of 8 | MEMO_RELATIVE: the value is an address, kept less sp
 *                                                | MEMO_REGISTER: rbp as it was when the walk began
 */
#include "collect/kernel/stack.bpf.h"

#define MEMO_RELATIVE 1
#define MEMO_REGISTER 2
#define MEMO_SPAN (1U << 30)

/* The walk under way reads what cannot be remembered. */
static __always_inline void memo_give_up(struct walk *w)
{
	w->memo_words = MEMO_WORDS + 1;
}

static __always_inline void memo_word(struct walk *w, struct memo *m, u32 at, u64 value)
{
	u32 i = w->memo_words;

	if (i >= MEMO_WORDS) {
		memo_give_up(w);
		return;
	}
	m->at[i] = at;
	m->values[i] = value;
	w->memo_words = i + 1;
}

/* One step was made by this rule, from the frame with rbp `bp` to w->s. */
static __always_inline void memo_step(struct walk *w, struct memo *m, const struct spoor_rule *rule, u64 bp)
{
	u64 at = w->s.sp - w->sp;

	if ((rule->op != SPOOR_RULE_CFA && rule->op != SPOOR_RULE_FP) || (rule->reg_rbp & 14) != 6 ||
	    rule->reg_rbp >> 4 > SPOOR_RBP_AT_CFA || at > MEMO_SPAN || at < 8) {
		memo_give_up(w);
		return;
	}
	if ((rule->reg_rbp & 15) == 6 && !w->memo_bp_seen) {
		memo_word(w, m, w->memo_bp_at, bp - w->sp);
		w->memo_bp_seen = 1;
	}
	memo_word(w, m, at - 8, w->s.pc);
	if (rule->reg_rbp >> 4 == SPOOR_RBP_AT_CFA) {
		w->memo_bp_at = (at + (s64)rule->rbp_off) | MEMO_RELATIVE;
		w->memo_bp_seen = 0;
	}
}

/* What the result depends on besides the stack's words. sp's low bits tell how deep the program is in its calls. */
static __always_inline u64 memo_key(const struct walk *w)
{
	return mix(mix((u64)w->image << 32 | w->mode << 16 | w->budget, w->s.pc), w->sp & 4095) | 1;
}

/* Do the words stand as they stood? The verifier follows each round of a loop whose index it knows: it is in memory. */
static __always_inline bool memo_holds(struct walk *w, struct scratch *sc, const struct memo *m)
{
	volatile u32 *i = &w->memo_words;
	struct walk_ctx x = { .w = w, .sc = sc };

	for (*i = 0; *i < m->n; ++*i) {
		u32 k = *i & (MEMO_WORDS - 1), at = m->at[k];
		u64 v = w->s.bp;

		if (!(at & MEMO_REGISTER) && spoor_load(&x, w->sp + (at & ~7U), &v))
			return false;
		if (at & MEMO_RELATIVE)
			v -= w->sp;
		if (v != m->values[k])
			return false;
		may_goto(end);
	}
	window_leave(w, sc);
	return !w->torn;
end:
	return false;
}

static __always_inline u32 memo_set(u64 key)
{
	return key >> 40 & (MEMO_SETS - 1);
}

/* The remembered walk that this one would repeat, or NULL. */
static __always_inline struct memo *memo_find(struct cpu *c, struct scratch *sc, u64 key)
{
	u32 set = memo_set(key), way;

#pragma unroll
	for (way = 0; way < MEMO_WAYS; way++) {
		struct memo *m = &c->memos[set][way];

		if (c->memo_keys[set][way] == key && m->epoch == (u32)epoch && memo_holds(&sc->walk, sc, m))
			return m;
	}
	return NULL;
}

/* Where the walk that begins now is to be remembered: in an empty place, or that of any other. */
static __always_inline struct memo *memo_begin(struct cpu *c, struct walk *w, u64 key)
{
	u32 set = memo_set(key), way = (c->walk * 0x9e3779b97f4a7c15ULL) >> 62, i;

#pragma unroll
	for (i = 0; i < MEMO_WAYS; i++)
		if (!c->memo_keys[set][i])
			way = i;
	way &= MEMO_WAYS - 1;
	c->memo_keys[set][way] = 0;
	w->memo_way = way;
	w->memo_words = 0;
	w->memo_bp_at = MEMO_REGISTER | MEMO_RELATIVE;
	w->memo_bp_seen = 0;
	return &c->memos[set][way];
}

static __always_inline void memo_end(struct cpu *c, struct walk *w, struct memo *m, u64 key, u32 id)
{
	u32 n = w->memo_words;

	if (!id || n > MEMO_WORDS)
		return;
	m->n = n;
	m->id = id;
	m->status = w->status;
	m->depth = w->depth;
	m->epoch = epoch;
	c->memo_keys[memo_set(key)][w->memo_way & (MEMO_WAYS - 1)] = key;
}

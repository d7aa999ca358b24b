/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Walks remembered. By the same rows, what a walk finds follows from its first pc and from the stack words that it
 * read: the return addresses, and the saved frame pointers that it went by. Programs ask the kernel from few places, so
 * those words are kept with the result. Where they stand as they stood, the stack has its id without a walk: by a
 * comparison a frame.
 *
 * Words are kept relative to the stack pointer, so that threads and forked workers share what is remembered. A saved
 * rbp that no frame address was calculated from is not looked at: it is any value of the program's.
 *
 *     word   63          50 49         48 47                            0
 *            +-------------+-----+-------+------------------------------+
 *            | offset from | reg | rel   | value; rel: an address, less |
 *            | sp, by 8    |     |       | sp; reg: rbp, as at first    |
 *            +-------------+-----+-------+------------------------------+
 *
 * A CPU's walks lie one behind another in a pool that is filled round and round, so that those in use are near each
 * other: what costs here is memory that is not in the processor's caches. A table of sets of four leads there. A walk
 * is noted in scratch and copied when it has led to a stack: each body in the pool is whole from its key on, and what
 * is written over a part of it has taken its key.
 */
#include "collect/kernel/stack.bpf.h"

#define MEMO_RELATIVE (1ULL << 48)
#define MEMO_REGISTER (1ULL << 49)
#define MEMO_AT 50
#define MEMO_SPAN ((8ULL << (64 - MEMO_AT)) - 8) /* bytes of stack that a word can lie in */
#define MEMO_VALUE (MEMO_RELATIVE - 1)

/* The walk under way reads what cannot be remembered. */
static __always_inline void memo_give_up(struct walk *w)
{
	w->memo_words = MEMO_WORDS + 1;
}

/* at: offset in bytes and flags, as they stand in a word */
static __always_inline void memo_word(struct scratch *sc, u64 at, u64 value)
{
	u32 i = sc->walk.memo_words;

	if (i >= MEMO_WORDS) {
		memo_give_up(&sc->walk);
		return;
	}
	sc->memo.words[i] = at | (value & MEMO_VALUE);
	sc->walk.memo_words = i + 1;
}

static __always_inline u64 memo_at(u64 offset)
{
	return offset << (MEMO_AT - 3);
}

/* One step was made by this rule, from the frame with rbp `bp` to sc->walk.s. */
static __always_inline void memo_step(struct scratch *sc, const struct spoor_rule *rule, u64 bp)
{
	struct walk *w = &sc->walk;
	u64 at = w->s.sp - w->sp - 8, bp_at = at + 8 + (s64)rule->rbp_off;
	bool saved = rule->reg_rbp >> 4 == SPOOR_RBP_AT_CFA;

	if ((rule->op != SPOOR_RULE_CFA && rule->op != SPOOR_RULE_FP && rule->op != SPOOR_RULE_RBX) ||
	    (rule->reg_rbp & 14) != 6 || rule->reg_rbp >> 4 > SPOOR_RBP_AT_CFA ||
	    ((at | (saved ? bp_at : 0)) & ~MEMO_SPAN)) {
		memo_give_up(w);
		return;
	}
	if ((rule->reg_rbp & 15) == 6 && !w->memo_bp_seen) {
		memo_word(sc, w->memo_bp_at | MEMO_RELATIVE, bp - w->sp);
		w->memo_bp_seen = 1;
	}
	memo_word(sc, memo_at(at), w->s.pc);
	if (saved) {
		w->memo_bp_at = memo_at(bp_at);
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
		u64 word = m->words[*i & (MEMO_WORDS - 1)], v = w->s.bp;

		if (!(word & MEMO_REGISTER) && spoor_load(&x, w->sp + (word >> MEMO_AT << 3), &v))
			return false;
		if (word & MEMO_RELATIVE)
			v -= w->sp;
		if ((v ^ word) & MEMO_VALUE)
			return false;
		may_goto(end);
	}
	return walk_stands(w, sc);
end:
	return false;
}

static __always_inline struct memo_place *memo_set(struct cpu *c, u64 key)
{
	return c->memo_places[key >> 40 & (MEMO_SETS - 1)];
}

static __always_inline struct memo *memo_of(struct cpu *c, u32 at)
{
	return (struct memo *)(c->memo_pool + (at & (MEMO_POOL - 8)));
}

/* The remembered walk that this one would repeat, or NULL. */
static __always_inline struct memo *memo_find(struct cpu *c, struct scratch *sc, u64 key)
{
	struct memo_place *set = memo_set(c, key);
	u32 way;

#pragma unroll
	for (way = 0; way < MEMO_WAYS; way++) {
		struct memo *m = memo_of(c, set[way].at);

		if (set[way].tag == (u32)key && m->key == key && m->epoch == (u32)epoch &&
		    memo_holds(&sc->walk, sc, m))
			return m;
	}
	return NULL;
}

/* The walk that begins now is noted from its first word on. */
static __always_inline void memo_begin(struct walk *w)
{
	w->memo_words = 0;
	w->memo_bp_at = MEMO_REGISTER;
	w->memo_bp_seen = 0;
}

/* The way in which its set leads to it: an empty one, or any. */
static __always_inline u32 memo_way(struct cpu *c, struct memo_place *set)
{
	u32 way = (c->walk * 0x9e3779b97f4a7c15ULL) >> 62, i;

#pragma unroll
	for (i = 0; i < MEMO_WAYS; i++)
		if (!set[i].tag)
			way = i;
	return way & (MEMO_WAYS - 1);
}

/* It led to the stack with this id, which this segment has. */
static __always_inline void memo_end(struct cpu *c, struct scratch *sc, u64 key, u32 id, u32 in_epoch)
{
	struct memo_place *set = memo_set(c, key), *place = &set[memo_way(c, set)];
	struct memo *m = &sc->memo;
	u32 n = sc->walk.memo_words, size = offsetof(struct memo, words) + 8 * n, at = c->memo_head;

	if (!id || n > MEMO_WORDS)
		return;
	if (at + size > MEMO_POOL)
		at = 0;
	m->key = key;
	m->epoch = in_epoch;
	m->id = id;
	m->n = n;
	m->depth = sc->walk.depth;
	m->status = sc->walk.status;
	bpf_probe_read_kernel(memo_of(c, at), size, m);
	c->memo_head = at + size;
	place->tag = key;
	place->at = at;
}

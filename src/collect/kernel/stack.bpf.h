/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What a walk reads: the registers of the system call, and the user stack, word by word through a window: the page as
 * the kernel has it mapped, or where that cannot be told, a copy of 512 bytes.
 */
#include "collect/kernel/user.bpf.h"

struct walk_ctx;
#define SPOOR_WALK_CTX walk_ctx
#define SPOOR_INLINE static __always_inline
static int spoor_load(struct walk_ctx *x, u64 addr, u64 *ret);
static int spoor_reg(struct walk_ctx *x, u32 reg, u64 *ret);
#include "unwind/walk_core.h"

struct walk_ctx {
	struct walk *w;
	struct scratch *sc;
};

/* Is all that the walk has read so far right? */
static __always_inline bool walk_stands(struct walk *w, struct scratch *sc)
{
	return !bpf_rdonly_cast || !w->mapped || user_stands(sc);
}

/* The page of addr, which the kernel has mapped at `bytes`, becomes the window, unless that is 0. */
static __always_inline bool window_map(struct walk *w, u64 addr, u64 bytes)
{
	if (!bytes)
		return false;
	w->bytes = bytes;
	w->mapped = 1;
	w->window = addr & ~4095ULL;
	w->window_len = 4096 - 7;
	return true;
}

/* Copies n bytes at addr into the window. */
static __always_inline bool window_copy(struct walk *w, struct scratch *sc, u64 addr, u32 n)
{
	w->bytes = address_of(sc, sc->window);
	w->window = addr;
	w->window_len = bpf_probe_read_user(sc->window, n, (void *)addr) ? 0 : n - 7;
	return w->window_len;
}

/*
 * Moves the window so that it holds addr, 0 where that cannot be read. A copy begins a little below: saved registers
 * lie below the return address. Where 512 bytes are not readable (the end of a mapping), less.
 */
__noinline int window_move(struct scratch *sc, u64 addr)
{
	struct walk *w;

	if (!sc || addr & 7)
		return 0;
	w = &sc->walk;
	return window_map(w, addr, user_page_find(sc, addr)) || window_copy(w, sc, addr - 64, WINDOW) ||
	       window_copy(w, sc, addr, WINDOW) || window_copy(w, sc, addr, 8);
}

/* A page that is known needs no call. */
static __always_inline bool window_held(struct walk *w, struct scratch *sc, u64 addr)
{
	return bpf_rdonly_cast && !(addr & 7) && window_map(w, addr, user_page_held(sc, addr));
}

static __always_inline int spoor_load(struct walk_ctx *x, u64 addr, u64 *ret)
{
	struct walk *w = x->w;
	u64 off = addr - w->window;

	if (off >= w->window_len) {
		if (!window_held(w, x->sc, addr) && !window_move(x->sc, addr))
			return SPOOR_WALK_UNREADABLE;
		off = addr - w->window;
	}
	if (bpf_rdonly_cast)
		*ret = kernel_word(w->bytes + off);
	else
		*ret = *(u64 *)((char *)x->sc->window + (off & (WINDOW - 8)));
	return 0;
}

static __always_inline void read_dwarf_regs(u64 *to, struct pt_regs *r)
{
	to[0] = r->ax;
	to[1] = r->dx;
	to[2] = r->cx;
	to[3] = r->bx;
	to[4] = r->si;
	to[5] = r->di;
	to[6] = r->bp;
	to[7] = r->sp;
	to[8] = r->r8;
	to[9] = r->r9;
	to[10] = r->r10;
	to[11] = r->r11;
	to[12] = r->r12;
	to[13] = r->r13;
	to[14] = r->r14;
	to[15] = r->r15;
}

static __always_inline u64 dwarf_reg(struct pt_regs *r, u32 reg)
{
	u64 regs[16];

	read_dwarf_regs(regs, r);
	return regs[reg & 15];
}

static __always_inline int spoor_reg(struct walk_ctx *x, u32 reg, u64 *ret)
{
	/* DWARF register -> index in uc_mcontext.gregs, 4 bits each: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 */
	const u64 gregs = 0x76543210fa89becdULL;

	if (x->w->s.signal)
		return spoor_load(x, x->w->s.uc + 8 * (gregs >> (4 * (reg & 15)) & 15), ret);
	if (x->w->depth)
		return SPOOR_WALK_NO_ROWS;
	*ret = dwarf_reg((void *)bpf_task_pt_regs(bpf_get_current_task_btf()), reg & 15);
	return 0;
}

/*
 * The instruction that bounds a loop without the verifier counting its rounds, since 6.9. In bytes, since clang 14's
 * assembler does not know it: code 0xe5, no registers, the distance in instructions (16 bits), 0.
 */
#define may_goto(label)                                                                                               \
	asm volatile goto("1: .byte 0xe5, 0; .long ((%l[" #label "] - 1b - 8) / 8) & 0xffff; .short 0" : : : : label)

/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once
/*
 * Unwind rules, and the row table that maps every address of an object's code to one.
 * Shared by the kernel walker (BPF), the user-space unwinder and the row compiler.
 *
 * Source of the semantics: System V x86-64 psABI 3.4/3.7, DWARF 5 section 6.4, LSB .eh_frame.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/*
 * One rule, 8 bytes: how to get from a frame to its caller.
 *
 *   byte  0     1            2..3      4..7
 *        +-----+------------+---------+----------------------------+
 *        | op  | reg  | rbp | rbp_off | cfa_off                    |
 *        +-----+------------+---------+----------------------------+
 *               low    high nibble
 *
 * Rules that need no register of their own (END, PLT, SIGNAL: rsp; FP: rbp, and rbp saved at CFA-16) name it all the
 * same, so that a walker may fetch the base before it looks at op.
 *
 * reg is a DWARF register number (x86-64: 3 rbx, 6 rbp, 7 rsp, 10 r10, 12..15 r12..r15, 0 rax ...).
 * Registers other than rsp and rbp are known only in a frame whose full register set is known: the
 * innermost frame, and the frame that a signal interrupted. rbx is so too behind a frame with SPOOR_RULE_RBX that has
 * saved it, and behind further ones of that rule.
 */
enum spoor_rule_op {
	SPOOR_RULE_NONE = 0,   /* no row covers this address */
	SPOOR_RULE_END = 1,    /* outermost frame: return address undefined (_start, clone) */
	SPOOR_RULE_CFA = 2,    /* CFA = reg + cfa_off; return address at CFA-8 */
	SPOOR_RULE_DEREF = 3,  /* CFA = *(reg + (s16)cfa_off[15:0]) + (s16)cfa_off[31:16]; return address at CFA-8 */
	SPOOR_RULE_PLT = 4,    /* CFA = rsp + 8 + ((rip & 15) >= cfa_off ? 8 : 0); return address at CFA-8 */
	SPOOR_RULE_SIGNAL = 5, /* rsp points at a struct ucontext; the caller is the interrupted code, its pc exact */
	SPOOR_RULE_FP = 6,     /* frame pointer chain: CFA = rbp + 16; cfa_off not 0: nobody knows whether it is kept */
	SPOOR_RULE_RA_REG = 7, /* CFA = reg + (s16)cfa_off[15:0]; return address in register cfa_off[19:16] (vfork) */
	SPOOR_RULE_RA_OFF = 8, /* CFA = reg + (s16)cfa_off[15:0]; return address at CFA + (s16)cfa_off[31:16] */
	SPOOR_RULE_INJECTED = 9, /* as CFA; the caller was interrupted and made to call, its pc is exact */
	SPOOR_RULE_RBX = 10,  /* CFA = rsp, rbp or rbx + (s24)cfa_off[23:0]; rbp SAME or AT_CFA; the caller's rbx is at
			       * CFA - 8*cfa_off[31:24], 0: as it is; return address at CFA-8 */
	SPOOR_RULE_SCAN = 11, /* no rule: the next stack word that lies in code is a return address (--unwind scan) */
};

enum spoor_rule_rbp {
	SPOOR_RBP_SAME = 0,   /* the caller's rbp is this frame's */
	SPOOR_RBP_AT_CFA = 1, /* saved at CFA + rbp_off */
	SPOOR_RBP_AT_RBP = 2, /* saved at rbp + rbp_off (DW_CFA_expression of functions that realign the stack) */
	SPOOR_RBP_AT_REG = 3, /* saved at reg + rbp_off */
	SPOOR_RBP_UNDEF = 4,
};

struct spoor_rule {
	__u8 op;
	__u8 reg_rbp; /* reg | enum spoor_rule_rbp << 4 */
	__s16 rbp_off;
	__s32 cfa_off;
};
_Static_assert(sizeof(struct spoor_rule) == 8, "");

/*
 * A row says: from here on, this rule. Addresses are ELF virtual addresses of the object; they are
 * grouped in text pages of 64 KiB, so a row needs only 16 bits of address and a search covers one page.
 * The first row of every page has pc 0 (the rule in effect when the page begins).
 */
struct spoor_row {
	__u16 pc;   /* address within the text page */
	__u16 rule; /* index into the table's rules */
};

struct spoor_row_page {
	__u32 first; /* index into rows */
	__u32 count; /* 0: nothing known in this page */
};

#define SPOOR_TEXT_PAGE_SHIFT 16
#define SPOOR_TEXT_PAGE_MAX_ROWS 16384 /* a page with more (hostile) is left without rows */

/*
 * Row table: what the compiler makes of one object; also the format of the cache file (after its header).
 *   text_base   lowest executable address rounded down to a text page
 *   n_pages     pages[i] covers [text_base + i*64K, +64K)
 * rules[0] is always SPOOR_RULE_NONE.
 */
struct spoor_row_table {
	__u64 text_base;
	__u32 n_pages;
	__u32 n_rows;
	__u32 n_rules;
	__u32 pad;
	const struct spoor_row_page *pages;
	const struct spoor_row *rows;
	const struct spoor_rule *rules;
};

/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* Walk state: the frame whose caller is looked for. */
struct spoor_frame_state {
	__u64 pc, sp, bp;
	__u32 exact;  /* 1: pc is the instruction itself; 0: a return address, look up pc - 1 */
	__u32 signal; /* 1: a signal came there, all registers can be read at uc */
	__u64 uc;
	__u64 bx, bx_sp; /* rbx, if bx_sp == sp: then the step to this frame knew it (SPOOR_RULE_RBX) */
	__u64 guessed;   /* not 0: by frame pointers of code that perhaps keeps none, which skips callers */
};

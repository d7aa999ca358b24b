/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What counting keeps of a thread (SPOOR_THREAD_STATE of maps.bpf.h): the first line is what every call touches. */
#include "collect/kernel/counter.h"

#define ROUND_ENDED (~0ULL)
#define ROUND_ANEW (1ULL << 63) /* | serial: no round has seen what goes on under that */

struct thread {
	u64 start;   /* of the call in flight; 0: none */
	u64 blocked; /* time that it was off the CPU */
	u64 off;     /* since when it has been off the CPU; 0: it runs */
	u32 seq;     /* odd: slots are being written */
	u32 stack;   /* of the call in flight */
	u16 id;      /* its event id */
	u16 n_slots;
	u32 serial;
	SPOOR_MEMBER;

	u64 round;    /* of reading, the last that has seen this thread; ROUND_ENDED */
	u64 overflow; /* calls that found no slot */
	u64 owner_start;
	u32 owner_pid;
	u32 said_ended; /* that the process's last thread ends was said; in the group leader's storage */
	u8 outside;     /* since its last call ended no other has been seen to begin */
	u8 raw;         /* the stack of the call in flight was handed out raw: its id is of this one call */

	u8 index[SPOOR_COUNTER_INDEX + 8]
		__attribute__((aligned(8))); /* slot + 1: by event id, or with sites by hash */
	struct spoor_counter_slot slots[SPOOR_COUNTER_SLOTS];
	u8 slack[16]; /* a bucket's number has six bits, as the verifier sees it */
};
_Static_assert(sizeof(struct thread) <= 8192 - 192, "with the kernel's own header: one block of 8 KiB");

#define SPOOR_THREAD_HEAD offsetof(struct thread, index) /* bytes that must be cleared for a new one */

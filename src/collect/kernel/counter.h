/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What the counting collector and its user-space side share: a thread's slots as the iterator hands them out, and the
 * sums of what has ended.
 *
 * A thread counts in slots of its own, one for each system call (and call site) it makes; only it writes them. What
 * ended threads had counted lies in one of two banks, by process. A round of reading takes the bank that is in use,
 * has what ends from then on go to the other, and so finds in the first what nobody changes any more.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif
#include "trace/record.h"

#define SPOOR_COUNTER_BUCKETS 48
#define SPOOR_COUNTER_SLOTS 56 /* a thread's state then takes 8 KiB of the kernel's memory, with what surrounds it */
#define SPOOR_COUNTER_INDEX 1024
#define SPOOR_SLOT_ERRNOS 4 /* different errors of one call that a slot tells apart */
#define SPOOR_SUM_ERRNOS 16 /* the same for sums */

/* One system call [at one site] of a live thread. */
struct spoor_counter_slot {
	__u64 ns; /* written last, read first: each call makes it another (counted_read.bpf.h) */
	__u64 min_ns, max_ns, blocked_ns, errors;
	__u32 stack;
	__u16 id;  /* event id */
	__u8 wide; /* its spoor_counter_wide exists */
	__u8 pad;
	__u16 error[SPOOR_SLOT_ERRNOS]; /* errno; 0: unused */
	__u32 error_n[SPOOR_SLOT_ERRNOS];
	__u8 histogram[SPOOR_COUNTER_BUCKETS]; /* by powers of two ns; their sum is the number of calls */
};
_Static_assert(sizeof(struct spoor_counter_slot) == 120, "");

/* What has flowed over in a slot's histogram, in units of 256 calls. With the kernel's header it takes 256 bytes. */
#define SPOOR_WIDE_SHIFT 8
struct spoor_counter_wide {
	__u32 histogram[SPOOR_COUNTER_BUCKETS];
};
struct spoor_counter_wide_key {
	__u32 serial; /* of the thread */
	__u32 slot;
};

/* A call that has not returned. */
struct spoor_counter_flight {
	__u64 start, blocked_ns; /* start 0: none. blocked up to `off` */
	__u64 off;               /* since when it has been off the CPU; 0: it runs */
	__u32 stack;
	__u16 id;
	__u16 pad;
};

/* What the iterator says of a thread; n_slots slots follow, then n_wide times spoor_counter_wide, in their order. */
struct spoor_counter_thread {
	__u64 at, start, process_start; /* CLOCK_MONOTONIC ns */
	__u32 pid, tid, ppid, serial;
	__u32 n_slots, n_wide;
	__u64 overflow; /* calls that found no slot: they are in the sums of the process */
	struct spoor_counter_flight flight;
	char comm[16];
};
_Static_assert(sizeof(struct spoor_counter_thread) == 104, "");
_Static_assert(sizeof(struct spoor_counter_thread) + SPOOR_COUNTER_SLOTS * (sizeof(struct spoor_counter_slot) +
									    sizeof(struct spoor_counter_wide)) <=
		       32768,
	       "what one step of an iterator can say");

/* Who a sum is of. All zero: everybody, where sums by process were not asked for. */
struct spoor_counter_owner {
	__u64 start; /* of the group leader */
	__u32 pid;
	__u32 pad;
};

struct spoor_counter_key {
	__u64 start;
	__u32 pid;
	__u32 stack;
	__u32 id;
	__u32 pad;
};

/* Calls of which no end was seen, and the time that they took until then. */
struct spoor_counter_open {
	__u64 n, ns, blocked_ns;
};

/* One system call [at one site] of ended threads; added to by several CPUs at once, each field for itself. */
struct spoor_counter_sum {
	__u64 errors, ns, max_ns;
	__u64 min_complement; /* of the shortest: so both bounds are raised */
	__u64 blocked_ns;
	struct spoor_counter_open unreturned; /* their thread ended in them */
	struct spoor_counter_open left;       /* their thread went out of what is watched in them */
	__u64 histogram[SPOOR_COUNTER_BUCKETS];
	__u32 error[SPOOR_SUM_ERRNOS];
	__u64 error_n[SPOOR_SUM_ERRNOS];
};

/* A process of which a thread is or was in. */
struct spoor_counter_process {
	__u32 live;        /* threads that are in */
	__u32 times_ended; /* so often has its last thread; live tells when all are added up. Everybody's: of all */
	__u64 ended[2], overflow[2]; /* threads and calls, by bank, since ever */
	__u64 end;                   /* when the last of those that ended did */
	__u64 start;                 /* of the group leader, for everybody's the first one's; as the rest */
	__u32 pid, ppid;
	char comm[16];
};

/* The word that decides into which bank an ending thread goes. */
#define SPOOR_PHASE_BANK 1
#define SPOOR_PHASE_READING 2 /* the iterator is under way: threads that it has read go to the other bank */
#define SPOOR_PHASE_ROUND 4   /* x the number of the round */

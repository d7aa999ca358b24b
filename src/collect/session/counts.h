/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What was counted, by thread: live threads as the kernel has them, and what ended threads left, kept here by process.
 * Nothing is missed and nothing counted twice between two looks. Used from one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/kernel/rounds.h"

struct spoor_counts;

/* One live thread; or what ended threads of a process (tid 0), or of ended processes (pid 0 too), left. */
struct spoor_counted_task {
	pid_t pid, tid, ppid;
	uint32_t serial; /* of a live thread: another one after execve has given it its leader's ids; else 0 */
	pid_t first_pid; /* of several processes the first; else pid. comm, ppid and start are that one's */
	char comm[16];
	uint64_t start_ns, end_ns, process_start_ns; /* CLOCK_MONOTONIC; end 0: alive; process 0: unknown */
	uint64_t threads, processes;
	uint64_t overflow; /* calls of threads that had no slot for them: in what is of tid 0 */
};

/* One system call [at one site] of the task handed out before it. Times in ns. */
struct spoor_counted_call {
	uint16_t id;
	uint32_t stack;
	uint64_t calls, errors, ns, min_ns, max_ns, blocked_ns;
	uint64_t histogram[SPOOR_COUNTER_BUCKETS];
	uint32_t error[SPOOR_SUM_ERRNOS]; /* errno; 0: none. Further ones are in `errors` only */
	uint64_t error_n[SPOOR_SUM_ERRNOS];
	uint64_t in_flight, in_flight_ns, in_flight_blocked_ns;
	uint64_t unreturned, unreturned_ns, unreturned_blocked_ns;
};

struct spoor_count_visitor {
	void (*task)(void *ctx, const struct spoor_counted_task *t);
	void (*call)(void *ctx, const struct spoor_counted_call *c);
	void (*end)(void *ctx); /* no more calls of this task; may be NULL */
	void *ctx;
};

/*
 * keep: ended processes stay apart, until there are some thousands: then the oldest are thrown together. Else they all
 * are, once they were handed out by spoor_counts_finals(), or at once if `finals` is not set.
 */
int spoor_counts_new(struct spoor_kernel *k, bool keep, bool finals, struct spoor_counts **ret);
void spoor_counts_free(struct spoor_counts *c);

/* By site: stack_of() as spoor_site_stacks_id(), for ids that are of one call only. */
typedef uint32_t (*spoor_counts_stack_fn)(void *ctx, uint32_t stack, bool now);
void spoor_counts_name_stacks(struct spoor_counts *c, spoor_counts_stack_fn stack_of, void *ctx);

/* Everything so far. 0 or -errno; what was handed out until then is right, but not all. */
int spoor_counts_take(struct spoor_counts *c, const struct spoor_count_visitor *v);
/* Takes what ended threads have left from the kernel, which has room for some thousand processes. */
int spoor_counts_collect(struct spoor_counts *c);
/* Processes that have ended and were not handed out here yet, each complete. Returns how many. */
size_t spoor_counts_finals(struct spoor_counts *c, const struct spoor_count_visitor *v);
/* Calls that nothing else says, for want of kernel memory. */
uint64_t spoor_counts_lost(const struct spoor_counts *c);

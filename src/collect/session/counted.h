/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What was counted, in the form in which it is handed out, made of what the kernel keeps of it. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/kernel/counter.h"

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
	struct spoor_counter_open in_flight, unreturned, left;
};

struct spoor_count_visitor {
	void (*task)(void *ctx, const struct spoor_counted_task *t);
	void (*call)(void *ctx, const struct spoor_counted_call *c);
	void (*end)(void *ctx); /* no more calls of this task; may be NULL */
	void *ctx;
};

/* A sum of ended threads; a slot of a live one, with what flowed over (or NULL). */
struct spoor_counted_call spoor_counted_sum(const struct spoor_counter_key *key, const struct spoor_counter_sum *s);
struct spoor_counted_call spoor_counted_slot(const struct spoor_counter_slot *s, const struct spoor_counter_wide *w);
/* How long the thread's call in flight has taken when it was read. */
struct spoor_counter_open spoor_counted_flight(const struct spoor_counter_thread *t);

/* Adds a sum to another one. */
void spoor_sum_add(struct spoor_counter_sum *to, const struct spoor_counter_sum *s);
/* How many calls it is of: those that ended, and those that did not. */
uint64_t spoor_sum_entered(const struct spoor_counter_sum *s);

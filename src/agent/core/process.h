/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What must be new in a child process, however it was made (fork, vfork, clone, _Fork): a page that the kernel wipes on
 * fork. No handler is needed to notice a fork, and the lock in it is free in the child whoever held it.
 */
#include "agent/core/lock.h"

struct process {
	uint32_t alive; /* 0: this process has not been set up (it is a child) */
	uint32_t pid;
	uint32_t lock; /* tid of who holds it */
	uint32_t called; /* by the recorder, while somebody had it: this thread, once more then; */
	uint32_t again;  /* it was: its next SIGURG of our own is that */
	uint32_t probes_lock;
	uint32_t rcu;          /* readers are counted (agent/ust/rcu.h) */
	uint32_t rcu_in;       /* how many fork with liburcu's locks, and wait for readers (agent/ust/rcu.c) */
	uint64_t next_orphans; /* when to look for dead owners of packets again, ns */
	uint64_t next_dead;    /* and of producers */
	uint64_t drafts_hang;  /* until then, or until one is given back, nobody waits long for drafts in common */
	uint32_t drafts_awaited; /* by how many threads */
	uint32_t forked;       /* a child by fork(): its pid, which one by vfork() that has its memory has not */
	uint64_t start_time;   /* self_start_time(), once it was asked for; 0: not yet */
	uint64_t next_renew;   /* a child that could have no buffers: when to try again, ns; 0: has not tried */
};
extern struct process *process HIDDEN;

/* Once, before anything else. 0 or -errno. */
int process_init(void);

/*
 * While this thread changes what others may find half changed no signal handler runs in it: none that would come to the
 * same place, none that would leave it by siglongjmp, no cancellation.
 */
static inline uint64_t signals_block(void)
{
	uint64_t all = ~0ULL, old = 0;

	sys6(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&all, (long)&old, sizeof(all), 0, 0);
	return old;
}

static inline void signals_restore(uint64_t old)
{
	sys6(SYS_rt_sigprocmask, 2, (long)&old, 0, sizeof(old), 0, 0);
}

/*
 * The one lock around everything that changes state: patching, classes, arenas. Signals are blocked in whoever has it.
 * Returns false if this thread has it already. Async-signal-safe.
 */
bool process_lock(void);
bool process_trylock(void);
void process_unlock(void);

/* True once in `every` ns for one of all threads; *next is when it is next. */
bool now_and_then(uint64_t *next, uint64_t every);

/* Memory of the agent's own that fork wipes (zeroes) or not. NULL: none now, nor just before. Never given back. */
void *agent_memory(size_t size, bool wiped);

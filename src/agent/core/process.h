/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What must be new in a child process, however it was made (fork, vfork, clone, _Fork): a page that the kernel wipes on
 * fork. No handler is needed to notice a fork, and the lock in it is free in the child whoever held it.
 */
#include "agent/core/sys.h"

struct process {
	uint32_t alive; /* 0: this process has not been set up (it is a child) */
	uint32_t pid;
	uint32_t lock;  /* tid of who holds it */
	uint32_t probes_lock;
	uint64_t next_orphans; /* when to look for dead owners of packets again, ns */
};
extern struct process *process HIDDEN;

/* Once, before anything else. 0 or -errno. */
int process_init(void);

/*
 * The one lock around everything that changes state: patching, classes, arenas. Returns false if this thread has it
 * already (a signal handler over itself): the caller then does without. Async-signal-safe.
 */
bool process_lock(void);
void process_unlock(void);

/* Any lock that is a tid in memory that fork wipes; likewise. */
bool tid_lock(uint32_t *lock);
void tid_unlock(uint32_t *lock);

/* Whether that thread of this process is gone. */
bool thread_is_dead(uint32_t tid);

/* Memory of the agent's own that fork wipes (zeroes) or not; NULL when there is none. Never given back. */
void *agent_memory(size_t size, bool wiped);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "agent/core/clock.h"
#include "agent/core/process.h"

static struct process none;
struct process *process = &none;

#define MEMORY_EVERY 20000000 /* ns: so often an event asks for what there was not */

void *agent_memory(size_t size, bool wiped)
{
	static uint64_t next;
	long p;

	if (clock_monotonic() < __atomic_load_n(&next, __ATOMIC_RELAXED))
		return NULL;
	p = sys6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(p)) {
		__atomic_store_n(&next, clock_monotonic() + MEMORY_EVERY, __ATOMIC_RELAXED);
		return NULL;
	}
	if (wiped && sys_failed(sys3(SYS_madvise, p, size, MADV_WIPEONFORK))) {
		sys3(SYS_munmap, p, size, 0);
		return NULL;
	}
	return (void *)p;
}

int process_init(void)
{
	struct process *p;

	if (process != &none)
		return 0;
	p = agent_memory(4096, true);
	if (!p)
		return -ENOMEM;
	p->pid = sys_pid();
	p->alive = 1;
	p->rcu = none.rcu;
	process = p;
	return 0;
}

static uint64_t signals; /* of the thread that has the lock */

static bool lock(bool take(uint32_t *lock))
{
	uint64_t old = signals_block();

	if (take(&process->lock)) {
		signals = old;
		return true;
	}
	signals_restore(old);
	return false;
}

bool process_lock(void)
{
	return lock(tid_lock);
}

bool process_trylock(void)
{
	return lock(tid_trylock);
}

/* A thread that was called, and has ended since, blocked it not; perhaps we do not, either. */
static void call_again(uint32_t tid)
{
	__atomic_store_n(&process->again, 1, __ATOMIC_RELAXED);
	if (sys3(SYS_tgkill, process->pid, tid, SIGURG) == -ESRCH)
		sys3(SYS_tgkill, process->pid, sys_tid(), SIGURG);
}

void process_unlock(void)
{
	uint64_t old = signals;
	uint32_t tid = 0;

	tid_unlock(&process->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* who is called asks for the lock after he has said so */
	if (unlikely(__atomic_load_n(&process->called, __ATOMIC_RELAXED)))
		tid = __atomic_exchange_n(&process->called, 0, __ATOMIC_RELAXED);
	if (tid)
		call_again(tid);
	signals_restore(old);
}

bool now_and_then(uint64_t *next, uint64_t every)
{
	uint64_t now = clock_monotonic(), was = __atomic_load_n(next, __ATOMIC_RELAXED);

	return now >= was &&
	       __atomic_compare_exchange_n(next, &was, now + every, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

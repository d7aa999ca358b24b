/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "agent/ust/rcu.h"

#define BIT(sig) (1ULL << ((sig)-1))
/* Those that no program blocks, libc's own among them. */
#define NEVER_BLOCKED (BIT(SIGKILL) | BIT(SIGSTOP) | BIT(32) | BIT(33))

static bool used;          /* in this process or in one that it was forked from */
static __thread bool held; /* liburcu's locks, over a fork of this thread */

/* urcu_bp_before_fork() leaves them so: the program, or another library, may have called it, and taken its locks. */
static bool all_signals_blocked(void)
{
	uint64_t blocked = 0;

	sys6(SYS_rt_sigprocmask, 0, 0, (long)&blocked, sizeof(blocked), 0, 0);
	return (blocked | NEVER_BLOCKED) == ~0ULL;
}

#define WAITS 0x10000 /* of rcu_in; below that are forks */

/* Who waits comes first: else many threads that fork could keep him waiting for as long as they do. */
static bool begin_fork(void)
{
	uint32_t n = __atomic_load_n(&process->rcu_in, __ATOMIC_RELAXED);

	while (n < WAITS)
		if (__atomic_compare_exchange_n(&process->rcu_in, &n, n + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

/*
 * To wait for who waits for probes, with liburcu's lock, could be for ever: this thread may be in one, or have a lock
 * of the program's that one takes.
 */
static void before_fork(void)
{
	if (!used || !process->rcu || all_signals_blocked() || urcu_bp_read_ongoing() || !begin_fork())
		return;
	urcu_bp_before_fork();
	held = true;
}

static void after_in_parent(void)
{
	if (!held)
		return;
	held = false;
	urcu_bp_after_fork_parent();
	__atomic_fetch_sub(&process->rcu_in, 1, __ATOMIC_RELEASE);
}

static void after_in_child(void)
{
	if (!held)
		return;
	held = false;
	process->rcu = 1;
	urcu_bp_after_fork_child();
}

void rcu_begin(void)
{
	pthread_atfork(before_fork, after_in_parent, after_in_child);
}

void rcu_use(void)
{
	if (used)
		return;
	process->rcu = 1;
	used = true;
}

bool rcu_wait(void)
{
	static const struct timespec a_while = { .tv_nsec = 1000000 };

	if (!process->rcu || rcu_reading())
		return false;
	__atomic_fetch_add(&process->rcu_in, WAITS, __ATOMIC_RELAXED);
	while (__atomic_load_n(&process->rcu_in, __ATOMIC_ACQUIRE) % WAITS)
		sys3(SYS_nanosleep, (long)&a_while, 0, 0);
	urcu_bp_synchronize_rcu();
	__atomic_fetch_sub(&process->rcu_in, WAITS, __ATOMIC_RELEASE);
	return true;
}

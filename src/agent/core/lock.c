/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/clock.h"
#include "agent/core/lock.h"
#include "agent/core/process.h"

bool thread_is_dead(uint32_t tid)
{
	return sys3(SYS_tgkill, process->pid, tid, 0) == -ESRCH;
}

bool tid_trylock(uint32_t *lock)
{
	uint32_t nobody = 0;

	return __atomic_compare_exchange_n(lock, &nobody, sys_tid(), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void free_of(uint32_t *lock, uint32_t dead)
{
	__atomic_compare_exchange_n(lock, &dead, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define A_WHILE 1000000 /* ns: who sleeps looks again, so that the holder's unlock is a plain store */

bool tid_lock(uint32_t *lock)
{
	uint32_t tid = sys_tid(), holder;

	for (;;) {
		holder = 0;
		if (__atomic_compare_exchange_n(lock, &holder, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		if (holder == tid)
			return false;
		if (thread_is_dead(holder))
			free_of(lock, holder);
		else
			futex_wait(lock, holder, A_WHILE);
	}
}

void tid_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#define AWAITED (1U << 31) /* beside the tid: its unlock wakes the one that has waited longest */
#define SPINS 50
#define MOST_TURNS 1000

/* *ret_held: by whom it is held, if it is. */
static bool try_some(uint32_t *lock, uint32_t mine, uint32_t *ret_held)
{
	int i;

	for (i = 0; i < SPINS; i++) {
		*ret_held = 0;
		if (__atomic_compare_exchange_n(lock, ret_held, mine, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		cpu_relax();
	}
	return false;
}

bool lock_in_turn(uint32_t *lock, uint64_t *hangs)
{
	uint32_t mine = sys_tid(), held;
	int turns, looks = 0; /* at the same holder */

	for (turns = 0; turns < MOST_TURNS && looks < WAIT_MOST; turns++) {
		if (try_some(lock, mine, &held))
			return true;
		if (clock_monotonic() < __atomic_load_n(hangs, __ATOMIC_RELAXED) && !thread_is_dead(held & ~AWAITED))
			return false;
		mine |= AWAITED; /* as far as we know, by others as well */
		if (!(held & AWAITED) && !__atomic_compare_exchange_n(lock, &held, held | AWAITED, false,
								      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		held |= AWAITED;
		if (futex_wait(lock, held, WAIT_LOOK) || __atomic_load_n(lock, __ATOMIC_RELAXED) != held)
			looks = 0;
		else if (thread_is_dead(held & ~AWAITED))
			free_of(lock, held);
		else
			looks++;
	}
	__atomic_store_n(hangs, clock_monotonic() + WAIT_HANGS, __ATOMIC_RELAXED);
	return false;
}

void unlock_in_turn(uint32_t *lock, uint64_t *hangs)
{
	if (unlikely(__atomic_load_n(hangs, __ATOMIC_RELAXED)))
		__atomic_store_n(hangs, 0, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) & AWAITED)
		futex_wake(lock, 1);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reserving room for an event. The fast path is a handful of plain loads and stores on memory of this thread alone.
 * `busy` is set first: from then on a signal handler takes the next level. Nothing that is tested before can have
 * changed in between, because a handler leaves things as if it had not been.
 */
#include <pthread.h>

#include "agent/core/aside.h"
#include "agent/core/clock.h"
#include "agent/core/packets.h"
#include "agent/core/perf.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/core/stack.h"
#include "trace/record.h"

/*
 * `busy` of `nobody` is every new thread's. gcc makes two instructions of an atomic load and its comparison, so only
 * ThreadSanitizer is told that it is one.
 */
#ifdef __SANITIZE_THREAD__
#define HOT_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#else
#define HOT_LOAD(x) (x)
#endif
#define NO_HANDLE ((struct spoor_handle){ NULL, NULL })

static pthread_key_t key;
static bool has_key;

/* Runs at the thread's end, again if events came after it. */
static void thread_ends(void *b)
{
	uint64_t signals = signals_block();

	block = &nobody;
	if (block_tid(b)) { /* else it is the parent process's */
		packets_give_back_all(b);
		perf_close(b);
		blocks_free(b);
	}
	signals_restore(signals);
}

/* glibc keeps the values of so many keys in the thread itself; for those of more it calls calloc(). */
#define EARLY_KEYS 32

void reserve_init(void)
{
	if (has_key || pthread_key_create(&key, thread_ends))
		return;
	has_key = key < EARLY_KEYS;
	if (!has_key) /* packets then wait until their owner is found dead */
		pthread_key_delete(key);
}

static inline __attribute__((always_inline)) void put_head(char *at, uint64_t ts, unsigned id, size_t size,
							   uint32_t tid)
{
	uint64_t *words = (uint64_t *)at;

	*(uint64_t *)(at + size - 8) = 0; /* the padding; the head and the fields come over it */
	words[0] = ts;
	words[1] = (uint64_t)id | (uint64_t)size << 14 /* size4 */ | (uint64_t)tid << 32;
}

static void count(__u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static struct slot *slot_of(const struct spoor_tracepoint *tp)
{
	return &slots[tp_slot(tp)];
}

/*
 * What this event may use, marked as busy: of the first level that no unfinished event is on. NULL: it is too deep, or
 * there is no memory.
 */
static struct producer *claim(struct slot *s, struct block *b, size_t offset, uintptr_t sp)
{
	struct stack_here here = STACK_HERE(sp);
	unsigned level;

	for (level = 0; b && level < SPOOR_PACKET_LEVELS; level++, b = block_deeper(b)) {
		struct producer *p = (struct producer *)((char *)b + offset);
		uintptr_t busy = p->p.busy;

		if (busy && !stack_was_left(&here, busy))
			continue;
		__atomic_store_n(&p->p.busy, sp, __ATOMIC_RELAXED);
		barrier();
		p->tid = block_tid(b);
		/* What was left may still be written to by whom we believe gone: not into what comes next. */
		if (busy)
			packet_give_back(s, p, true);
		return p;
	}
	return NULL;
}

static struct spoor_handle reserve_aside(struct spoor_tracepoint *tp, struct slot *s, size_t size, uintptr_t sp,
					 bool deep)
{
	char *at = aside_begin(s, sp, deep);

	if (!at) {
		count(&s->channel->lost);
		return NO_HANDLE;
	}
	put_head(at, 0, tp_id(tp), size, sys_tid());
	return (struct spoor_handle){ at, NULL };
}

static unsigned level_of(const struct producer *p, size_t offset)
{
	return ((const struct block *)((const char *)p - offset))->level;
}

static struct spoor_handle reserve_in(struct spoor_tracepoint *tp, struct slot *s, struct block *b, size_t size,
				      uintptr_t sp)
{
	size_t offset = SPOOR_SLOT_OFFSET((size_t)(s - slots)); /* the tracepoint's own may change */
	struct producer *p = claim(s, b, offset, sp);

	if (p && (producer_has_room(p, size) || packet_next(s, p, level_of(p, offset), size))) {
		put_head(p->p.at, clock_stamp(), tp_id(tp), size, p->tid);
		return (struct spoor_handle){ p->p.at, &p->p };
	}
	if (p)
		__atomic_store_n(&p->p.busy, 0, __ATOMIC_RELEASE);
	return reserve_aside(tp, s, size, sp, !p);
}

struct block *reserve_enter(void)
{
	struct block *b = block;

	if (b != &nobody && block_tid(b))
		return b;
	b = block_own();
	if (b && has_key)
		pthread_setspecific(key, b); /* of an early key: a store */
	return b;
}

/*
 * Others that were made by clone() without CLONE_SETTLS have this block, too, and did not say so (spoor_thread_init()):
 * they show when they come this way. A child of vfork() has its parent's for a while, which is no matter.
 */
static bool is_shared(struct block *b)
{
	if (!block_is_shared(b) && unlikely(block_tid(b) != sys_tid()) && sys_pid() == process->pid)
		block_share(b);
	return block_is_shared(b);
}

static struct spoor_handle reserve_there(struct spoor_tracepoint *tp, struct slot *s, size_t size, uintptr_t sp)
{
	struct block *b;

	if (!slot_knows(s, (uint16_t)tp_id(tp)))
		return NO_HANDLE; /* the slot has become another arena's since the site looked */
	if (size > RESERVE_MOST || size > s->packet_size) {
		count(&s->channel->lost_large);
		return NO_HANDLE;
	}
	b = reserve_enter();
	if (!b || is_shared(b))
		return reserve_aside(tp, s, size, sp, false);
	return reserve_in(tp, s, b, size, sp);
}

static struct spoor_handle reserve_blocked(struct spoor_tracepoint *tp, size_t size, uintptr_t sp)
{
	struct slot *s = slot_of(tp);
	struct spoor_handle h;

	if (unlikely(!process->alive) && outputs_renew(false)) {
		slot_lose(s);
		return NO_HANDLE;
	}
	if (!slot_enter(s))
		return NO_HANDLE;
	h = reserve_there(tp, s, size, sp);
	slot_leave(s);
	return h;
}

/* Nothing has changed since no room was found: to ask again would cost system calls, at each event. */
static bool is_hopeless(struct spoor_tracepoint *tp, size_t size)
{
	struct slot *s = slot_of(tp);
	const struct producer *p = (struct producer *)((char *)block + tp_offset(tp));

	if (unlikely(!process->alive))
		return outputs_missing();
	return p->gave_up && !p->p.busy && size <= s->packet_size && size <= RESERVE_MOST && packets_gave_up(s, p);
}

static __attribute__((noinline, cold)) struct spoor_handle reserve_slow(struct spoor_tracepoint *tp, size_t size,
									uintptr_t sp)
{
	uint64_t signals;
	struct spoor_handle h;

	if (is_hopeless(tp, size)) {
		slot_lose(slot_of(tp));
		return NO_HANDLE;
	}
	signals = signals_block();
	h = reserve_blocked(tp, size, sp);
	signals_restore(signals);
	return h;
}

static inline __attribute__((always_inline)) struct spoor_handle reserve(struct spoor_tracepoint *tp, size_t size,
									 bool tsc)
{
	struct producer *p = (struct producer *)((char *)block + tp_offset(tp));
	uintptr_t sp = stack_pointer();
	char *at;

	if (unlikely(HOT_LOAD(p->p.busy)))
		return reserve_slow(tp, size, sp);
	__atomic_store_n(&p->p.busy, sp, __ATOMIC_RELAXED);
	barrier();
	at = p->p.at;
	if (unlikely((ptrdiff_t)size > __atomic_load_n(&p->p.end, __ATOMIC_RELAXED) - at || size > RESERVE_MOST)) {
		__atomic_store_n(&p->p.busy, 0, __ATOMIC_RELEASE);
		barrier();
		return reserve_slow(tp, size, sp);
	}
	put_head(at, tsc ? rdtsc() : clock_monotonic(), tp_id(tp), size, p->tid);
	return (struct spoor_handle){ at, &p->p };
}

struct spoor_handle reserve_tsc(struct spoor_tracepoint *tp, size_t size, const void *site)
{
	(void)site;
	return reserve(tp, size, true);
}

struct spoor_handle reserve_monotonic(struct spoor_tracepoint *tp, size_t size, const void *site)
{
	(void)site;
	return reserve(tp, size, false);
}

struct spoor_handle reserve_nothing(struct spoor_tracepoint *tp, size_t size, const void *site)
{
	(void)tp;
	(void)size;
	(void)site;
	return NO_HANDLE;
}

/*
 * For threads that were made by clone() without CLONE_SETTLS and so share the thread-local storage of another: call
 * it in one of them before its first event. From then on all who share it write into the shared packet.
 */
void reserve_share_thread(void)
{
	uint64_t signals = signals_block();
	struct block *b = reserve_enter();
	unsigned i;

	if (b)
		block_share(b);
	for (i = 0; b && i < SPOOR_SLOTS; i++)
		if (slot_enter(&slots[i])) {
			packet_give_back(&slots[i], &b->slot[i], true);
			slot_leave(&slots[i]);
		}
	signals_restore(signals);
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What ended threads had counted: added up by process, in one of two banks (counter.h). Several CPUs may add to one sum
 * at once; that happens at a thread's end only.
 */
#include "collect/kernel/threads.bpf.h"

const volatile bool by_process = false; /* else all sums are everybody's */

u64 phase = 0;      /* SPOOR_PHASE_*, written by user space */
u64 lost_calls = 0; /* found no room at all */
u32 next_serial = 1;

#define MAX_SUMS (1 << 17)
#define MAX_WIDES (1 << 19)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_SUMS);
	__type(key, struct spoor_counter_key);
	__type(value, struct spoor_counter_sum);
} sums_0 SEC(".maps"), sums_1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_SUMS);
	__type(key, struct spoor_counter_owner);
	__type(value, struct spoor_counter_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_WIDES);
	__type(key, struct spoor_counter_wide_key);
	__type(value, struct spoor_counter_wide);
} wides SEC(".maps");

static const struct spoor_counter_sum no_sum;
static const struct spoor_counter_wide no_wide;

/* Adding up one thread, or one call. */
struct fold {
	struct thread *t;
	struct spoor_counter_key key;
	u32 bank;
};

static __always_inline void add(u64 *to, u64 n)
{
	if (n)
		__sync_fetch_and_add(to, n);
}

#define RAISE_TRIES 64

static __always_inline void raise(u64 *to, u64 n)
{
	u64 old;
	int i;

	for (i = 0; i < RAISE_TRIES; i++) {
		old = *(volatile u64 *)to;
		if (old >= n || __sync_val_compare_and_swap(to, old, n) == old)
			return;
	}
}

/* These are verified on their own, once: not static. */
__noinline int add_times(struct spoor_counter_sum *sum, u64 ns, u64 blocked, u64 min, u64 max)
{
	if (!sum)
		return 0;
	add(&sum->ns, ns);
	add(&sum->blocked_ns, blocked);
	raise(&sum->max_ns, max);
	raise(&sum->min_complement, ~min);
	return 0;
}

/* What finds no place here is in `errors` only. */
__noinline int add_error(struct spoor_counter_sum *sum, u32 number, u64 n)
{
	u32 old;
	int i;

	if (!sum)
		return 0;
	for (i = 0; i < SPOOR_SUM_ERRNOS; i++) {
		old = sum->error[i];
		if (!old)
			old = __sync_val_compare_and_swap(&sum->error[i], 0, number) ?: number;
		if (old == number) {
			add(&sum->error_n[i], n);
			return 0;
		}
	}
	return 0;
}

static __always_inline void fold_into(struct fold *f, struct thread *t, u32 bank)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->t = t;
	f->bank = bank;
	f->key.start = t->owner_start;
	f->key.pid = t->owner_pid;
}

static __always_inline struct spoor_counter_sum *find_sum(struct spoor_counter_key *key, u32 bank)
{
	return bank ? bpf_map_lookup_elem(&sums_1, key) : bpf_map_lookup_elem(&sums_0, key);
}

static __always_inline struct spoor_counter_sum *make_sum(struct spoor_counter_key *key, u32 bank)
{
	struct spoor_counter_sum *sum = find_sum(key, bank);

	if (sum)
		return sum;
	if (bank)
		bpf_map_update_elem(&sums_1, key, &no_sum, BPF_NOEXIST);
	else
		bpf_map_update_elem(&sums_0, key, &no_sum, BPF_NOEXIST);
	return find_sum(key, bank);
}

/* The process's sum of a call; without room for it everybody's; NULL if there is none for that either. */
static __always_inline struct spoor_counter_sum *sum_of(struct fold *f, u32 id, u32 stack)
{
	struct spoor_counter_key all = { .id = id };
	struct spoor_counter_sum *sum;

	f->key.id = id;
	f->key.stack = stack;
	sum = make_sum(&f->key, f->bank);
	return sum ? sum : make_sum(&all, f->bank);
}

/* ---- a thread's end ---- */

__noinline int add_histogram(struct spoor_counter_sum *sum, struct spoor_counter_slot *s)
{
	int i;

	if (!sum || !s)
		return 0;
	for (i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		add(&sum->histogram[i], s->histogram[i]);
	return 0;
}

__noinline int add_wide(struct spoor_counter_sum *sum, struct spoor_counter_wide *w)
{
	int i;

	if (!sum || !w)
		return 0;
	for (i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		add(&sum->histogram[i], (u64)w->histogram[i] << SPOOR_WIDE_SHIFT);
	return 0;
}

__noinline int add_errors(struct spoor_counter_sum *sum, struct spoor_counter_slot *s)
{
	int i;

	if (!sum || !s)
		return 0;
	add(&sum->errors, s->errors);
	for (i = 0; i < SPOOR_SLOT_ERRNOS; i++)
		if (s->error[i])
			add_error(sum, s->error[i], s->error_n[i]);
	return 0;
}

/* No room for a sum. */
__noinline int lose(struct spoor_counter_slot *s)
{
	u64 n = 0;
	int i;

	if (!s)
		return 0;
	for (i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		n += s->histogram[i];
	__sync_fetch_and_add(&lost_calls, n);
	return 0;
}

__noinline int lose_wide(struct spoor_counter_wide *w)
{
	u64 n = 0;
	int i;

	if (!w)
		return 0;
	for (i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		n += w->histogram[i];
	__sync_fetch_and_add(&lost_calls, n << SPOOR_WIDE_SHIFT);
	return 0;
}

/* What a slot has beside it goes the same way. */
static __always_inline void fold_wide(struct fold *f, u32 slot, struct spoor_counter_sum *sum)
{
	struct spoor_counter_wide_key key = { .serial = f->t->serial, .slot = slot };
	struct spoor_counter_wide *w = bpf_map_lookup_elem(&wides, &key);

	if (!w)
		return;
	if (sum)
		add_wide(sum, w);
	else
		lose_wide(w);
	bpf_map_delete_elem(&wides, &key);
}

static long fold_slot(u32 i, void *ctx)
{
	struct fold *f = ctx;
	struct spoor_counter_slot *s;
	struct spoor_counter_sum *sum;

	if (i >= SPOOR_COUNTER_SLOTS)
		return 1;
	s = &f->t->slots[i];
	sum = sum_of(f, s->id, s->stack);
	if (s->wide)
		fold_wide(f, i, sum);
	if (!sum) {
		lose(s);
		return 0;
	}
	add_times(sum, s->ns, s->blocked_ns, s->min_ns, s->max_ns);
	add_histogram(sum, s);
	if (s->errors)
		add_errors(sum, s);
	return 0;
}

/* The call in which the thread ends, or goes out. */
static __always_inline void fold_flight(struct fold *f, struct thread *t, bool left)
{
	struct spoor_counter_open *open;
	struct spoor_counter_sum *sum;
	u64 now;

	if (!t->start || t->wait_exec)
		return;
	sum = sum_of(f, t->id, t->stack);
	if (!sum) {
		__sync_fetch_and_add(&lost_calls, 1);
		return;
	}
	now = bpf_ktime_get_ns();
	open = left ? &sum->left : &sum->unreturned;
	add(&open->n, 1);
	add(&open->ns, now - t->start);
	add(&open->blocked_ns, t->blocked + (t->off ? now - t->off : 0));
}

static __always_inline struct spoor_counter_process *process_of(struct thread *t)
{
	struct spoor_counter_owner owner = {};

	owner.start = t->owner_start;
	owner.pid = t->owner_pid;
	return bpf_map_lookup_elem(&processes, &owner);
}

/*
 * Into which bank an ending thread goes. p: the phase, read before old, the thread's round, was replaced. If the
 * iterator has read the thread in the round that is under way, it must not be in what this round finds in its bank.
 * A round cannot end while this runs: user space waits for a grace period before it looks into the bank.
 */
static __always_inline u32 bank_of(u64 p, u64 old)
{
	u64 round = p / SPOOR_PHASE_ROUND;
	u32 bank = p & SPOOR_PHASE_BANK;

	if ((p & SPOOR_PHASE_READING) ? old == round : old == round + 1)
		return !bank;
	return bank;
}

/* Once a process: its last threads can be ending at the same time, and each finds that there is no other. */
static __always_inline bool first_to_say_ended(struct task_struct *task, struct thread *t)
{
	return !__sync_lock_test_and_set(&leader_of(task, t)->said_ended, 1);
}

enum fold_how {
	FOLD_LAST = 1, /* its process ends, or goes out, with it */
	FOLD_LEFT = 2, /* it goes on elsewhere */
};

static __noinline int fold_thread(struct task_struct *task, struct thread *t, u32 how)
{
	u64 p = *(volatile u64 *)&phase, old;
	struct spoor_counter_process *proc;
	struct fold f;

	if (!task || !t)
		return 0;
	old = __sync_lock_test_and_set(&t->round, ROUND_ENDED);
	if (old == ROUND_ENDED)
		return 0;
	fold_into(&f, t, bank_of(p, old));
	bpf_loop(t->n_slots, fold_slot, &f, 0);
	fold_flight(&f, t, how & FOLD_LEFT);
	t->start = 0;
	proc = process_of(t);
	if (!proc)
		return 0;
	add(&proc->ended[f.bank & 1], 1);
	add(&proc->overflow[f.bank & 1], t->overflow);
	raise(&proc->end, bpf_ktime_get_ns());
	if (proc->pid == task->tgid)
		bpf_probe_read_kernel(proc->comm, sizeof(proc->comm), task->group_leader->comm);
	if (how & FOLD_LAST)
		__sync_fetch_and_add(&proc->times_ended, 1);
	if (__sync_fetch_and_add(&proc->live, -1) == 1 && *(volatile u32 *)&proc->times_ended && by_process)
		bpf_ringbuf_output(&wakeups, &(u64){ 1 }, 8, BPF_RB_FORCE_WAKEUP);
	return 0;
}

static __always_inline void clear_slots(struct thread *t)
{
	volatile u64 *index = (u64 *)t->index, *slots = (u64 *)t->slots;
	u32 i;

	for (i = 0; i < sizeof(t->index) / 8; i++)
		index[i] = 0;
	for (i = 0; i < sizeof(t->slots) / 8; i++)
		slots[i] = 0;
}

/*
 * A thread that is not the leader executes a program: it takes over the leader's ids, so an iterator could miss it, and
 * it would be taken for the leader. What it has counted is added up as if it had ended, and it goes on as another one.
 * In the round under way it stays what it was, read or not.
 */
static __noinline int begin_anew(struct thread *t)
{
	u64 p = *(volatile u64 *)&phase, old;
	struct spoor_counter_process *proc;
	struct fold f;

	if (!t)
		return 0;
	old = __sync_lock_test_and_set(&t->round, ROUND_ENDED);
	fold_into(&f, t, bank_of(p, old));
	bpf_loop(t->n_slots, fold_slot, &f, 0);
	proc = process_of(t);
	if (proc)
		add(&proc->overflow[f.bank & 1], t->overflow);
	t->overflow = 0;
	t->n_slots = 0;
	clear_slots(t);
	t->serial = __sync_fetch_and_add(&next_serial, 1);
	barrier();
	*(volatile u64 *)&t->round = f.bank == (p & SPOOR_PHASE_BANK) ? ROUND_ANEW | t->serial : old;
	return 0;
}

/* ---- a thread's coming in ---- */

static __noinline int own_thread(struct task_struct *task, struct thread *t)
{
	struct spoor_counter_process fresh = { .live = 1 }, *proc;
	struct spoor_counter_owner owner = {};

	if (!task || !t)
		return 0;
	t->serial = __sync_fetch_and_add(&next_serial, 1);
	if (by_process) {
		t->owner_start = owner.start = task->group_leader->start_time;
		t->owner_pid = owner.pid = task->tgid;
	}
	proc = bpf_map_lookup_elem(&processes, &owner);
	if (!proc) {
		fresh.start = task->group_leader->start_time;
		fresh.pid = task->tgid;
		fresh.ppid = task->real_parent->tgid;
		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), task->group_leader->comm);
		if (!bpf_map_update_elem(&processes, &owner, &fresh, BPF_NOEXIST))
			return 0;
		proc = bpf_map_lookup_elem(&processes, &owner); /* another CPU was faster; or there is no room */
	}
	if (proc)
		__sync_fetch_and_add(&proc->live, 1);
	return 0;
}

/* It did not come in after all. */
static __always_inline void disown_thread(struct thread *t)
{
	struct spoor_counter_process *proc = process_of(t);

	if (proc)
		__sync_fetch_and_add(&proc->live, -1);
}

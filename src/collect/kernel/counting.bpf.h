/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Counting: a stamp at a system call's entry, at its exit an addition to the thread's own slot. No locked instruction,
 * nothing shared between threads. seq is odd meanwhile: so the reader, on another CPU, knows what belongs together.
 */
#include "collect/kernel/announce.bpf.h"
#include "collect/kernel/sums.bpf.h"

/* ---- constants, set before loading ---- */
const volatile bool filtered = false; /* some calls are not counted (-e) */
const volatile bool by_site = false;

/* ---- slots ---- */

/* floor(log2(i)) */
static const u8 log2_of[256] = {
#define LOG_4(n) n, n, n, n
#define LOG_16(n) LOG_4(n), LOG_4(n), LOG_4(n), LOG_4(n)
	0,         0,         1,         1,         2,         2,         2,         2,
	3,         3,         3,         3,         3,         3,         3,         3,
	LOG_16(4), LOG_16(5), LOG_16(5), LOG_16(6), LOG_16(6), LOG_16(6), LOG_16(6), LOG_16(7),
	LOG_16(7), LOG_16(7), LOG_16(7), LOG_16(7), LOG_16(7), LOG_16(7), LOG_16(7),
#undef LOG_16
#undef LOG_4
};

static __always_inline u32 bucket_of(u64 ns)
{
	u32 b = 0;

	if (ns < 256)
		return log2_of[ns & 255];
	if (ns < 65536)
		return 8 + log2_of[ns >> 8 & 255];
	if (ns >> 47)
		return SPOOR_COUNTER_BUCKETS - 1;
	if (ns >> 32) {
		b = 32;
		ns >>= 32;
	}
	if (ns >> 16) {
		b += 16;
		ns >>= 16;
	}
	if (ns >> 8) {
		b += 8;
		ns >>= 8;
	}
	return b + log2_of[ns & 255];
}

static __always_inline u32 new_slot(struct thread *t, u32 at, u32 id, u32 stack)
{
	u32 i = t->n_slots;
	struct spoor_counter_slot *s;

	if (i >= SPOOR_COUNTER_SLOTS)
		return 0;
	s = &t->slots[i];
	s->id = id;
	s->stack = stack;
	s->min_ns = ~0ULL;
	t->n_slots = i + 1;
	if (at < SPOOR_COUNTER_INDEX + 8)
		t->index[at] = i + 1;
	return i + 1;
}

/* The slot + 1 of a call, made where there is none; 0: no room. */
static __always_inline u32 slot_of_call(struct thread *t, u32 id)
{
	u32 i;

	if (id > SPOOR_SYSCALL_MAX)
		return 0;
	i = t->index[id];
	return i ? i : new_slot(t, id, id, 0);
}

#define SITE_PROBES 8

static __always_inline u32 slot_of_site(struct thread *t, u32 id, u32 stack)
{
	u32 at = mix(id, stack) >> 20, n;

	for (n = 0; n < SITE_PROBES; n++, at++) {
		u32 i = t->index[at & (SPOOR_COUNTER_INDEX - 1)];
		struct spoor_counter_slot *s;

		if (!i)
			return new_slot(t, at & (SPOOR_COUNTER_INDEX - 1), id, stack);
		i = opaque(i - 1);
		if (i >= SPOOR_COUNTER_SLOTS)
			return 0;
		s = &t->slots[i];
		if (s->id == id && s->stack == stack)
			return i + 1;
	}
	return 0;
}

/* ---- what is rare ---- */

/* A bucket of 8 bits has come round: the rest of its number is kept beside the thread. */
static __noinline int widen(struct thread *t, u32 slot, u32 bucket)
{
	struct spoor_counter_wide_key key = { .slot = slot };
	struct spoor_counter_wide *w;

	if (!t || slot >= SPOOR_COUNTER_SLOTS || bucket >= SPOOR_COUNTER_BUCKETS)
		return 0;
	key.serial = t->serial;
	w = bpf_map_lookup_elem(&wides, &key);
	if (!w) {
		bpf_map_update_elem(&wides, &key, &no_wide, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&wides, &key);
	}
	if (w) {
		w->histogram[bucket]++;
		t->slots[slot].wide = 1;
	} else {
		__sync_fetch_and_add(&lost_calls, 1 << SPOOR_WIDE_SHIFT);
	}
	return 0;
}

static __noinline int count_error(struct thread *t, u32 slot, u32 number)
{
	struct spoor_counter_slot *s;
	int i;

	if (!t || slot >= SPOOR_COUNTER_SLOTS)
		return 0;
	s = &t->slots[slot];
	s->errors++;
	for (i = 0; i < SPOOR_SLOT_ERRNOS; i++) {
		if (!s->error[i])
			s->error[i] = number;
		if (s->error[i] != (u16)number)
			continue;
		if (s->error_n[i] != ~0u)
			s->error_n[i]++;
		return 0;
	}
	return 0;
}

/*
 * A call that found no slot goes straight to its process: into the round under way, unless its thread was read in that
 * already, maybe with this call in flight. Who has copied the thread but not claimed it sees by overflow that the call
 * came here (an atomic addition: it is there before the round is looked at).
 */
static __noinline int count_elsewhere(struct thread *t, u64 ns, u64 blocked, s64 ret)
{
	u32 b = opaque(bucket_of(ns)) & 63;
	struct spoor_counter_sum *sum;
	struct fold f;
	u64 p;

	if (!t)
		return 0;
	__sync_fetch_and_add(&t->overflow, 1);
	p = *(volatile u64 *)&phase;
	fold_into(&f, t, bank_of(p, *(volatile u64 *)&t->round));
	sum = sum_of(&f, t->id, t->stack);
	if (!sum) {
		__sync_fetch_and_add(&lost_calls, 1);
		return 0;
	}
	add_times(sum, ns, blocked, ns, ns);
	if (b < SPOOR_COUNTER_BUCKETS)
		add(&sum->histogram[b], 1);
	if (ret < 0 && ret >= -4095) {
		add(&sum->errors, 1);
		add_error(sum, -ret, 1);
	}
	return 0;
}

/* ---- the two halves of a call ---- */

/* Between the two what a reader copies is not of one moment. */
static __always_inline void writing(struct thread *t)
{
	*(volatile u32 *)&t->seq = t->seq + 1;
	barrier();
}

static __always_inline void written(struct thread *t)
{
	barrier();
	*(volatile u32 *)&t->seq = t->seq + 1;
}

static __always_inline void count_here(struct thread *t, u32 slot, u64 ns, s64 ret)
{
	struct spoor_counter_slot *s = &t->slots[slot];
	u32 b = bucket_of(ns) & 63;
	u8 n = s->histogram[b] + 1;

	if (ns < s->min_ns)
		s->min_ns = ns;
	if (ns > s->max_ns)
		s->max_ns = ns;
	s->histogram[b] = n;
	if (!n)
		widen(t, slot, b);
	if (t->blocked) {
		s->blocked_ns += t->blocked;
		t->blocked = 0;
	}
	if ((u64)ret >= (u64)-4095)
		count_error(t, slot, -ret);
	barrier();
	s->ns += ns; /* last: by it a reader sees that there is more */
}

static __always_inline void count_call(struct thread *t, u64 ns, s64 ret)
{
	u32 id = t->id, i;

	if (by_site)
		i = t->raw ? 0 : slot_of_site(t, id, t->stack);
	else
		i = slot_of_call(t, id);
	i = opaque(i - 1);
	writing(t);
	if (i >= SPOOR_COUNTER_SLOTS) {
		count_elsewhere(t, ns, t->blocked, ret);
		t->blocked = 0;
	} else {
		count_here(t, i, ns, ret);
	}
	t->start = 0;
	written(t);
}

/* Is this call to be counted? */
static __always_inline bool counts(struct thread *t, u32 id)
{
	if (filtered && !calls[id].mode)
		return false;
	return !t->wait_exec || calls[id].flags & SPOOR_CALL_EXEC;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	u32 id;

	if (!t)
		return 0;
	id = call_id(task, nr);
	t->id = id;
	t->outside = 0;
	t->start = counts(t, id) ? bpf_ktime_get_ns() : 0;
	return 0;
}

static __always_inline void take_site(struct task_struct *task, struct thread *t, struct pt_regs *regs, u32 id,
				      bool compat)
{
	struct cpu *c = this_cpu();
	u32 mode = calls[id].mode;

	t->stack = 0;
	t->raw = 0;
	if (!c || mode <= 1 + SPOOR_MODE_NONE || t->wait_exec)
		return;
	if (compat)
		t->stack = take_stack_compat(c, &c->scratch[0], task, t, regs, mode - 1);
	else
		t->stack = take_stack(c, &c->scratch[0], task, t, regs, mode - 1);
	t->raw = c->scratch[0].walk.status == WALK_RAW;
}

/* The same with a walk, which is no part of the call's time. */
static __always_inline int enter_site(struct pt_regs *regs, long nr, bool compat)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	u32 id;

	if (!t)
		return 0;
	id = call_id(task, nr);
	t->id = id;
	t->outside = 0;
	t->start = 0;
	if (!counts(t, id))
		return 0;
	take_site(task, t, regs, id, compat);
	t->start = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(sys_enter_site, struct pt_regs *regs, long nr)
{
	return enter_site(regs, nr, false);
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(sys_enter_site_compat, struct pt_regs *regs, long nr)
{
	return enter_site(regs, nr, true);
}

/* Calls that change what cached walks rest upon. */
static __always_inline void note_call(struct thread *t, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 map = calls[call_id(task, regs->orig_ax)].map;

	if (t->owed)
		layout_pay(t);
	if (map)
		note_map(task, t, regs, ret, map);
}

/* A call that was answered before it began. Returns whether it is to be counted. */
static __always_inline bool answered(struct task_struct *task, struct thread *t, struct pt_regs *regs)
{
	u32 id = call_id(task, regs->orig_ax);

	if (!t->outside || !may_be_answered(task) || !counts(t, id))
		return false;
	t->id = id;
	if (by_site)
		take_site(task, t, regs, id, true); /* costs the verifier little */
	return true;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	u64 start, now;

	if (!t)
		return 0;
	start = t->start;
	now = start ? bpf_ktime_get_ns() : 0; /* what follows is no part of the call */
	if (by_site)
		note_call(t, regs, ret);
	if (!start && answered(task, t, regs)) {
		start = 1;
		now = 2; /* it took no time, but readers see by the time that there is more */
	}
	t->outside = 1;
	if (!start || t->wait_exec) { /* not counted; taken back while it slept; an execve that has failed */
		t->start = 0;
		t->blocked = 0;
		t->off = 0;
		return 0;
	}
	count_call(t, now - start, ret);
	return 0;
}

/* ---- on the CPU or not ---- */

static __always_inline struct thread *in_call(struct task_struct *task)
{
	struct thread *t;

	if (task->flags & PF_KTHREAD)
		return NULL;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	return t && t->start ? t : NULL;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct thread *out = in_call(prev), *in = in_call(next);
	u64 now;

	if (!out && !in)
		return 0;
	now = bpf_ktime_get_ns();
	if (out) {
		writing(out);
		out->off = now;
		written(out);
	}
	if (in && in->off) {
		writing(in);
		in->blocked += now - in->off;
		in->off = 0;
		written(in);
	}
	return 0;
}

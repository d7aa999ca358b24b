/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What a recording writes about a thread: who it is, the call in which it is, its end. */
#include "collect/kernel/emit.bpf.h"
#include "collect/kernel/threads.bpf.h"

static __always_inline int emit_thread_at(struct task_struct *task, struct thread *t, u32 why, u32 ring_level)
{
	struct spoor_thread *e;
	struct reservation r;
	u32 size = SPOOR_EVENT_ROUND(sizeof(*e));
	struct pid *pid;
	u32 depth;

	emit_reserve(&r, ring_level, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_THREAD, 0, size, task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->ppid = task->real_parent->tgid;
	e->start = task->start_time;
	e->since = e->h.ts;
	e->gen = t->gen;
	pid = task->thread_pid;
	depth = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&e->vtid, 4, &pid->numbers[depth & 31].nr);
	e->why = why;
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), task->comm);
	emit_commit(&r, size);
	t->def_epoch = epoch;
	return 0;
}

static __noinline int emit_thread(struct task_struct *task, struct thread *t, u32 why)
{
	return task && t ? emit_thread_at(task, t, why, 0) : 0;
}

/* Tells the consumer that this segment needs definitions which an older one has; the thread's own is written anew. */
static __noinline int emit_need(struct task_struct *task, struct thread *t, u32 ring_level)
{
	struct spoor_ctl_need *e;
	struct reservation r;

	if (!task || !t)
		return 0;
	if (t->def_epoch != epoch)
		emit_thread_at(task, t, SPOOR_THREAD_SEGMENT, ring_level & 1);
	emit_reserve(&r, ring_level & 1, sizeof(*e));
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_CTL_NEED, 0, sizeof(*e), 0, bpf_ktime_get_ns());
	e->stack = t->stack;
	e->files[0] = t->files[0];
	e->files[1] = t->files[1];
	e->files[2] = 0;
	emit_commit(&r, sizeof(*e));
	return 0;
}

static __always_inline void copy_words(u8 *to, const u8 *from, u32 n)
{
	u32 i;

#pragma unroll
	for (i = 0; i < n / 8; i++)
		((u64 *)to)[i] = ((const u64 *)from)[i];
}

/* The packed arguments of a call into its event; short ones, which nearly all are, without a call. */
static __always_inline void copy_data(u8 *to, const struct thread *t, u32 n)
{
	if (n <= 128) {
		copy_words(to, t->data, 64);
		if (n > 64)
			copy_words(to + 64, t->data + 64, 64);
	} else {
		bpf_probe_read_kernel(to, n & (SPOOR_MAX_DATA - 1), t->data);
	}
	/* Padding: nothing of the process that is not part of the event. */
	*(u64 *)(to + (n & (SPOOR_MAX_DATA - 1))) = 0;
}

/*
 * Room for the event of the call in flight. If the segment that it falls into is not the one in which the call began,
 * what it refers to is asked for before: which segment that is, is known only when there is room.
 */
static __always_inline void reserve_call(struct reservation *r, struct task_struct *task, struct thread *t,
					 u32 ring_level, u32 size)
{
	emit_reserve(r, ring_level, size);
	if (!r->to || r->ring->epoch == t->call_epoch)
		return;
	emit_cancel(r);
	emit_need(task, t, ring_level);
	emit_reserve(r, ring_level, size);
}

/*
 * The event of a call that has not ended, which t describes; `in` is the state that the thread itself keeps, mostly the
 * same.
 */
static __always_inline int emit_pending_at(struct task_struct *task, struct thread *t, const struct thread *in, u32 why,
					   u32 ring_level)
{
	u32 len = t->len & (SPOOR_MAX_DATA - 1), size = SPOOR_EVENT_ROUND(sizeof(struct spoor_pending) + len);
	bool told = *(volatile u8 *)&t->pending, exact = t->pending != CALL_BEGAN_BEFORE;
	u64 start = *(volatile u64 *)&t->start;
	struct spoor_pending *e;
	struct reservation r;

	if (!start)
		return 0;
	reserve_call(&r, task, t, ring_level, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_PENDING, t->flags, size, task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->stack = t->stack;
	e->start = start;
	e->nr = t->id;
	e->why = why;
	e->exact = exact;
	e->len = len;
	copy_data(e->data, t, len);
	barrier();
	if (*(volatile u64 *)&t->start != start || *(volatile u16 *)&t->len != len ||
	    *(volatile u32 *)&in->turn != t->turn) {
		emit_cancel(&r); /* it runs on another CPU, and the call has ended: it writes that itself */
		return 0;
	}
	emit_commit(&r, size);
	t->told = r.ring->epoch;
	if (exact && !told)
		t->pending = 1;
	return 0;
}

static __noinline int emit_pending(struct task_struct *task, struct thread *t, u32 why)
{
	return task && t ? emit_pending_at(task, t, t, why, 0) : 0;
}

static __noinline int emit_exit(struct task_struct *task, struct thread *t, u32 kind)
{
	struct spoor_thread_exit *e;
	struct reservation r;
	u32 size = SPOOR_EVENT_ROUND(sizeof(*e));

	if (!task)
		return 0;
	emit_reserve(&r, 0, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_THREAD_EXIT, 0, size, task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->code = kind == SPOOR_EXIT_LEFT ? 0 :
		  kind == SPOOR_EXIT_EXEC ? task->signal->group_exec_task->pid :
					    task->exit_code;
	e->kind = kind;
	emit_commit(&r, size);
	return 0;
}

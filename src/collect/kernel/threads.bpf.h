/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The trace map: which threads are in, who they are, and the version of their executable layout. */
#include "collect/kernel/stacks.bpf.h"

/* The event id of a system call; SPOOR_SYSCALL_MAX for numbers beyond the table (x32 ones too). */
static __always_inline u32 call_id(struct task_struct *task, long nr)
{
	u64 n = nr;

	if (n >= SPOOR_SYSCALL_I386)
		return SPOOR_SYSCALL_MAX;
	if (task->thread_info.status & TS_COMPAT)
		n += SPOOR_SYSCALL_I386;
	return n;
}

/* The image is the process's: it is kept in the group leader's storage. */
static __always_inline struct thread *leader_of(struct task_struct *task, struct thread *t)
{
	struct thread *l;

	if (task->pid == task->tgid)
		return t;
	l = bpf_task_storage_get(&threads, task->group_leader, 0, 0);
	return l ? l : t;
}

static __always_inline u32 image_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);

	if (!l->image)
		l->image = __sync_fetch_and_add(&next_image, 1);
	return l->image;
}

/* The same for a process that comes to have it too. */
static __always_inline u32 share_image(struct task_struct *task, struct thread *t)
{
	leader_of(task, t)->image_shared = 1;
	return image_of(task, t);
}

/* Nothing that was cached of the process holds from here on. */
static __always_inline void new_image(struct thread *leader)
{
	leader->image = __sync_fetch_and_add(&next_image, 1);
	leader->image_shared = 0;
	leader->layout = 0;
}

/* The number of the process's present set of executable mappings, under which user space is told of it. */
static __always_inline u32 layout_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);

	if (!l->layout)
		l->layout = __sync_fetch_and_add(&next_layout, 1);
	return l->layout;
}

/* Descriptor argument: AT_FDCWD means the working directory. */
static __always_inline u32 fd_arg_id(struct cpu *c, struct scratch *sc, struct task_struct *task, u64 arg, u32 level)
{
	if ((s32)arg != -100)
		return fd_id(c, sc, task, arg, level);
	return cwd_id(c, sc, task, level);
}

#ifdef SPOOR_RECORDS
static __always_inline int emit_thread_at(struct task_struct *task, struct thread *t, u32 why, u32 ring_level)
{
	struct spoor_thread *e;
	struct reservation r;
	u32 size = (sizeof(*e) + 7) & ~7u;
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

/* The event of a call that has not ended. */
static __always_inline int emit_pending_at(struct task_struct *task, struct thread *t, u32 why, bool exact,
					   u32 ring_level)
{
	u32 len = t->len & (SPOOR_MAX_DATA - 1), size = (sizeof(struct spoor_pending) + len + 7) & ~7u;
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
	if (*(volatile u64 *)&t->start != start || *(volatile u16 *)&t->len != len) {
		emit_cancel(&r); /* it runs on another CPU, and the call has ended: it writes that itself */
		return 0;
	}
	emit_commit(&r, size);
	t->pending = 1;
	return 0;
}

static __noinline int emit_pending(struct task_struct *task, struct thread *t, u32 why)
{
	return task && t ? emit_pending_at(task, t, why, true, 0) : 0;
}

static __noinline int emit_exit(struct task_struct *task, struct thread *t, u32 group_dead)
{
	struct spoor_thread_exit *e;
	struct reservation r;
	u32 size = (sizeof(*e) + 7) & ~7u;

	if (!task)
		return 0;
	emit_reserve(&r, 0, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_THREAD_EXIT, 0, size, task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->code = task->exit_code;
	e->group_dead = group_dead;
	emit_commit(&r, size);
	return 0;
}

#endif /* SPOOR_RECORDS */

static __always_inline bool in_cgroup(struct cgroup *cgrp)
{
	if (!cgrp || cgrp->level < (int)cgroup_level)
		return false;
	return BPF_CORE_READ(cgrp, ancestors[cgroup_level & 63], kn, id) == cgroup_id;
}

/* ---- changes of the address space ---- */

static __always_inline u64 call_arg(struct task_struct *task, struct pt_regs *r, u32 i)
{
	bool i386 = task->thread_info.status & TS_COMPAT;

	return i == 0 ? i386 ? r->bx : r->di : i == 1 ? i386 ? r->cx : r->si : i == 2 ? r->dx : i386 ? r->si : r->r10;
}

enum { PROT_EXEC = 4 };

/* May rows of [addr, addr+len) be cached for this image? */
__noinline int code_cached(u32 image, u64 addr, u64 len)
{
	u32 key = image & (CODE_SLOTS - 1), i;
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	if (!code || code->image != image || code->n > CODE_RANGES)
		return 1;
	for (i = 0; i < CODE_RANGES; i++) {
		if (i >= code->n)
			return 0;
		if (addr < code->ranges[i].end && addr + len > code->ranges[i].start)
			return 1;
	}
	return 0;
}

/* An executable mapping of the current process, for the record; the object is announced if it is new. */
__noinline int emit_mapping(u64 addr, struct scratch *sc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct vma_answer a = {};
	struct spoor_mapping *e;
	struct reservation r;
	u32 object = SPOOR_OBJECT_NONE;

	if (!sc || bpf_find_vma(task, addr, vma_read, &a, 0) || !a.exec)
		return 0;
	if (a.vdso == a.start)
		object = SPOOR_OBJECT_VDSO;
	else if (a.file)
		object = object_of(&a, sc);
	emit_reserve(&r, 0, sizeof(*e));
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_MAPPING, 0, sizeof(*e), task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->object = object;
	e->start = a.start;
	e->end = a.end;
	e->offset = a.offset;
	emit_commit(&r, sizeof(*e));
	return 0;
}

/*
 * After a call that changed mappings: where rows may be cached for the addresses that it concerns, the process gets a
 * new image and with it forgets them. Nothing else needs to: what was not mapped executable was never cached. But what
 * one process maps, another with the same image may map otherwise: new code ends the sharing.
 */
static __noinline int note_map(struct task_struct *task, struct thread *t, struct pt_regs *regs, long ret, u32 kind)
{
	u64 addr, len;
	struct thread *l;
	bool stale = false;

	if (!task || !t || !regs || (ret < 0 && ret > -4096))
		return 0;
	l = leader_of(task, t);
	len = call_arg(task, regs, 1);
	if (kind <= SPOOR_MAP_PROTECT && call_arg(task, regs, 2) & PROT_EXEC) {
		struct cpu *c = this_cpu();

		l->layout = 0; /* another one from here on */
		stale = l->image_shared;
		if (c && !t->wait_exec)
			emit_mapping(kind == SPOOR_MAP_MMAP ? (u64)ret : call_arg(task, regs, 0), &c->scratch[0]);
	}
	addr = kind == SPOOR_MAP_UNMAP ? call_arg(task, regs, 0) : (u64)ret;
	if (kind != SPOOR_MAP_PROTECT)
		stale |= kind == SPOOR_MAP_OTHER || code_cached(l->image, addr, len);
	if (kind == SPOOR_MAP_REMAP)
		stale |= code_cached(l->image, call_arg(task, regs, 0), len) ||
			 code_cached(l->image, ret, call_arg(task, regs, 2));
	if (stale)
		new_image(l);
	return 0;
}

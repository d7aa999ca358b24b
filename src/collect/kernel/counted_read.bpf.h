/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What live threads have counted: a task iterator copies each thread's slots and, if the thread has counted meanwhile,
 * tries again, first for the thread as a whole, then for each slot.
 */
#include "collect/kernel/counted.bpf.h"

#define TRIES_THREAD 4
#define TRIES_SLOT 64

struct copy {
	struct spoor_counter_thread head;
	struct spoor_counter_slot slots[SPOOR_COUNTER_SLOTS];
	struct spoor_counter_wide wides[SPOOR_COUNTER_SLOTS + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space runs one iterator at a time */
	__type(key, u32);
	__type(value, struct copy);
} copies SEC(".maps");

struct copying {
	struct thread *t;
	struct copy *to;
	u32 slot, n_wide, done;
};

static __always_inline bool copy_slot(struct thread *t, struct copy *to, u32 i, u32 n_wide)
{
	struct spoor_counter_wide_key key = { .slot = i };
	struct spoor_counter_wide *w;

	if (i >= SPOOR_COUNTER_SLOTS || n_wide >= SPOOR_COUNTER_SLOTS)
		return false;
	bpf_probe_read_kernel(&to->slots[i], sizeof(to->slots[i]), &t->slots[i]);
	if (!to->slots[i].wide)
		return true;
	key.serial = t->serial;
	w = bpf_map_lookup_elem(&wides, &key);
	if (w)
		bpf_probe_read_kernel(&to->wides[n_wide], sizeof(*w), w);
	return w;
}

static long try_slot(u32 n, void *ctx)
{
	struct copying *c = ctx;
	u32 seq = *(volatile u32 *)&c->t->seq;

	barrier();
	if (!copy_slot(c->t, c->to, c->slot, c->n_wide))
		return 1;
	barrier();
	return !(seq & 1) && *(volatile u32 *)&c->t->seq == seq;
}

static long copy_next(u32 i, void *ctx)
{
	struct copying *c = ctx;

	if (i >= SPOOR_COUNTER_SLOTS)
		return 1;
	c->slot = i;
	bpf_loop(TRIES_SLOT, try_slot, c, 0);
	if (c->to->slots[i].wide)
		c->n_wide++;
	return 0;
}

static __always_inline void copy_head(struct thread *t, struct copy *to)
{
	to->head.n_slots = t->n_slots;
	to->head.overflow = t->overflow;
	to->head.flight.start = t->start;
	to->head.flight.blocked_ns = t->blocked;
	to->head.flight.off = t->off;
	to->head.flight.stack = t->stack;
	to->head.flight.id = t->id;
	to->head.at = bpf_ktime_get_ns();
}

static __always_inline void copy_all(struct copying *c)
{
	copy_head(c->t, c->to);
	c->n_wide = 0;
	bpf_loop(c->to->head.n_slots, copy_next, c, 0);
	c->to->head.n_wide = c->n_wide;
}

static long try_thread(u32 n, void *ctx)
{
	struct copying *c = ctx;
	u32 seq = *(volatile u32 *)&c->t->seq;

	if (seq & 1)
		return 0;
	barrier();
	copy_all(c);
	barrier();
	c->done = *(volatile u32 *)&c->t->seq == seq;
	return c->done;
}

/* In this round it is read here, and not where ended threads are. False: it has ended, and is there. */
static __always_inline bool claim(struct thread *t)
{
	u64 round = *(volatile u64 *)&phase / SPOOR_PHASE_ROUND, old = *(volatile u64 *)&t->round;

	if (old == round)
		return true; /* its output did not fit the last time: it is asked for again */
	return old != ROUND_ENDED && __sync_val_compare_and_swap(&t->round, old, round) == old;
}

SEC("iter/task")
int read_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct seq_file *out = ctx->meta->seq;
	struct copying c = {};
	u32 zero = 0, n;

	if (!task)
		return 0;
	c.t = bpf_task_storage_get(&threads, task, 0, 0);
	c.to = bpf_map_lookup_elem(&copies, &zero);
	if (!c.t || !c.to || !claim(c.t))
		return 0;
	c.to->head.pid = task->tgid;
	c.to->head.tid = task->pid;
	c.to->head.ppid = task->real_parent->tgid;
	c.to->head.serial = c.t->serial;
	c.to->head.start = task->start_time;
	c.to->head.process_start = task->group_leader->start_time;
	bpf_probe_read_kernel(c.to->head.comm, sizeof(c.to->head.comm), task->comm);
	bpf_loop(TRIES_THREAD, try_thread, &c, 0);
	if (!c.done)
		copy_all(&c);
	bpf_seq_write(out, &c.to->head, sizeof(c.to->head));
	n = c.to->head.n_slots;
	if (n && n <= SPOOR_COUNTER_SLOTS)
		bpf_seq_write(out, c.to->slots, n * sizeof(struct spoor_counter_slot));
	n = c.to->head.n_wide;
	if (n && n <= SPOOR_COUNTER_SLOTS)
		bpf_seq_write(out, c.to->wides, n * sizeof(struct spoor_counter_wide));
	return 0;
}

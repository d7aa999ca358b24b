/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What live threads have counted: a task iterator copies each thread and, where that has counted meanwhile, copies
 * again what has changed, until the copy is of one moment. Then it claims the thread for its round, and says it.
 */
#include "collect/kernel/counted.bpf.h"

#define TRIES (1 << 16)
#define TRIES_NS 2000000 /* and no longer: a virtual processor that stands still may do so for long */
#define TRIES_FLIGHT 16

struct copy {
	struct spoor_counter_thread head;
	struct spoor_counter_slot slots[SPOOR_COUNTER_SLOTS];
	struct spoor_counter_wide wides[SPOOR_COUNTER_SLOTS]; /* by slot */
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
	struct seq_file *out;
	u64 until;
	u32 again, done;
};

/* ns first: its thread writes it last, so what is copied is no older than what ns says. */
__noinline int copy_slot(struct thread *t, struct copy *to, u32 i)
{
	struct spoor_counter_wide_key key = { .slot = i };
	struct spoor_counter_wide *w;

	if (!t || !to || i >= SPOOR_COUNTER_SLOTS)
		return 0;
	bpf_probe_read_kernel(&to->slots[i], sizeof(to->slots[i]), &t->slots[i]);
	if (!to->slots[i].wide)
		return 0;
	key.serial = t->serial;
	w = bpf_map_lookup_elem(&wides, &key);
	if (w)
		bpf_probe_read_kernel(&to->wides[i], sizeof(*w), w);
	else
		__builtin_memset(&to->wides[i], 0, sizeof(*w));
	return 0;
}

/* All slots, or again those in which something was counted since they were copied: that has made ns another one. */
static __always_inline void copy_slots(struct thread *t, struct copy *to, bool again)
{
	u32 n = *(volatile u16 *)&t->n_slots, i;

	for (i = 0; i < SPOOR_COUNTER_SLOTS; i++) {
		if (i >= n)
			break;
		if (again && i < to->head.n_slots && *(volatile u64 *)&t->slots[i].ns == to->slots[i].ns)
			continue;
		copy_slot(t, to, i);
	}
	to->head.n_slots = n;
}

static __always_inline void copy_flight(struct thread *t, struct copy *to)
{
	to->head.overflow = *(volatile u64 *)&t->overflow;
	to->head.flight.start = *(volatile u64 *)&t->start;
	barrier();
	to->head.flight.blocked_ns = t->blocked;
	to->head.flight.off = t->off;
	to->head.flight.stack = t->stack;
	to->head.flight.id = t->id;
	to->head.at = bpf_ktime_get_ns();
}

static long try_thread(u32 n, void *ctx)
{
	struct copying *c = ctx;
	u32 seq = *(volatile u32 *)&c->t->seq;

	if (bpf_ktime_get_ns() > c->until)
		return 1;
	if (seq & 1)
		return 0;
	barrier();
	copy_slots(c->t, c->to, c->again);
	copy_flight(c->t, c->to);
	barrier();
	c->again = 1;
	c->done = *(volatile u32 *)&c->t->seq == seq;
	return c->done;
}

/* The call in flight after all slots: it cannot be in one of them. */
static long try_flight(u32 n, void *ctx)
{
	struct copying *c = ctx;
	u32 seq = *(volatile u32 *)&c->t->seq;

	barrier();
	copy_flight(c->t, c->to);
	barrier();
	c->done = !(seq & 1) && *(volatile u32 *)&c->t->seq == seq;
	return c->done;
}

static __always_inline void copy_thread(struct copying *c)
{
	c->to->head.n_slots = 0;
	c->until = bpf_ktime_get_ns() + TRIES_NS;
	bpf_loop(TRIES, try_thread, c, 0);
	if (c->done)
		return;
	copy_slots(c->t, c->to, c->again); /* its CPU stands still, or worse: slots are each of a moment at best */
	bpf_loop(TRIES_FLIGHT, try_flight, c, 0);
	if (!c->done)
		c->to->head.flight.start = 0;
}

static __always_inline void describe_thread(struct task_struct *task, struct copying *c)
{
	struct spoor_counter_process *proc = by_process ? process_of(c->t) : NULL;
	struct spoor_counter_thread *head = &c->to->head;

	head->pid = task->tgid;
	head->tid = task->pid;
	head->ppid = task->real_parent->tgid;
	if (proc)
		head->ppid = *(volatile u32 *)&proc->ppid; /* that which ended ones are said to have */
	head->serial = c->t->serial;
	head->start = task->start_time;
	head->process_start = task->group_leader->start_time;
	bpf_probe_read_kernel(head->comm, sizeof(head->comm), task->comm);
}

static long count_wide(u32 i, void *ctx)
{
	struct copying *c = ctx;

	if (i < SPOOR_COUNTER_SLOTS && c->to->slots[i].wide)
		c->to->head.n_wide++;
	return 0;
}

static long say_wide(u32 i, void *ctx)
{
	struct copying *c = ctx;

	if (i < SPOOR_COUNTER_SLOTS && c->to->slots[i].wide)
		bpf_seq_write(c->out, &c->to->wides[i], sizeof(c->to->wides[i]));
	return 0;
}

/* Is there room for it? Else what was said is read by user space, and this thread comes again. */
static __always_inline bool has_room(struct copying *c)
{
	u32 size = sizeof(c->to->head) + c->to->head.n_slots * sizeof(c->to->slots[0]) +
		   c->to->head.n_wide * sizeof(c->to->wides[0]);

	return c->out->count + size < c->out->size;
}

/*
 * In this round it is read here, and not where ended threads are. False: it has ended meanwhile, and is there. A call
 * without a slot that was in flight in the copy, and may be in this round's sums by now, is taken back.
 */
static __always_inline bool claim(struct copying *c, u64 old, u64 round)
{
	if (__sync_val_compare_and_swap(&c->t->round, old, round) != old)
		return false;
	if (*(volatile u64 *)&c->t->overflow != c->to->head.overflow)
		c->to->head.flight.start = 0;
	return true;
}

SEC("iter/task")
int read_tasks(struct bpf_iter__task *ctx)
{
	u64 round = *(volatile u64 *)&phase / SPOOR_PHASE_ROUND, old;
	struct task_struct *task = ctx->task;
	struct copying c = { .out = ctx->meta->seq };
	u32 zero = 0, n;

	if (!task)
		return 0;
	c.t = bpf_task_storage_get(&threads, task, 0, 0);
	c.to = bpf_map_lookup_elem(&copies, &zero);
	if (!c.t || !c.to)
		return 0;
	old = *(volatile u64 *)&c.t->round;
	if (old == round || old == ROUND_ENDED)
		return 0;
	copy_thread(&c);
	describe_thread(task, &c);
	c.to->head.n_wide = 0;
	bpf_loop(c.to->head.n_slots, count_wide, &c, 0);
	if (has_room(&c) && !claim(&c, old, round))
		return 0;
	bpf_seq_write(c.out, &c.to->head, sizeof(c.to->head));
	n = c.to->head.n_slots;
	if (n > SPOOR_COUNTER_SLOTS)
		n = 0;
	n = opaque(n); /* compared as it is: Linux 6.1 knows no bound of n from one of n - 1 */
	if (n)
		bpf_seq_write(c.out, c.to->slots, n * sizeof(struct spoor_counter_slot));
	bpf_loop(n, say_wide, &c, 0);
	return 0;
}

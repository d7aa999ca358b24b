/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* System calls: at entry what was asked and from where, at exit one event with both halves. */
#include "collect/kernel/arguments.bpf.h"
#include "collect/kernel/mappings.bpf.h"
#include "collect/kernel/met.bpf.h"
#include "collect/kernel/take_stack.bpf.h"
#include "collect/kernel/thread_events.bpf.h"

/* ---- entry ---- */

static __always_inline void take_registers(struct task_struct *task, struct thread *t, struct pt_regs *regs)
{
	if (t->id >= SPOOR_SYSCALL_I386 && task->thread_info.status & TS_COMPAT) {
		t->args[0] = (u32)regs->bx;
		t->args[1] = (u32)regs->cx;
		t->args[2] = (u32)regs->dx;
		t->args[3] = (u32)regs->si;
		t->args[4] = (u32)regs->di;
		t->args[5] = (u32)regs->bp;
	} else {
		t->args[0] = regs->di;
		t->args[1] = regs->si;
		t->args[2] = regs->dx;
		t->args[3] = regs->r10;
		t->args[4] = regs->r8;
		t->args[5] = regs->r9;
	}
}

/* No event is declared for a number that the table has no name for: it is one beyond the table. */
static __always_inline u32 event_id(struct task_struct *task, long nr)
{
	u32 id = call_id(task, nr);

	return calls[id].flags & SPOOR_CALL_UNKNOWN ? SPOOR_SYSCALL_MAX : id;
}

/* Is a call that begins now to be recorded? */
static __always_inline bool wanted(const struct thread *t, u32 id)
{
	const struct spoor_call_config *cfg = &calls[id];

	return cfg->mode && !paused && (!t->wait_exec || cfg->flags & SPOOR_CALL_EXEC);
}

/* All of a call but its stack. Returns the mode of one that is to be taken; 0: none. */
static __always_inline u32 take_call(struct task_struct *task, struct thread *t, struct cpu *c, struct scratch *sc,
				     struct pt_regs *regs, u32 id, u64 *ret_start)
{
	const struct spoor_call_config *cfg = &calls[id];
	u32 off;

	if (t->def_epoch != epoch || t->renamed) {
		emit_thread(task, t, t->renamed ? SPOOR_THREAD_RENAME : SPOOR_THREAD_SEGMENT);
		t->renamed = 0;
	}
	t->id = id;
	t->flags = 0;
	t->pending = 0;
	t->at_end = 0;
	t->buf_len = 0;
	t->call_epoch = epoch;
	take_registers(task, t, regs);
	*ret_start = bpf_ktime_get_ns();
	off = take_args(t, cfg, c, sc, task, 0);
	t->len = off;
	if (cfg->n_paths | cfg->sockaddr | cfg->buf)
		take_pointed(t, sc, cfg, off, false);
	t->stack = 0;
	return cfg->mode > 1 + SPOOR_MODE_NONE && !t->wait_exec ? cfg->mode - 1 : SPOOR_MODE_NONE;
}

/*
 * The same of the current thread's call, in a function of its own: before Linux 6.13 what it calls and what walks have
 * but one stack of 512 bytes with who calls them. Returns the mode of a stack that is to be taken, 0: none; less: the
 * call is not recorded.
 */
__noinline int take_call_apart(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct cpu *c = this_cpu();
	u64 start;
	u32 id;

	if (!t || !c)
		return -1;
	id = event_id(task, regs->orig_ax);
	return wanted(t, id) ? (int)take_call(task, t, c, &c->scratch[0], regs, id, &start) : -1;
}

/* Without may_goto, which costs the verifier little. */
static __always_inline void take_stack_apart(struct task_struct *task, struct thread *t, struct pt_regs *regs, u32 mode)
{
	struct cpu *c = this_cpu();

	if (c)
		t->stack = take_stack_compat(c, &c->scratch[0], task, t, regs, mode);
}

/* The thread of task, in which a call begins; NULL: it is not in. */
static __always_inline struct thread *begin_call(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t)
		return NULL;
	t->start = 0;
	t->turn = (t->turn | TURN_OUTSIDE) + 1;
	barrier();
	return t;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = begin_call(task);
	struct scratch *sc;
	struct cpu *c;
	u32 id, mode;
	u64 start;

	if (!t)
		return 0;
	id = event_id(task, nr);
	if (!wanted(t, id))
		return 0;
	c = this_cpu();
	if (!c)
		return 0;
	sc = &c->scratch[0];
	mode = take_call(task, t, c, sc, regs, id, &start);
	if (mode)
		t->stack = take_stack(c, sc, task, t, regs, mode);
	barrier();
	t->start = start;
	return 0;
}

/* The same for kernels without may_goto. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(sys_enter_compat, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = begin_call(task);
	u64 start;
	int mode;

	if (!t || !wanted(t, event_id(task, nr)))
		return 0;
	start = bpf_ktime_get_ns();
	mode = take_call_apart(t);
	if (mode < 0)
		return 0;
	if (mode)
		take_stack_apart(task, t, regs, mode);
	barrier();
	t->start = start;
	return 0;
}

/* ---- exit ---- */

/* fcntl and a few others return a descriptor or a number. */
static __always_inline bool returns_fd(const struct thread *t, const struct spoor_call_config *cfg)
{
	const struct spoor_ret_when *w = &ret_whens[cfg->ret_when & (SPOOR_RET_CONDITIONS - 1)];
	u32 at = w->arg & 7;

	return !cfg->ret_when || spoor_ret_is_fd(w, t->args[at < 6 ? at : 5]);
}

/* A call beyond the table, or with a result beyond what the table says: number and six arguments as they are. */
static __noinline int emit_other(struct task_struct *task, struct thread *t, struct pt_regs *regs, u64 start, long ret)
{
	struct spoor_syscall_other *e;
	struct reservation r;
	u64 now;

	if (!task || !t || !regs)
		return 0;
	reserve_call(&r, task, t, 0, sizeof(*e));
	if (!r.to)
		return 0;
	e = (void *)r.to;
	now = bpf_ktime_get_ns();
	emit_header(e, SPOOR_EV_SYSCALL_OTHER, 0, sizeof(*e), task->pid, now);
	e->pid = task->tgid;
	e->stack = t->stack;
	e->dur = now - start;
	e->ret = ret;
	e->nr = regs->orig_ax;
	e->i386 = !!(task->thread_info.status & TS_COMPAT);
	__builtin_memcpy(e->args, t->args, sizeof(e->args));
	emit_commit(&r, sizeof(*e));
	return 0;
}

static __always_inline void emit_call_now(struct task_struct *task, struct thread *t,
					  const struct spoor_call_config *cfg, u64 start, long ret)
{
	struct spoor_syscall *e;
	struct reservation r;
	u32 fixed = SPOOR_SYSCALL_FIXED + (cfg->flags & SPOOR_CALL_RET_LONG);
	u32 len = t->len & (SPOOR_MAX_DATA - 1), size = SPOOR_EVENT_ROUND(fixed + len);
	u64 now;

	reserve_call(&r, task, t, 0, size);
	if (!r.to)
		return;
	e = (void *)r.to;
	now = bpf_ktime_get_ns();
	emit_header(e, t->id, t->flags, size, task->pid, now);
	*(u32 *)((u8 *)e + sizeof(e->h)) = task->tgid | (u32)t->buf_len << 22; /* pid, data_len */
	e->stack = t->stack;
	e->dur = now - start;
	e->ret_long = ret; /* its upper half gives way to arguments if the call has 4 bytes for it */
	copy_data((u8 *)e + fixed, t, len);
	emit_commit(&r, size);
}

static __noinline int emit_call(struct task_struct *task, struct thread *t, long ret)
{
	if (task && t)
		emit_call_now(task, t, &calls[t->id & (SPOOR_SYSCALL_MAX - 1)], t->start, ret);
	return 0;
}

/* Of a process that is killed by whatever signal this is pending in each thread; none gets to the program any more. */
static __always_inline bool is_killed(const struct task_struct *task)
{
	return task->pending.signal.sig[0] & 1UL << (SIGKILL - 1);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct spoor_call_config *cfg;
	struct cpu *c;
	u64 start;
	u32 id;

	if (!t)
		return 0;
	if (t->owed)
		layout_pay(t);
	cfg = &calls[call_id(task, regs->orig_ax)];
	if (cfg->map)
		note_map(task, t, regs, ret, cfg->map);
	if (!t->start && t->met)
		take_over_met(task, t);
	start = t->start;
	/* That its time is but a bound the segment in which it ends has to tell, too. */
	if (start && t->pending == CALL_BEGAN_BEFORE && t->told != (u32)epoch)
		emit_pending(task, t, SPOOR_PENDING_BEFORE);
	/* Whatever it returns, be it that who was killed just before woke it: nobody will ever see that. */
	if (start && t->pending && is_killed(task))
		emit_pending(task, t, SPOOR_PENDING_KILLED);
	/* It was answered before it began: what can be known of it is known now, and that it took no time. */
	if (!start && t->turn & TURN_OUTSIDE && may_be_answered(task)) {
		int mode = take_call_apart(t);

		if (mode < 0)
			return 0;
		if (mode)
			take_stack_apart(task, t, regs, mode);
		start = bpf_ktime_get_ns();
	}
	t->turn |= TURN_OUTSIDE;
	if (!start)
		return 0;
	t->start = 0;
	barrier();
	id = t->id;
	if (id >= SPOOR_SYSCALL_MAX)
		return emit_other(task, t, regs, start, ret);
	cfg = &calls[id];
	c = this_cpu();
	if (!c)
		return 0;
	/* A page that was not there at entry is there now, if the call did not fail for the same reason. */
	if (t->flags & SPOOR_EVENT_UNREADABLE || (cfg->sockaddr & SPOOR_AT_EXIT && ret >= 0)) {
		t->flags = t->flags & SPOOR_EVENT_UNREADABLE ? SPOOR_EVENT_READ_AT_EXIT : t->flags;
		take_pointed_late(t, &c->scratch[0], id, ret >= 0);
	}
	if ((cfg->buf & SPOOR_AT_EXIT) && payload_max && ret > 0) {
		u32 i = ((cfg->buf & 7) - 1) & 7;

		/* What was written is at most what was asked for: some calls return a size without writing anything. */
		if (i < 5)
			t->len = t->buf_at +
				 take_payload(t, t->args[i], (u64)ret < t->args[i + 1] ? ret : t->args[i + 1]);
	}
	if ((cfg->flags & SPOOR_CALL_RET_FD) && ret >= 0 && returns_fd(t, cfg))
		*(u32 *)(t->data + (t->ret_at & 127)) = fd_id(c, &c->scratch[0], task, ret, 0);
	if (ret != (s32)ret && !(cfg->flags & SPOOR_CALL_RET_LONG))
		return emit_other(task, t, regs, start, ret);
	emit_call_now(task, t, cfg, start, ret);
	return 0;
}

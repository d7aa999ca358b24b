/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What a recording writes about a thread when it comes in, sleeps, forks, execs, is renamed, or ends (the hooks of
 * processes.bpf.h), and the calls that are in flight at its begin and its end.
 */
#include "collect/kernel/announce.bpf.h"
#include "collect/kernel/asleep.bpf.h"
#include "collect/kernel/last_ran.bpf.h"
#include "collect/kernel/syscalls.bpf.h"

/* ---- fork, execve ---- */

static __always_inline void on_fork(struct task_struct *task, struct thread *t, struct task_struct *parent,
				    struct thread *p)
{
	if (!t->wait_exec)
		emit_thread(task, t, SPOOR_THREAD_FORK);
}

/*
 * An execve whose entry was not ours to see: its path is certain here. That its address is 0 says that the arguments
 * are unknown. (Not SPOOR_EVENT_UNREADABLE: what has that is read again at exit, from the arguments.)
 */
static __always_inline void on_exec_in(struct task_struct *task, struct thread *t, struct linux_binprm *bprm)
{
	u32 id = exec_call(bprm), at = id == SPOOR_NR_EXECVE ? 24 : 36; /* where the path follows the arguments */
	long n;

	if (!calls[id].mode || paused)
		return;
	__builtin_memset(t->data, 0, 40);
	n = bpf_probe_read_kernel_str(t->data + at, SPOOR_MAX_STRING, (void *)(u64)bprm->filename);
	t->len = at + (n > 0 ? n : 1);
	t->id = id;
	t->ret_at = at;
	t->flags = SPOOR_EVENT_READ_AT_EXIT | (n == SPOOR_MAX_STRING ? SPOOR_EVENT_TRUNCATED : 0);
	t->pending = 0;
	t->stack = 0;
	t->files[0] = t->files[1] = 0;
	t->call_epoch = epoch;
	t->start = bpf_ktime_get_ns();
}

/* A thread that is not the leader becomes it by execve: its call goes on under another tid. */
static __noinline int emit_moved(struct task_struct *task, struct thread *t, u32 old_tid)
{
	struct spoor_pending *e;
	struct reservation r;
	u32 size = SPOOR_EVENT_ROUND(sizeof(*e));

	if (!task || !t || !t->start)
		return 0;
	emit_reserve(&r, 0, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_PENDING, 0, size, old_tid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->stack = t->stack;
	e->start = t->start;
	e->nr = t->id;
	e->why = SPOOR_PENDING_MOVED;
	e->exact = t->pending != CALL_BEGAN_BEFORE;
	e->len = 0;
	emit_commit(&r, size);
	return 0;
}

/* The path of a call in flight could not be read at its entry, and its image is gone: here it is certain. */
static __always_inline void exec_path(struct thread *t, u64 filename)
{
	u32 at = t->ret_at & 127;
	long n = bpf_probe_read_kernel_str(t->data + at, SPOOR_MAX_STRING, (void *)filename);

	if (n <= 0)
		return;
	t->len = at + n;
	t->flags = SPOOR_EVENT_READ_AT_EXIT | (n == SPOOR_MAX_STRING ? SPOOR_EVENT_TRUNCATED : 0);
}

static __always_inline void on_exec_begin(struct task_struct *task, struct thread *t, struct linux_binprm *bprm)
{
	u64 start;

	if (!t->start && t->met)
		take_over_met(task, t);
	start = t->start;
	if (!start || !(t->flags & SPOOR_EVENT_UNREADABLE))
		return;
	t->start = 0;
	barrier();
	exec_path(t, (u64)bprm->filename);
	barrier();
	t->start = start;
}

/* The call began in the old image, which was in, and succeeded: written before it is out. */
static __always_inline void on_exec_out(struct task_struct *task, struct thread *t, int old_pid)
{
	if (t->pending && old_pid != task->pid)
		emit_moved(task, t, old_pid);
	if (t->start)
		emit_call(task, t, 0);
	emit_exit(task, t, SPOOR_EXIT_LEFT);
}

static __always_inline void on_exec(struct task_struct *task, struct thread *t, int old_pid, struct scratch *sc)
{
	if (t->pending && old_pid != task->pid)
		emit_moved(task, t, old_pid);
	emit_thread(task, t, SPOOR_THREAD_EXEC);
	emit_exec_mappings(task, sc);
}

SEC("tp_btf/task_rename")
int BPF_PROG(task_renamed, struct task_struct *task, const char *comm)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t)
		t->renamed = 1; /* the new name is not there yet: the next call's entry writes it */
	return 0;
}

/* ---- sleeping, ending ---- */

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct thread *t;

	if (preempt || !prev_state)
		return 0;
	t = bpf_task_storage_get(&threads, prev, 0, 0);
	if (!t || !t->start || t->pending)
		return 0;
	return emit_pending(prev, t, SPOOR_PENDING_SLEEP);
}

#define SIGNAL_GROUP_EXIT 4

/* The kernel ends the other threads of who executes a program as by a signal, but with the code 0. */
static __always_inline u32 exit_kind(struct task_struct *task)
{
	struct task_struct *executes = task->signal->group_exec_task;

	if (executes && executes != task && !task->exit_code && !(task->signal->flags & SIGNAL_GROUP_EXIT))
		return SPOOR_EXIT_EXEC;
	return task->signal->live.counter ? SPOOR_EXIT_THREAD : SPOOR_EXIT_PROCESS;
}

static __always_inline void on_exit(struct task_struct *task, struct thread *t)
{
	if (!t->start && t->met)
		take_over_met(task, t);
	if (t->start)
		emit_pending(task, t, SPOOR_PENDING_DEATH);
	t->start = 0;
	emit_exit(task, t, exit_kind(task));
}

static __always_inline void on_move_in(struct task_struct *task, struct thread *t)
{
	emit_thread(task, t, SPOOR_THREAD_MOVE);
}

static __always_inline void on_move_out(struct task_struct *task, struct thread *t)
{
	struct thread *call = in_flight(task, t);

	if (call->start)
		emit_pending(task, call, SPOOR_PENDING_LEFT);
	bpf_task_storage_delete(&met_calls, task);
	emit_exit(task, t, SPOOR_EXIT_LEFT);
}

/* ---- attaching, and the end ---- */

/* -ENOSYS stands in the result's place until there is one; for who was stopped in a call, that it begins again. */
#define NOT_RETURNED (-38)
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

/* A core that is dumped, or a debugger, may have it wait on its way. */
static __always_inline bool is_dying(struct task_struct *task)
{
	return task->flags & PF_EXITING || task->signal->flags & SIGNAL_GROUP_EXIT || task->signal->group_exec_task;
}

/* Has a signal cut the call, which begins again if no handler runs? That of who dies does not. */
static __always_inline bool is_cut(struct task_struct *task, const struct pt_regs *regs)
{
	long ret = regs->ax;

	return (long)regs->orig_ax >= 0 && ret >= -ERESTART_RESTARTBLOCK && ret <= -ERESTARTSYS && !is_dying(task);
}

/* Who is stopped behind a call, by a signal or a debugger, is in none, though its number is still there. */
static __always_inline bool is_in_call(struct task_struct *task, const struct pt_regs *regs)
{
	return ((long)regs->orig_ax >= 0 && (long)regs->ax == NOT_RETURNED) || is_cut(task, regs);
}

/* The call in which task sleeps, into t, which nobody else sees yet. It began no later than the task last ran. */
static __always_inline void on_describe(struct task_struct *task, struct thread *t, struct cpu *c)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct scratch *sc = &c->scratch[1];
	struct spoor_call_config *cfg;
	long nr = regs->orig_ax;

	if (t->wait_exec || paused || !sleeps(task) || !is_in_call(task, regs))
		return;
	t->id = event_id(task, nr);
	cfg = &calls[t->id < SPOOR_SYSCALL_MAX ? t->id : SPOOR_SYSCALL_MAX];
	if (!cfg->mode || t->id >= SPOOR_SYSCALL_MAX)
		return;
	take_registers(task, t, regs);
	t->call_epoch = t->told = epoch;
	t->len = take_args(t, cfg, c, sc, task, 1);
	if (cfg->n_paths | cfg->sockaddr | cfg->buf)
		take_pointed_asleep(task, t, sc, cfg);
	t->stack = cfg->mode > 1 ? emit_remote(task, t, regs, cfg->mode - 1) : 0;
	t->start = last_ran(task, bpf_ktime_get_ns());
	t->pending = CALL_BEGAN_BEFORE;
}

static __always_inline void on_attach(struct task_struct *task, struct thread *t, struct thread *s)
{
	if (!t || t->wait_exec)
		return;
	emit_thread_at(task, t, SPOOR_THREAD_ATTACH, 1);
	s->def_epoch = t->def_epoch;
	if (s->start)
		emit_pending_at(task, s, t, SPOOR_PENDING_BEFORE, 1);
}

/*
 * The call in which the thread of t sleeps in this turn, into s, with the definition that it needs. False: in none. The
 * thread may wake and go on at any moment.
 */
static __always_inline bool describe(struct task_struct *task, struct thread *t, struct thread *s, struct cpu *c,
				     u32 turn)
{
	__builtin_memset(s, 0, SPOOR_THREAD_HEAD);
	s->turn = turn;
	s->gen = t->gen;
	s->def_epoch = t->def_epoch;
	s->wait_exec = t->wait_exec;
	on_describe(task, s, c);
	if (s->start && s->def_epoch != epoch)
		emit_thread_at(task, s, SPOOR_THREAD_SEGMENT, 1);
	return s->start;
}

/* Is it still so? */
static __always_inline bool sleeps_on(struct task_struct *task, struct thread *t, u32 turn)
{
	return sleeps(task) && *(volatile u32 *)&t->turn == turn && !*(volatile u64 *)&t->start;
}

/*
 * Tells of the call in which a thread sleeps that is in, unless it has been told of. The thread may wake and go on at
 * any moment: if it sleeps in the same turn once `met` can be seen, it will find what it is to take over.
 */
static __always_inline int meet(struct task_struct *task, struct thread *t, struct thread *s, struct cpu *c)
{
	u32 turn = *(volatile u32 *)&t->turn;

	if (t->start || turn & TURN_OUTSIDE || met_call(task, t))
		return 0;
	if (!ring_takes_more(1)) {
		retake = 1; /* user space will come again */
		return 0;
	}
	bpf_task_storage_delete(&met_calls, task); /* of an earlier call */
	if (!describe(task, t, s, c, turn))
		return 0;
	if (!bpf_task_storage_get(&met_calls, task, s, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
		retake = 1; /* as where there is no memory */
		return 0;
	}
	__sync_lock_test_and_set(&t->met, 1);
	n_met++;
	if (sleeps_on(task, t, turn))
		emit_pending_at(task, s, t, SPOOR_PENDING_BEFORE, 1);
	return 0;
}

SEC("iter/task")
int meet_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cpu *c = this_cpu();
	struct thread *t;

	if (!task || !c || task->flags & PF_EXITING)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	return meet(task, t, &c->spare, c);
}

/* The call in flight of a task, and its thread. NULL: it is not in, or in none. */
static __always_inline struct thread *call_of(struct task_struct *task, struct thread **ret_thread)
{
	struct thread *t = task ? bpf_task_storage_get(&threads, task, 0, 0) : NULL, *call;

	if (!t)
		return NULL;
	*ret_thread = t;
	call = in_flight(task, t);
	return call->start ? call : NULL;
}

/* There is no room to tell of a call: user space is to come again. */
static __always_inline bool is_crowded(void)
{
	if (ring_takes_more(1))
		return false;
	crowded++;
	return true;
}

/* why: of one that was seen to begin. */
static __always_inline int tell_of(struct task_struct *task, struct thread *call, struct thread *t, u32 why)
{
	return emit_pending_at(task, call, t, call->pending == CALL_BEGAN_BEFORE ? SPOOR_PENDING_BEFORE : why, 1);
}

u64 tell_again = 0; /* calls that were last told of before this segment are told of in the present one, too */

/*
 * A segment has begun: it is told what the calls in flight refer to, so that nobody need keep that for as long as they
 * may last, and of the calls themselves where the segment that tells of them may soon be dropped.
 */
SEC("iter/task")
int repeat_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t = NULL, *call = call_of(task, &t);

	if (!call || call->call_epoch == epoch || is_crowded())
		return 0;
	if (call->pending && call->told < tell_again)
		tell_of(task, call, t, SPOOR_PENDING_SLEEP);
	else
		emit_need(task, call, 1);
	call->call_epoch = epoch; /* a call that the thread has begun meanwhile is of this segment anyway */
	return 0;
}

/* A thread that is stopped, by a signal or a debugger: the call out of which that took it begins again. */
static __always_inline int tell_stopped(struct task_struct *task, struct thread *t, struct thread *s, struct cpu *c)
{
	u32 turn = *(volatile u32 *)&t->turn;

	if (!(turn & TURN_OUTSIDE) || !is_cut(task, (void *)bpf_task_pt_regs(task)))
		return 0;
	if (describe(task, t, s, c, turn) && sleeps_on(task, t, turn))
		emit_pending_at(task, s, t, SPOOR_PENDING_BEFORE, 1);
	return 0;
}

SEC("iter/task")
int end_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t = NULL, *call = call_of(task, &t);
	struct cpu *c = this_cpu();

	if (!t || !c || t->at_end || (call && call->at_end) || is_crowded())
		return 0;
	if (!call) {
		t->at_end = 1;
		return tell_stopped(task, t, &c->spare, c);
	}
	call->at_end = 1;
	return tell_of(task, call, t, SPOOR_PENDING_END);
}

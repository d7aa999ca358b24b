/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Membership of the trace map follows fork, exec, exit and cgroup moves; and what must be written about a thread when
 * it sleeps, forks, execs, is renamed, or ends.
 */
#include "collect/kernel/syscalls.bpf.h"

/* ---- does a name match? ---- */

#define NAME_AT 4096 /* where in scratch.path the name to match lies */

struct glob {
	u32 p, s;         /* positions in pattern and name */
	u32 star, star_s; /* where to go back to; star 0: nowhere (else position + 1) */
};

/* One step of matching * and ? (greedy with one point of return). Returns 0 to go on, 1 no, 2 yes. */
static __always_inline int glob_step(struct glob *g, char p, char s)
{
	if (p == '*') {
		g->star = ++g->p;
		g->star_s = g->s;
		return 0;
	}
	if (!s)
		return p ? 1 : 2;
	if (p == s || p == '?') {
		g->p++;
		g->s++;
		return 0;
	}
	if (!g->star)
		return 1;
	g->p = g->star;
	g->s = ++g->star_s;
	return 0;
}

struct glob_loop {
	struct glob g;
	u32 pattern, result;
	struct scratch *sc;
};

static long glob_round(u32 i, void *ctx)
{
	struct glob_loop *l = ctx;
	char p = names[l->pattern & (SPOOR_MAX_NAMES - 1)][l->g.p & (SPOOR_NAME_MAX - 1)];

	l->result = glob_step(&l->g, p, l->sc->path[NAME_AT + (l->g.s & 63)]);
	return l->result ? 1 : 0;
}

/* Does names[i] match the name at sc->path + NAME_AT? */
__noinline int glob_matches(u32 i, struct scratch *sc)
{
	struct glob_loop l = { .pattern = i, .sc = sc };

	if (!sc)
		return 0;
	bpf_loop(512, glob_round, &l, 0);
	return l.result == 2;
}

__noinline int name_matches(struct scratch *sc)
{
	u32 i;

	if (!sc)
		return 0;
	for (i = 0; i < SPOOR_MAX_NAMES; i++)
		if (i < n_names && glob_matches(i, sc))
			return 1;
	return 0;
}

struct base_name {
	struct scratch *sc;
	u32 at;
};

static long base_name_step(u32 i, void *ctx)
{
	struct base_name *b = ctx;
	char ch = b->sc->path[i & 4095];

	if (!ch)
		return 1;
	if (ch == '/')
		b->at = i + 1;
	return 0;
}

/*
 * The name by which it was called without its path, the executable file's (which differs for links and for
 * /proc/self/exe), or the comm, which for a script is the script's name.
 */
__noinline int exec_matches(u64 filename, u64 file_name, struct scratch *sc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct base_name b = { .sc = sc };

	if (!sc)
		return 0;
	bpf_probe_read_kernel_str(sc->path, 4096, (void *)filename);
	bpf_loop(4095, base_name_step, &b, 0);
	bpf_probe_read_kernel_str(sc->path + NAME_AT, 64, sc->path + (b.at & 4095));
	if (name_matches(sc))
		return 1;
	bpf_probe_read_kernel_str(sc->path + NAME_AT, 64, (void *)file_name);
	if (name_matches(sc))
		return 1;
	bpf_probe_read_kernel_str(sc->path + NAME_AT, 16, task->comm);
	return name_matches(sc);
}

/* ---- coming in ---- */

/* Spoor itself, what it forks (the row compiler), and what that forks (a worker an object). */
static __always_inline bool is_ours(struct task_struct *task)
{
	struct task_struct *parent = task->real_parent;

	return task->tgid == self_tgid || parent->tgid == self_tgid || parent->real_parent->tgid == self_tgid;
}

/* first: what its storage holds from the beginning, or NULL */
static __always_inline struct thread *take_in(struct task_struct *task, struct thread *first)
{
	struct thread *t = bpf_task_storage_get(&threads, task, first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cpu *c;

	if (t) {
		__sync_fetch_and_add(&live_threads, 1);
		return t;
	}
	c = this_cpu();
	if (c)
		c->stats.thread_misses++;
	return NULL;
}

static __always_inline void count_end(struct thread *t)
{
	if (!__sync_lock_test_and_set(&t->ended, 1))
		__sync_fetch_and_add(&live_threads, -1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *p = bpf_task_storage_get(&threads, parent, 0, 0), *t;
	bool thread = parent->tgid == child->tgid;
	u32 tgid = parent->tgid, *pick = NULL;

	if (!p && is_ours(child))
		return 0;
	if (match_cgroup) { /* clone3 can bear into another one */
		if (!in_cgroup(child->cgroups->dfl_cgrp))
			return 0;
	} else if (!p) {
		if (match_all)
			goto in;
		if (!attaching)
			return 0;
		pick = bpf_map_lookup_elem(&picks, &tgid);
		if (!pick || (!thread && !(*pick & SPOOR_PICK_FOLLOW)))
			return 0;
	} else if (!thread && !p->follow) {
		return 0;
	}
in:
	t = take_in(child, NULL);
	if (!t)
		return 0;
	if (p) {
		t->follow = p->follow;
		t->named = p->named;
		t->wait_exec = p->wait_exec;
		t->gen = p->gen;
		t->layout = layout_of(parent, p);
		t->image = share_image(parent, p);
		t->image_shared = 1;
	} else {
		t->follow = pick ? !!(*pick & SPOOR_PICK_FOLLOW) : 1;
		t->named = pick ? !!(*pick & SPOOR_PICK_NAMED) : 0;
	}
	if (!t->wait_exec)
		emit_thread(child, t, SPOOR_THREAD_FORK);
	return 0;
}

/* ---- execve ---- */

/*
 * An execve whose entry was not ours to see: its path is certain here. That its address is 0 says that the arguments are
 * unknown. (Not SPOOR_EVENT_UNREADABLE: what has that is read again at exit, from the arguments.)
 */
static __always_inline void begin_exec(struct task_struct *task, struct thread *t, struct scratch *sc, u64 filename)
{
	struct spoor_call_config *cfg = &calls[SPOOR_NR_EXECVE];
	long n;

	if (!cfg->mode || paused)
		return;
	__builtin_memset(t->data, 0, 32);
	n = bpf_probe_read_kernel_str(t->data + 24, SPOOR_MAX_STRING, (void *)filename);
	t->len = 24 + (n > 0 ? n : 1);
	t->id = SPOOR_NR_EXECVE;
	t->ret_at = 24;
	t->flags = SPOOR_EVENT_READ_AT_EXIT;
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
	u32 size = (sizeof(*e) + 7) & ~7u;

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
	e->exact = 1;
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
	t->flags = SPOOR_EVENT_READ_AT_EXIT;
}

static __always_inline void leave(struct task_struct *task, struct thread *t)
{
	emit_exit(task, t, 0);
	count_end(t);
	bpf_task_storage_delete(&threads, task);
}

/* What execve mapped: the program, its interpreter (where it begins to run), the vDSO. */
static __always_inline void emit_exec_mappings(struct task_struct *task, struct scratch *sc)
{
	struct mm_struct *mm = task->mm;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u64 program = mm->start_code, start = regs->ip;

	emit_mapping(program, sc);
	if (start < program || start >= mm->end_code)
		emit_mapping(start, sc);
	emit_mapping(address_of(sc, mm->context.vdso), sc);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct cpu *c = this_cpu();
	struct scratch *sc;
	bool match;

	if (!c || (!t && !match_names))
		return 0;
	sc = &c->scratch[0];
	if (t && t->start && (t->flags & SPOOR_EVENT_UNREADABLE)) {
		u64 start = t->start;

		t->start = 0;
		barrier();
		exec_path(t, (u64)bprm->filename);
		barrier();
		t->start = start;
	}
	if (match_names && (!t || t->named)) {
		u64 filename = address_of(sc, bprm->filename);

		match = exec_matches(filename, address_of(sc, bprm->file->f_path.dentry->d_name.name), sc);
		if (t && !match) {
			/* The call began in the old image, which was in, and succeeded: written before it is out. */
			if (t->pending && old_pid != task->pid)
				emit_moved(task, t, old_pid);
			if (t->start)
				emit_call(task, t, 0);
			leave(task, t);
			return 0;
		}
		if (!match)
			return 0;
		if (!t) {
			t = take_in(task, NULL);
			if (!t)
				return 0;
			t->named = 1;
			t->follow = 1;
			begin_exec(task, t, sc, (u64)bprm->filename);
		}
	}
	if (t->pending && old_pid != task->pid)
		emit_moved(task, t, old_pid);
	t->wait_exec = 0;
	t->gen++;
	new_image(t);
	emit_thread(task, t, SPOOR_THREAD_EXEC);
	emit_exec_mappings(task, sc);
	return 0;
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

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t)
		return 0;
	if (t->start)
		emit_pending(task, t, SPOOR_PENDING_DEATH);
	t->start = 0;
	emit_exit(task, t, task->signal->live.counter == 0);
	count_end(t);
	return 0;
}

static __always_inline void decide_cgroup(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	bool in = in_cgroup(task->cgroups->dfl_cgrp);

	if (t && !in) {
		if (t->start)
			emit_pending(task, t, SPOOR_PENDING_END);
		leave(task, t);
	} else if (!t && in && !is_ours(task)) {
		retake = 1; /* also takes in those for which there is no memory in this context */
		t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (t) {
			__sync_fetch_and_add(&live_threads, 1);
			t->follow = 1;
			t->moved = 1;
			emit_thread(task, t, SPOOR_THREAD_MOVE);
		}
	}
}

struct bpf_iter_task {
	u64 opaque[3];
} __attribute__((aligned(8)));
enum { ITER_PROC_THREADS = 2 };
extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __ksym __weak;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym __weak;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym __weak;

/*
 * After a move in any hierarchy, of version 1 too; only the task's place in that of version 2 counts. For a process
 * with threads there is one event. Before Linux 6.7 its threads cannot be listed here: only its leader changes sides.
 */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_moved, struct cgroup *cgrp, const char *path, struct task_struct *task, bool threadgroup)
{
	struct bpf_iter_task it;
	struct task_struct *each;

	if (!match_cgroup)
		return 0;
	if (!threadgroup || !bpf_iter_task_new) {
		decide_cgroup(task);
		return 0;
	}
	bpf_iter_task_new(&it, task, ITER_PROC_THREADS);
	while ((each = bpf_iter_task_next(&it)))
		decide_cgroup(each);
	bpf_iter_task_destroy(&it);
	if (retake)
		bpf_ringbuf_output(&wakeups, &(u64){ 1 }, 8, BPF_RB_FORCE_WAKEUP);
	return 0;
}

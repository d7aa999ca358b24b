/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Who is in: membership of the trace map follows fork, exec, exit and cgroup moves. What happens to a thread thereby is
 * the collector's affair. Before it includes this it defines, all static and always inline:
 *
 *	on_fork(task, t, parent, p)         task came in by its parent's fork or clone; p: the parent's, or NULL
 *	on_exec_begin(task, t, bprm)        an execve succeeded; whether the name matches (-n) is not decided yet
 *	on_exec_in(task, t, bprm)           it came in by its new name; its execve's entry was not seen
 *	on_exec_out(task, t, old_pid)       it goes out by its new name; its execve began inside and succeeded
 *	on_exec(task, t, old_pid, sc)       it stays in, or came in; a thread other than the leader had the tid old_pid
 *	on_exit(task, t)                    it ends
 *	on_move_in(task, t)                 it was moved into the cgroup
 *	on_move_out(task, t)                and out of it
 *
 * and for attach.bpf.h, in an iterator's context; s is a copy of a thread's state that nobody else sees:
 *
 *	on_describe(task, s, c)             s is what task's state begins with: if it sleeps in a call, s->start says so
 *	on_attach(task, t, s)               it came in with what s says; t is NULL if there was no memory for it, or it
 *	                                    was in already
 */
#include "collect/kernel/images.bpf.h"
#include "collect/kernel/objects.bpf.h"

/* ---- does a name match? ---- */

#define NAME_AT 4096                            /* where in scratch.path the name to match lies */
#define MATCH_AT (NAME_AT + SPOOR_NAME_MATCHED) /* and how far that is */

struct name_loop {
	u32 pattern, result;
	struct scratch *sc;
};

/* Where it is lies in memory of which the verifier knows nothing: positions that it knows it follows one by one. */
static long name_round(u32 i, void *ctx)
{
	struct name_loop *l = ctx;
	struct spoor_name_match *m = (void *)&l->sc->path[MATCH_AT];

	l->result = spoor_name_step(&names, l->pattern, m, l->sc->path[NAME_AT + (m->s & (SPOOR_NAME_MATCHED - 1))]);
	return l->result ? 1 : 0;
}

/* Does the i-th pattern match the name at sc->path + NAME_AT? */
__noinline int name_matches_one(u32 i, struct scratch *sc)
{
	struct name_loop l = { .pattern = i, .sc = sc };

	if (!sc)
		return 0;
	*(struct spoor_name_match *)&sc->path[MATCH_AT] = (struct spoor_name_match){ 0 };
	bpf_loop(SPOOR_NAME_MAX * SPOOR_NAME_MATCHED, name_round, &l, 0);
	return l.result == 2;
}

__noinline int name_matches(struct scratch *sc)
{
	u32 i;

	if (!sc)
		return 0;
	for (i = 0; i < SPOOR_MAX_NAMES; i++)
		if (i < names.n && name_matches_one(i, sc))
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
	bpf_probe_read_kernel_str(sc->path + NAME_AT, SPOOR_NAME_MATCHED, sc->path + (b.at & 4095));
	if (name_matches(sc))
		return 1;
	bpf_probe_read_kernel_str(sc->path + NAME_AT, SPOOR_NAME_MATCHED, (void *)file_name);
	if (name_matches(sc))
		return 1;
	bpf_probe_read_kernel_str(sc->path + NAME_AT, 16, task->comm);
	return name_matches(sc);
}

/* ---- coming in ---- */

struct ancestor_loop {
	u64 cgrp;
	bool found;
};

static long ancestor_step(u32 i, void *ctx)
{
	struct ancestor_loop *l = ctx;
	struct cgroup *cgrp = (void *)l->cgrp;

	l->found = BPF_CORE_READ(cgrp, ancestors[i], kn, id) == cgroup_id;
	return l->found;
}

/* At whatever level: where a mount of cgroups or a namespace begins says nothing of what is above. */
__noinline int is_under_cgroup(u64 cgrp)
{
	struct ancestor_loop l = { .cgrp = cgrp };

	bpf_loop(BPF_CORE_READ((struct cgroup *)cgrp, level) + 1, ancestor_step, &l, 0);
	return l.found;
}

static __always_inline bool in_cgroup(struct task_struct *task)
{
	return is_under_cgroup((u64)BPF_CORE_READ(task, cgroups, dfl_cgrp));
}

static __always_inline bool is_our_child(struct task_struct *task)
{
	return task->real_parent->tgid == self_tgid && task->start_time >= self_began;
}

/*
 * Spoor itself, what it forks (the row compiler), and what that forks (a worker an object); not what a shell had forked
 * that then executed Spoor.
 */
static __always_inline bool is_ours(struct task_struct *task)
{
	return task->tgid == self_tgid || is_our_child(task) || is_our_child(task->real_parent);
}

/*
 * Is t, just got, for who asks to take in? Not if another one was faster. first, as below, says JOINED_SEEN, so an
 * iterator knows storage that it made itself; there is one iterator at a time.
 */
static __always_inline bool join(struct thread *t, struct thread *first)
{
	if (first ? *(volatile u32 *)&t->joined != JOINED_SEEN :
		    __sync_val_compare_and_swap(&t->joined, JOINED_NOT, JOINED) != JOINED_NOT)
		return false;
	__sync_fetch_and_add(&live_threads, 1);
	return true;
}

/* first: what its storage holds from the beginning, or NULL. NULL: no memory, or another one took it in. */
static __always_inline struct thread *take_in(struct task_struct *task, struct thread *first)
{
	struct thread *t = bpf_task_storage_get(&threads, task, first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cpu *c;

	if (t)
		return join(t, first) ? t : NULL;
	c = this_cpu();
	if (first) {
		retake = 1; /* the iterator will come again */
		missing++;
	} else if (c) {
		c->stats.thread_misses++;
	}
	return NULL;
}

static __always_inline void count_end(struct thread *t)
{
	if (!__sync_lock_test_and_set(&t->ended, 1))
		__sync_fetch_and_add(&live_threads, -1);
}

/* pick: NULL if it is in for another reason than its number or name. */
static __always_inline void be_in_by(struct thread *t, const u32 *pick)
{
	u32 bits = pick ? *pick : SPOOR_PICK_FOLLOW;

	t->named = !!(bits & SPOOR_PICK_NAMED);
	t->follow = t->named || bits & SPOOR_PICK_FOLLOW;
	t->pinned = bits & SPOOR_PICK_PINNED ? 1 + (bits & SPOOR_PICK_FOLLOW) : 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *p = bpf_task_storage_get(&threads, parent, 0, 0), *t;
	bool thread = parent->tgid == child->tgid;
	u32 tgid = tgid_for_spoor(parent), *pick = NULL;

	if (!p && is_ours(child))
		return 0;
	if (match_cgroup) { /* clone3 can bear into another one */
		if (!in_cgroup(child))
			return 0;
	} else if (!p) {
		if (match_all)
			goto in;
		if (!attaching)
			return 0;
		pick = bpf_map_lookup_elem(&picks, &tgid);
		if (!pick || (!thread && !(*pick & (SPOOR_PICK_FOLLOW | SPOOR_PICK_NAMED))))
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
		t->pinned = p->pinned;
		t->wait_exec = p->wait_exec;
		t->gen = p->gen;
		t->layout = layout_of(parent, p);
		t->image = thread ? image_of(parent, p) : share_image(parent, p);
		t->image_shared = IMAGE_CAME;
		t->vm_shared = !thread && child->mm == parent->mm;
		if (t->vm_shared)
			share_vm(parent, p);
	} else {
		be_in_by(t, pick);
	}
	if (!thread && t->pinned == 1)
		t->pinned = 0;
	on_fork(child, t, parent, p);
	return 0;
}

/* ---- execve ---- */

/* It was found under a name, and has another one before the iterator came to it. */
static __always_inline void unpick(struct task_struct *task)
{
	u32 tgid = tgid_for_spoor(task), *pick = attaching ? bpf_map_lookup_elem(&picks, &tgid) : NULL;

	if (pick && *pick == SPOOR_PICK_NAMED)
		bpf_map_delete_elem(&picks, &tgid);
}

static __always_inline void leave(struct task_struct *task, struct thread *t)
{
	count_end(t);
	bpf_task_storage_delete(&threads, task);
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
	if (t) {
		on_exec_begin(task, t, bprm);
		if (t->owed)
			layout_gone(t->owed, sc); /* with its address space */
		t->owed = 0;
	}
	if (match_names && (!t || t->named || t->pinned)) {
		u64 filename = address_of(sc, bprm->filename);

		match = exec_matches(filename, address_of(sc, bprm->file->f_path.dentry->d_name.name), sc);
		if (!match && (!t || !t->pinned)) {
			unpick(task);
			if (!t) /* the iterator may have looked for the pick just before */
				t = bpf_task_storage_get(&threads, task, 0, 0);
			if (!t)
				return 0;
			if (!t->pinned) {
				if (t->vm_shared)
					unshare_vm(task);
				on_exec_out(task, t, old_pid);
				leave(task, t);
				return 0;
			}
		}
		if (!t) {
			t = take_in(task, NULL);
			if (!t)
				return 0;
			on_exec_in(task, t, bprm);
		}
		t->named = match;
		t->follow = match || t->pinned == 2;
	}
	t->wait_exec = 0;
	t->gen++;
	if (t->vm_shared) {
		t->vm_shared = 0;
		unshare_vm(task);
	}
	new_image(task, t);
	on_exec(task, t, old_pid, sc);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t)
		return 0;
	if (t->owed)
		layout_pay(t);
	on_exit(task, t);
	if (t->vm_shared)
		unshare_vm(task);
	count_end(t);
	return 0;
}

static __always_inline void decide_cgroup(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	bool in = in_cgroup(task);

	if (t && !in) {
		on_move_out(task, t);
		leave(task, t);
	} else if (!t && in && !is_ours(task)) {
		retake = 1; /* the call in which it sleeps is to be told of, or there is no memory in this context */
		t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (t && join(t, NULL)) {
			t->follow = 1;
			on_move_in(task, t);
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

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Executable mappings: each new one is told of, and where one that rows were cached for changes, they are forgotten. */
#include "collect/kernel/images.bpf.h"
#include "collect/kernel/objects.bpf.h"

static __always_inline u64 call_arg(struct task_struct *task, struct pt_regs *r, u32 i)
{
	bool i386 = task->thread_info.status & TS_COMPAT;

	return i == 0 ? i386 ? r->bx : r->di : i == 1 ? i386 ? r->cx : r->si : i == 2 ? r->dx : i386 ? r->si : r->r10;
}

enum { PROT_READ = 1, PROT_EXEC = 4, MREMAP_FIXED = 2, READ_IMPLIES_EXEC = 0x400000 };

/*
 * An executable mapping of the current process, for the record; the object is announced if it is new. Returns which it
 * is, and *sc has the mapping; SPOOR_OBJECT_NONE: it is not of a file, or not known.
 */
__noinline u32 emit_mapping(u64 addr, struct scratch *sc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct spoor_mapping *e;
	struct reservation r;
	u32 object = SPOOR_OBJECT_NONE;
	struct vma_answer *a;

	if (!sc)
		return object;
	a = &sc->vma;
	if (find_mapping(addr, a) || !a->exec)
		return object;
	if (a->vdso == a->start)
		object = SPOOR_OBJECT_VDSO;
	else if (a->file)
		object = object_of(a, sc);
	emit_reserve(&r, 0, sizeof(*e));
	if (!r.to)
		return object;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_MAPPING, 0, sizeof(*e), task->pid, bpf_ktime_get_ns());
	e->pid = task->tgid;
	e->object = object;
	e->start = a->start;
	e->end = a->end;
	e->offset = a->offset;
	emit_commit(&r, sizeof(*e));
	return object;
}

/* Is what lies there now executable? 1, too, if that cannot be told, or if these are several mappings. */
__noinline int is_code(u64 addr, u64 len)
{
	struct vma_answer a = {};
	int r = find_mapping(addr, &a);

	return r == -EBUSY || (!r && (a.exec || a.end < addr + len));
}

/* May the call have brought code to where there was none, or other code? */
static __always_inline bool brings_code(struct task_struct *task, struct pt_regs *regs, long ret, u32 kind)
{
	bool implied = task->personality & READ_IMPLIES_EXEC;
	u32 exec = implied ? PROT_READ | PROT_EXEC : PROT_EXEC;

	if (kind == SPOOR_MAP_BRK)
		return implied;
	if (kind == SPOOR_MAP_REMAP)
		return is_code(ret, call_arg(task, regs, 2));
	return kind == SPOOR_MAP_OTHER || (kind <= SPOOR_MAP_PROTECT && call_arg(task, regs, 2) & exec);
}

static __always_inline u64 code_brought_at(struct task_struct *task, struct pt_regs *regs, long ret, u32 kind)
{
	return kind == SPOOR_MAP_PROTECT ? call_arg(task, regs, 0) : kind == SPOOR_MAP_BRK ? ret - 1 : ret;
}

/*
 * Ranges are changed mapping by mapping: what failed may have changed those before. (mremap(2) since Linux 6.17; where
 * to, is not looked for.) Returns the kind of change, 0: none.
 */
static __always_inline u32 map_kind(struct task_struct *task, struct pt_regs *regs, long ret, u32 kind)
{
	if (ret >= 0 || ret <= -4096 || kind == SPOOR_MAP_PROTECT)
		return kind;
	return kind == SPOOR_MAP_REMAP && call_arg(task, regs, 3) & MREMAP_FIXED ? SPOOR_MAP_OTHER : 0;
}

/*
 * After a call that changed mappings, or may have before it failed: where rows may be cached for the addresses that it
 * concerns, the process gets another image and with it forgets them. Nothing else needs to: what was not mapped
 * executable was never cached, nor is a walk remembered that came there. But what one process maps, another with the
 * same image may map otherwise: with new code it gets another image, too. And where another one runs in the same
 * memory, a new image is what tells it of new code.
 */
static __noinline int note_map(struct task_struct *task, struct thread *t, struct pt_regs *regs, long ret, u32 kind)
{
	u32 object = SPOOR_OBJECT_NONE;
	struct cpu *c = this_cpu();
	bool brings, stale = false;
	struct vma_answer *a;
	struct thread *l;
	u64 addr, len;

	if (!task || !t || !regs || !c)
		return 0;
	a = &c->scratch[0].vma;
	kind = map_kind(task, regs, ret, kind);
	if (!kind)
		return 0;
	l = leader_of(task, t);
	len = call_arg(task, regs, 1);
	brings = brings_code(task, regs, ret, kind);
	if (brings) {
		l->layout = 0; /* another one from here on */
		stale = l->image_shared || l->vm_shared;
		if (!t->wait_exec)
			object = emit_mapping(code_brought_at(task, regs, ret, kind), &c->scratch[0]);
	}
	addr = kind == SPOOR_MAP_UNMAP ? call_arg(task, regs, 0) : (u64)ret;
	if (kind != SPOOR_MAP_PROTECT && kind != SPOOR_MAP_BRK)
		stale |= kind == SPOOR_MAP_OTHER || code_cached(l->image, addr, len);
	if (kind == SPOOR_MAP_REMAP)
		stale |= code_cached(l->image, call_arg(task, regs, 0), len) ||
			 code_cached(l->image, ret, call_arg(task, regs, 2));
	if (!stale)
		return 0;
	/* Code that is moved, or made so, may be any; so may that of no file, and what another thread mapped over. */
	if (!brings || (kind == SPOOR_MAP_MMAP && object != SPOOR_OBJECT_NONE && a->start <= addr &&
			a->end >= addr + len))
		next_image_of(task, l, object, a);
	else
		new_image(task, l);
	return 0;
}

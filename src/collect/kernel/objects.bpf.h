/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Code: which object, and which offset in it, an address of a process belongs to. The kernel's own mappings are the
 * truth; what they said is remembered per (image, page). An image is a version of an address space's layout of
 * executable mappings (see docs/architecture.md).
 */
#include "collect/kernel/files.bpf.h"
#include "collect/kernel/own_ids.bpf.h"
#include "collect/kernel/vma.bpf.h"

static __always_inline u64 inode_mtime(struct inode *inode)
{
	if (bpf_core_field_exists(inode->i_mtime_sec))
		return BPF_CORE_READ(inode, i_mtime_sec) * 1000000000ULL + BPF_CORE_READ(inode, i_mtime_nsec);
	struct inode___old *old = (void *)inode;
	return BPF_CORE_READ(old, i_mtime.tv_sec) * 1000000000ULL + BPF_CORE_READ(old, i_mtime.tv_nsec);
}

#define CTIME_NSEC ((1U << 31) - 1) /* above it the kernel notes whether somebody has looked (since 6.13) */

static __always_inline u64 inode_ctime(struct inode *inode)
{
	struct inode___old *old = (void *)inode;
	struct inode___older *older = (void *)inode;

	if (bpf_core_field_exists(inode->i_ctime_sec))
		return BPF_CORE_READ(inode, i_ctime_sec) * 1000000000ULL +
		       (BPF_CORE_READ(inode, i_ctime_nsec) & CTIME_NSEC);
	if (bpf_core_field_exists(old->__i_ctime))
		return BPF_CORE_READ(old, __i_ctime.tv_sec) * 1000000000ULL + BPF_CORE_READ(old, __i_ctime.tv_nsec);
	return BPF_CORE_READ(older, i_ctime.tv_sec) * 1000000000ULL + BPF_CORE_READ(older, i_ctime.tv_nsec);
}

static __always_inline void object_key(struct spoor_object_key *key, u64 file_addr)
{
	struct file *file = (void *)file_addr;
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	key->ino = BPF_CORE_READ(inode, i_ino);
	key->size = BPF_CORE_READ(inode, i_size);
	key->mtime = inode_mtime(inode);
	key->ctime = inode_ctime(inode);
	key->dev = BPF_CORE_READ(inode, i_sb, s_dev);
}

struct spoor_object_key found_key;

/*
 * Run by user space with an address at which it has a file mapped: its key, as walks will meet it. fstat() knows other
 * numbers of what lies on an overlay or in a subvolume. Returns 1: it is in found_key.
 */
SEC("raw_tp")
int object_key_at(u64 *args)
{
	struct vma_answer a = {};

	if (find_mapping(args[0], &a) || !a.file)
		return 0;
	object_key(&found_key, a.file);
	return 1;
}

/* Where the process sees the file behind a mapping: an overlay maps its layer's file, which lies elsewhere. */
static __always_inline u64 shown_path(u64 file)
{
	u32 backing = bpf_core_type_exists(struct file_range) ? FMODE_BACKING : FMODE_BACKING_FIRST;

	if (bpf_core_type_exists(struct backing_file) && BPF_CORE_READ((struct file *)file, f_mode) & backing)
		return file + bpf_core_field_offset(struct backing_file, user_path);
	return file + bpf_core_field_offset(struct file, f_path);
}

/* The same with the names in sc->path: the object's path from pos on, its place in the file system before. */
static __noinline int emit_named_object(u32 id, struct vma_answer *a, struct scratch *sc, u32 pos, u32 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct spoor_ctl_object *o;
	struct reservation r;
	u32 len, size;

	if (!a || !sc)
		return -1;
	len = (PATH_SPACE - place) & (PATH_SPACE - 1);
	size = SPOOR_EVENT_ROUND(__builtin_offsetof(struct spoor_ctl_object, text) + len);
	emit_reserve(&r, 0, size);
	if (!r.to)
		return -1;
	o = (void *)r.to;
	emit_header(o, SPOOR_CTL_OBJECT, 0, size, tid_for_spoor(task), bpf_ktime_get_ns());
	o->id = id;
	o->pid = tgid_for_spoor(task);
	object_key(&o->key, a->file);
	o->start = a->start;
	o->end = a->end;
	o->offset = a->offset;
	o->mounts = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	o->place_len = pos - place;
	o->path_len = PATH_SPACE - pos;
	bpf_probe_read_kernel(o->text, len, sc->path + (place & (PATH_SPACE - 1)));
	emit_commit(&r, size);
	wake_consumer(); /* until its rows are loaded, each walk through it costs a raw copy */
	return 0;
}

/* Tells user space of the object behind a mapping. A function of its own: to its caller the file is a pointer. */
__noinline int emit_object(u32 id, struct vma_answer *a, struct scratch *sc)
{
	u32 pos, place;

	if (!a || !sc)
		return -1;
	pos = path_of(shown_path(a->file), sc);
	place = place_of(a->file + bpf_core_field_offset(((struct file *)0)->f_path), sc, pos);
	return emit_named_object(id, a, sc, pos, place);
}

/* The id of the file behind a mapping; a new one is announced. SPOOR_OBJECT_NONE if there is no room for more. */
__noinline u32 object_of(struct vma_answer *a, struct scratch *sc)
{
	struct spoor_object_key key = {};
	u32 *known, id;

	if (!a || !sc)
		return SPOOR_OBJECT_NONE;
	object_key(&key, a->file);
	known = bpf_map_lookup_elem(&object_ids, &key);
	if (known)
		return *known;
	if (next_object > SPOOR_KERNEL_OBJECTS) /* or it would come to its begin again */
		return SPOOR_OBJECT_NONE;
	id = __sync_fetch_and_add(&next_object, 1);
	if (id >= SPOOR_KERNEL_OBJECTS)
		return SPOOR_OBJECT_NONE;
	if (bpf_map_update_elem(&object_ids, &key, &id, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&object_ids, &key); /* another CPU was first */
		return known ? *known : SPOOR_OBJECT_NONE;
	}
	if (emit_object(id, a, sc))
		bpf_map_delete_elem(&object_ids, &key); /* say it again next time */
	return id;
}

#define AGAIN 200 /* milliseconds, nearly: 2^20 ns */

/*
 * The object's file could not be opened by the process that it was announced with: through the one that has it mapped
 * at pc now it may be (mount namespaces).
 */
__noinline int object_again(u32 id, u64 pc, struct scratch *sc)
{
	struct spoor_kernel_object *o = bpf_map_lookup_elem(&objects, &id);
	u32 now = bpf_ktime_get_ns() >> 20;

	if (!o || !sc || now - o->tried < AGAIN)
		return 0;
	o->tried = now;
	if (find_mapping(pc, &sc->vma) || !sc->vma.file)
		return 0;
	return emit_object(id, &sc->vma, sc);
}

/* ---- layouts: the executable mappings of a process, for user space to unwind raw stacks ---- */

struct bpf_iter_task_vma {
	u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task, u64 addr) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

/* Tells of the mappings noted. Returns 0, or -EAGAIN for want of room. */
__noinline int layout_tell(struct scratch *sc, u32 last)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct spoor_ctl_layout *l;
	struct reservation r;
	u32 size, n;

	if (!sc)
		return -EAGAIN;
	n = sc->n_layout & (2 * LAYOUT_PART - 1);
	size = sizeof(*l) + n * sizeof(struct spoor_layout_range);
	emit_reserve(&r, 0, size);
	if (!r.to)
		return -EAGAIN;
	l = (void *)r.to;
	emit_header(l, SPOOR_CTL_LAYOUT, 0, size, task->pid, bpf_ktime_get_ns());
	l->layout = sc->layout_number;
	l->pid = task->tgid;
	l->n = n;
	l->first = sc->layout_told;
	l->last = last;
	bpf_probe_read_kernel(l->ranges, n * sizeof(struct spoor_layout_range), sc->layout);
	emit_commit(&r, size);
	sc->layout_told += n;
	sc->n_layout = 0;
	return 0;
}

/* Notes one mapping; new objects are announced on the way. */
__noinline int layout_add(struct scratch *sc, struct vma_answer *a)
{
	struct spoor_layout_range *g;
	u32 n;

	if (!sc || !a || !a->exec)
		return 0;
	if (sc->n_layout >= LAYOUT_PART && (sc->layout_torn || layout_tell(sc, 0))) {
		sc->layout_torn = 1;
		return 0;
	}
	n = sc->n_layout++;
	g = &sc->layout[n & (LAYOUT_PART - 1)];
	g->start = a->start;
	g->end = a->end;
	g->offset = a->offset;
	g->unknown = 0;
	g->object = SPOOR_OBJECT_NONE;
	if (a->vdso == a->start) {
		g->object = SPOOR_OBJECT_VDSO;
	} else if (a->file) {
		g->object = object_of(a, sc);
		g->unknown = g->object == SPOOR_OBJECT_NONE;
	}
	return 0;
}

#define LAYOUT_TRIES 32 /* a writer holds the lock of an address space for microseconds */

/* Notes all mappings; none if another thread is changing them. */
static __always_inline void layout_read(struct scratch *sc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;

	bpf_iter_task_vma_new(&it, task, 0);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		vma_read(vma, &sc->vma);
		layout_add(sc, &sc->vma);
	}
	bpf_iter_task_vma_destroy(&it);
}

/*
 * Announces the layout of the current process once. 0: it has been; -ENOSYS: the iterator is missing (before 6.7), and
 * user space reads /proc/PID/maps; -EAGAIN: not now, since another thread changes the address space or there is no
 * room.
 */
__noinline int emit_layout(u32 layout, struct scratch *sc)
{
	u64 one = 1;
	u32 i;

	if (!sc || !bpf_iter_task_vma_new)
		return -ENOSYS;
	if (bpf_map_lookup_elem(&layouts, &layout))
		return 0;
	sc->layout_number = layout;
	sc->layout_told = sc->layout_torn = sc->n_layout = 0;
	for (i = 0; i < LAYOUT_TRIES && !sc->n_layout; i++)
		layout_read(sc);
	if (!sc->n_layout || sc->layout_torn || layout_tell(sc, 1))
		return -EAGAIN;
	bpf_map_update_elem(&layouts, &layout, &one, BPF_ANY);
	return 0;
}

/* Nobody will be able to describe it: user space need not wait, and looks at no later mappings for it. */
static __noinline int layout_gone(u32 layout, struct scratch *sc)
{
	if (!sc)
		return 0;
	sc->layout_number = layout;
	sc->layout_told = sc->n_layout = 0;
	return layout_tell(sc, 1);
}

/*
 * The layout that the entry's raw stack refers to, at the call's end if it could not be had at its entry: the code
 * that waits for the call's return has stayed where it was.
 */
static __noinline int layout_pay(struct thread *t)
{
	struct cpu *c = this_cpu();

	if (!c || !t)
		return 0;
	if (emit_layout(t->owed, &c->scratch[0]))
		layout_gone(t->owed, &c->scratch[0]);
	t->owed = 0;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Paths of open files: as the process sees them, and where they lie in their file system. */
#include "collect/kernel/emit.bpf.h"

#define PATH_SPACE 4096
#define PATH_COMPONENTS 2048

struct path_walk {
	u64 dentry, mnt, root_dentry, root_mnt; /* mnt: struct mount */
	u32 pos;                                /* path[pos..PATH_SPACE) is what has been found so far */
	u32 whole;
	struct scratch *sc;
};

/* The name of d, in front of what is there. Returns 1 if it does not fit. */
static __always_inline long path_prepend(struct path_walk *w, struct dentry *d)
{
	const unsigned char *name = BPF_CORE_READ(d, d_name.name);
	u32 len = BPF_CORE_READ(d, d_name.len), pos;

	if (len > 255 || w->pos < len + 8) /* a path that fills it would have the length 0 */
		return 1;
	pos = w->pos - len - 1;
	w->sc->path[pos & (PATH_SPACE - 1)] = '/';
	bpf_probe_read_kernel(w->sc->path + ((pos + 1) & (PATH_SPACE - 1)), len & 255, name);
	w->pos = pos;
	return 0;
}

/* Prepends one component. Returns 1 at the end. */
static long path_step(u32 i, void *ctx)
{
	struct path_walk *w = ctx;
	struct scratch *sc = w->sc;
	const unsigned char *name;
	struct dentry *d;
	struct mount *m;
	u64 parent;
	u32 len, pos;

	d = (void *)w->dentry;
	m = (void *)w->mnt;
	if (w->dentry == w->root_dentry && w->mnt == w->root_mnt) {
		w->whole = 1;
		return 1;
	}
	parent = (u64)BPF_CORE_READ(d, d_parent);
	if (w->dentry == (u64)BPF_CORE_READ(m, mnt.mnt_root) || w->dentry == parent) {
		u64 up = (u64)BPF_CORE_READ(m, mnt_parent);

		if (up == w->mnt || w->dentry != (u64)BPF_CORE_READ(m, mnt.mnt_root)) {
			w->whole = 1;
			if (w->pos < PATH_SPACE)
				return 1;
			if (w->dentry == (u64)BPF_CORE_READ(m, mnt.mnt_root)) {
				/* A mount that is nowhere (open_tree, umount -l), or what / is outside: as in /proc. */
				w->pos = PATH_SPACE - 1;
				sc->path[PATH_SPACE - 1] = '/';
				return 1;
			}
			/* A file without a place in the tree: its kernel name ("[eventpoll]", "memfd:x"). */
			name = BPF_CORE_READ(d, d_name.name);
			len = BPF_CORE_READ(d, d_name.len);
			if (len > 255)
				len = 255;
			if (w->dentry == parent && len == 1)
				return 1; /* "/": a root, or a process or namespace as a file */
			pos = PATH_SPACE - len;
			bpf_probe_read_kernel(sc->path + (pos & (PATH_SPACE - 1)), len & 255, name);
			w->pos = pos;
			return 1;
		}
		w->dentry = (u64)BPF_CORE_READ(m, mnt_mountpoint);
		w->mnt = up;
		return 0;
	}
	w->dentry = parent;
	return path_prepend(w, d);
}

/*
 * Writes the path into sc->path from the end; returns where it begins. Seen from the root of the current process. What
 * is too long begins with "...".
 */
__noinline u32 path_of(u64 path, struct scratch *sc)
{
	struct path *p = (void *)path;
	struct task_struct *task = (void *)bpf_get_current_task();
	struct path_walk w = { .pos = PATH_SPACE, .sc = sc };
	struct vfsmount *vfs;

	if (!p || !sc)
		return PATH_SPACE;
	w.dentry = (u64)BPF_CORE_READ(p, dentry);
	vfs = BPF_CORE_READ(p, mnt);
	w.mnt = (u64)vfs - bpf_core_field_offset(struct mount, mnt);
	w.root_dentry = (u64)BPF_CORE_READ(task, fs, root.dentry);
	vfs = BPF_CORE_READ(task, fs, root.mnt);
	w.root_mnt = (u64)vfs - bpf_core_field_offset(struct mount, mnt);
	bpf_loop(PATH_COMPONENTS, path_step, &w, 0); /* of a for loop the verifier would follow each round */
	if (w.pos == PATH_SPACE && w.whole && w.dentry == w.root_dentry) {
		sc->path[PATH_SPACE - 1] = '/';
		return PATH_SPACE - 1;
	}
	if (!w.whole && w.pos <= PATH_SPACE - 3) /* longer than there is room: its front is missing */
		__builtin_memcpy(sc->path + (w.pos & (PATH_SPACE - 1)), "...", 3);
	return w.pos;
}

static long place_step(u32 i, void *ctx)
{
	struct path_walk *w = ctx;
	struct dentry *d = (void *)w->dentry;
	u64 parent = (u64)BPF_CORE_READ(d, d_parent);

	if (parent == w->dentry) {
		w->whole = 1;
		return 1;
	}
	w->dentry = parent;
	return path_prepend(w, d);
}

/*
 * Where a file lies in its file system, whatever process sees that and where: into sc->path, ending at `end`. Returns
 * where it begins; `end` if there is no room.
 */
__noinline u32 place_of(u64 path, struct scratch *sc, u32 end)
{
	struct path *p = (void *)path;
	struct path_walk w = { .pos = end, .sc = sc };

	if (!p || !sc)
		return end;
	w.dentry = (u64)BPF_CORE_READ(p, dentry);
	bpf_loop(PATH_COMPONENTS, place_step, &w, 0);
	return w.whole ? w.pos : end;
}

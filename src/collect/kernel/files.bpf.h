/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Who a file is: kernel types, paths as the process sees them, and the ids under which events name open files. */
#include "collect/kernel/intern.bpf.h"
#include "collect/kernel/user.bpf.h"

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

/* ---- paths ---- */

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

/* ---- ids of open files ---- */

struct file_ref {
	u64 path, inode, sk; /* struct path *, struct inode *, struct sock * or 0 */
	u32 level;           /* ring in which a definition goes */
};

enum { PIDFS_MAGIC = 0x50494446, NSFS_MAGIC = 0x6e736673, KIND_LEN = 32 };

/* A process or a namespace as a file is called by its kind: into sc->path; where that begins, and *ret_kind. */
static __always_inline u32 kind_of(struct scratch *sc, struct inode *inode, u8 *ret_kind, u32 *ret_len)
{
	const u32 pos = PATH_SPACE - KIND_LEN;
	unsigned long magic = BPF_CORE_READ(inode, i_sb, s_magic);
	struct ns_common *ns;
	long n;

	if (magic == PIDFS_MAGIC) {
		__builtin_memcpy(sc->path + pos, "[pidfd]", 7);
		*ret_kind = SPOOR_FILE_ANON;
		*ret_len = 7;
	} else if (magic == NSFS_MAGIC) {
		ns = BPF_CORE_READ(inode, i_private);
		n = bpf_probe_read_kernel_str(sc->path + pos, KIND_LEN, BPF_CORE_READ(ns, ops, name));
		*ret_kind = SPOOR_FILE_NS;
		*ret_len = n > 0 ? (n - 1) & (KIND_LEN - 1) : 0;
	}
	return pos;
}

/* Its path: in sc->path, from pos on. */
__noinline u32 emit_file(struct scratch *sc, struct file_ref *ref, u32 id, u32 pos)
{
	struct inode *inode;
	struct spoor_file *e;
	struct reservation r;
	u32 len, size;
	u8 kind = 0;
	u16 mode;

	if (!sc || !ref)
		return 0;
	inode = (void *)ref->inode;
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	len = (PATH_SPACE - pos) & (PATH_SPACE - 1);
	if (!len)
		pos = kind_of(sc, inode, &kind, &len);
	size = SPOOR_EVENT_ROUND(sizeof(*e) + len + 1);
	emit_reserve(&r, ref->level & 1, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_FILE, 0, size, (u32)bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
	e->id = id;
	e->kind = mode == S_IFREG  ? SPOOR_FILE_REG :
		  mode == S_IFDIR  ? SPOOR_FILE_DIR :
		  mode == S_IFCHR  ? SPOOR_FILE_CHR :
		  mode == S_IFBLK  ? SPOOR_FILE_BLK :
		  mode == S_IFIFO  ? SPOOR_FILE_FIFO :
		  mode == S_IFLNK  ? SPOOR_FILE_LNK :
		  mode == S_IFSOCK ? SPOOR_FILE_SOCK :
				     SPOOR_FILE_ANON;
	if (len && sc->path[pos & (PATH_SPACE - 1)] != '/' && sc->path[pos & (PATH_SPACE - 1)] != '.')
		e->kind = kind ? kind : SPOOR_FILE_ANON; /* no place in any tree */
	e->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	e->ino = BPF_CORE_READ(inode, i_ino);
	bpf_probe_read_kernel(e->path, len, sc->path + (pos & (PATH_SPACE - 1)));
	e->path[len] = 0;
	emit_commit(&r, size);
	return id;
}

static __always_inline struct unix_address *unix_peer_address(struct unix_sock *u)
{
	struct unix_sock *peer = (void *)BPF_CORE_READ(u, peer);

	return BPF_CORE_READ(peer, addr);
}

/* An abstract name may hold any byte: as in /proc/net/unix, "@" stands for each that is 0. */
static long show_abstract(u32 i, void *ctx)
{
	struct spoor_socket *e = *(struct spoor_socket **)ctx;

	if (i >= 108)
		return 1;
	if (!e->path[i])
		e->path[i] = '@';
	return 0;
}

__noinline u32 emit_socket(struct file_ref *ref, u32 id)
{
	struct inode *inode;
	struct sock *sk;
	struct unix_sock *u;
	struct unix_address *ua = NULL;
	struct spoor_socket *e;
	struct reservation r;
	u32 size;
	u16 family;

	if (!ref)
		return 0;
	inode = (void *)ref->inode;
	sk = (void *)ref->sk;
	u = (void *)ref->sk;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	size = (sizeof(*e) + (family == AF_UNIX ? 110 : 1) + 7) & ~7u;
	emit_reserve(&r, ref->level & 1, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	__builtin_memset(e, 0, SPOOR_EVENT_ROUND(sizeof(*e) + 110));
	emit_header(e, SPOOR_EV_SOCKET, 0, size, (u32)bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
	e->id = id;
	e->family = family;
	e->type = BPF_CORE_READ(sk, sk_type);
	e->protocol = BPF_CORE_READ(sk, sk_protocol);
	e->state = BPF_CORE_READ(sk, __sk_common.skc_state);
	e->ino = BPF_CORE_READ(inode, i_ino);
	if (e->family == AF_INET || e->family == AF_INET6) {
		e->lport = __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
		e->rport = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	}
	if (e->family == AF_INET) {
		*(u32 *)e->laddr = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		*(u32 *)e->raddr = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	} else if (e->family == AF_INET6) {
		BPF_CORE_READ_INTO((struct in6_addr *)e->laddr, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_addr *)e->raddr, sk, __sk_common.skc_v6_daddr);
	} else if (e->family == AF_UNIX) {
		ua = BPF_CORE_READ(u, addr);
		if (!ua) /* the accepted side has its listener's address at the peer's end */
			ua = unix_peer_address(u);
		if (ua) {
			u32 n = BPF_CORE_READ(ua, len) - 2;

			if (n > 108)
				n = 108;
			bpf_probe_read_kernel(e->path, n & 127,
					      (char *)ua + bpf_core_field_offset(ua->name) + 2 /* sun_path */);
			if (!e->path[0])
				bpf_loop(n & 127, show_abstract, &e, 0);
			e->path[109] = 0;
		}
	}
	/* Behind a string's NUL comes padding to 4 bytes and the next event: that is how CTF finds it. */
	size = sizeof(*e) + bpf_probe_read_kernel_str(e->path, 110, e->path);
	size = SPOOR_EVENT_ROUND(size);
	((struct spoor_event_header *)e)->size4 = SPOOR_SIZE4(size);
	emit_commit(&r, size);
	return id;
}

__noinline u32 file_id_new(struct cpu *c, struct scratch *sc, struct file_ref *ref, u64 hash, u32 id)
{
	u32 now = epoch;

	if (!c || !sc || !ref)
		return 0;
	if (!id)
		id = __sync_fetch_and_add(&next_file, 1);
	if (!(ref->sk ? emit_socket(ref, id) : emit_file(sc, ref, id, path_of(ref->path, sc))))
		return 0;
	c->stats.file_defs++;
	id_put(&file_ids, FILE_BUCKETS, hash, id, now);
	return id;
}

static __always_inline u32 file_id(struct cpu *c, struct scratch *sc, struct file_ref *ref, u64 hash)
{
	u32 in, id = id_get(&file_ids, FILE_BUCKETS, hash, &in);

	return id && in == (u32)epoch ? id : file_id_new(c, sc, ref, hash, id);
}

/* Where a walk to / has come to. */
struct path_at {
	u64 dentry, mnt, root; /* struct mount *, and the dentry that is its root */
	u64 hash;              /* of the names above `dentry` that were passed */
};

/* Passes one name on the way up, or one mount. Returns 1 at the end. */
static long hash_step(u32 i, void *ctx)
{
	struct path_at *p = ctx;
	u64 up;

	if (p->dentry == p->root) {
		up = kernel_word(p->mnt + bpf_core_field_offset(struct mount, mnt_parent));
		if (up == p->mnt)
			return 1;
		p->dentry = kernel_word(p->mnt + bpf_core_field_offset(struct mount, mnt_mountpoint));
		p->mnt = up;
		p->root = kernel_word(up + bpf_core_field_offset(struct mount, mnt.mnt_root));
	} else {
		up = kernel_word(p->dentry + bpf_core_field_offset(struct dentry, d_parent));
		if (up == p->dentry)
			return 1;
		p->dentry = up;
	}
	p->hash = mix(p->hash, p->dentry ^ (u64)as_kernel(struct dentry, p->dentry)->d_name.hash << 32);
	return 0;
}

/* Of what lies above `dentry`. */
__noinline u64 hash_above(u64 dentry, u64 mnt, u64 root, u64 hash)
{
	struct path_at p = { dentry, mnt, root, hash };

	if (!bpf_rdonly_cast) /* it is verified also where nobody calls it */
		return hash;
	bpf_loop(PATH_COMPONENTS, hash_step, &p, 0);
	return p.hash;
}

#define PATH_LEVELS 24 /* names above a file, in its own mount, that need no calls */
#define MOUNT_LEVELS 8 /* names above that mount */

/* Passes names up to the root of the file system; mounts on the way are not seen. Returns the last. */
static __always_inline u64 pass_names(u64 at, u64 *hash, int levels)
{
	u64 up;
	int i;

	for (i = 0; i < levels; i++) {
		struct dentry *d = as_kernel(struct dentry, at);

		*hash = mix(*hash, at ^ (u64)d->d_name.hash << 32);
		up = kernel_word(at + bpf_core_field_offset(struct dentry, d_parent));
		if (up == at)
			break;
		at = up;
	}
	return at;
}

/*
 * What a file is called follows from its dentry and those above it up to /, also beyond where file systems are mounted,
 * and from the root directory of who asks: each may be renamed or moved, or reused for another one. Files without a
 * place in a tree share an inode and have names of their kind.
 */
static __always_inline u64 path_hash(struct scratch *sc, struct fs_struct *fs, u64 dentry, u64 vfsmount, u64 ino)
{
	u64 hash = mix(mix(mix(address_of(sc, fs->root.mnt), address_of(sc, fs->root.dentry)), vfsmount), ino);
	u64 root = kernel_word(vfsmount + bpf_core_field_offset(struct vfsmount, mnt_root));
	u64 mnt = vfsmount - bpf_core_field_offset(struct mount, mnt), at, up, name;

	at = pass_names(dentry, &hash, PATH_LEVELS);
	if (at == root) {
		up = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_parent));
		if (up == mnt)
			return hash;
		dentry = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_mountpoint));
		mnt = up;
		root = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt.mnt_root));
		at = pass_names(dentry, &hash, MOUNT_LEVELS);
		if (at == root && kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_parent)) == mnt)
			return hash;
		return hash_above(dentry, mnt, root, hash);
	}
	if (at != dentry)
		return hash_above(dentry, mnt, root, hash);
	name = kernel_word(dentry + bpf_core_field_offset(struct dentry, d_name.name));
	return mix(mix(hash, kernel_word(name)), kernel_word(name + 8));
}

#define TCP_LISTEN 10 /* of every family */

/* Both ends' addresses are part of a socket's identity: connect(), bind() and listen() make it another one. */
static __always_inline u64 socket_hash(struct scratch *sc, struct sock *s, u64 ino)
{
	u16 family = s->__sk_common.skc_family;
	u64 hash = mix(~0ULL - (s->__sk_common.skc_state == TCP_LISTEN), ino);

	if (family == AF_UNIX) {
		struct unix_sock *u = as_kernel(struct unix_sock, s);

		return mix(mix(hash, address_of(sc, u->addr)), address_of(sc, u->peer));
	}
	hash = mix(hash, (u64)s->__sk_common.skc_daddr << 32 | s->__sk_common.skc_rcv_saddr);
	hash = mix(hash, (u64)s->__sk_common.skc_dport << 16 | as_kernel(struct inet_sock, s)->inet_sport);
	if (family == AF_INET6) {
		struct in6_addr *a = &s->__sk_common.skc_v6_daddr;

		hash = mix(mix(hash, *(u64 *)a->in6_u.u6_addr8), *(u64 *)(a->in6_u.u6_addr8 + 8));
	}
	return hash;
}

/* ---- the same where kernel memory is read by the helper alone: before Linux 6.2 ---- */

/* Passes one name on the way up, or one mount. Returns 1 at the end. */
static long hash_step_read(u32 i, void *ctx)
{
	struct path_at *p = ctx;
	struct mount *m = (void *)p->mnt;
	struct dentry *d = (void *)p->dentry;
	u64 up;

	p->hash = mix(p->hash, p->dentry ^ (u64)BPF_CORE_READ(d, d_name.hash) << 32);
	if (p->dentry == p->root) {
		up = (u64)BPF_CORE_READ(m, mnt_parent);
		if (up == p->mnt)
			return 1;
		p->dentry = (u64)BPF_CORE_READ(m, mnt_mountpoint);
		p->mnt = up;
		m = (void *)up;
		p->root = (u64)BPF_CORE_READ(m, mnt.mnt_root);
	} else {
		up = (u64)BPF_CORE_READ(d, d_parent);
		if (up == p->dentry)
			return 1;
		p->dentry = up;
	}
	return 0;
}

/* path_hash() of the file at ref->path. */
static __noinline u64 path_hash_read(struct task_struct *task, struct file_ref *ref)
{
	struct path_at p = {};
	struct inode *inode;
	struct vfsmount *vfs;
	struct dentry *d;
	struct path *at;
	u64 words[2] = {};

	if (!task || !ref)
		return 0;
	at = (void *)ref->path;
	inode = (void *)ref->inode;
	d = BPF_CORE_READ(at, dentry);
	vfs = BPF_CORE_READ(at, mnt);
	p.dentry = (u64)d;
	p.mnt = (u64)vfs - bpf_core_field_offset(struct mount, mnt);
	p.root = (u64)BPF_CORE_READ(vfs, mnt_root);
	p.hash = mix(mix((u64)BPF_CORE_READ(task, fs, root.mnt), (u64)BPF_CORE_READ(task, fs, root.dentry)),
		     (u64)vfs);
	p.hash = mix(p.hash, BPF_CORE_READ(inode, i_ino));
	bpf_loop(PATH_COMPONENTS, hash_step_read, &p, 0);
	if (p.dentry != (u64)d)
		return p.hash;
	bpf_probe_read_kernel(words, sizeof(words), BPF_CORE_READ(d, d_name.name));
	return mix(mix(p.hash, words[0]), words[1]);
}

/* socket_hash() */
static __noinline u64 socket_hash_read(struct file_ref *ref)
{
	struct inode *inode;
	struct in6_addr six;
	struct sock *s;
	u64 hash;
	u16 family;

	if (!ref)
		return 0;
	s = (void *)ref->sk;
	inode = (void *)ref->inode;
	family = BPF_CORE_READ(s, __sk_common.skc_family);
	hash = mix(~0ULL - (BPF_CORE_READ(s, __sk_common.skc_state) == TCP_LISTEN), BPF_CORE_READ(inode, i_ino));
	if (family == AF_UNIX) {
		struct unix_sock *u = (void *)s;

		return mix(mix(hash, (u64)BPF_CORE_READ(u, addr)), (u64)BPF_CORE_READ(u, peer));
	}
	hash = mix(hash, (u64)BPF_CORE_READ(s, __sk_common.skc_daddr) << 32 |
				 BPF_CORE_READ(s, __sk_common.skc_rcv_saddr));
	hash = mix(hash, (u64)BPF_CORE_READ(s, __sk_common.skc_dport) << 16 |
				 BPF_CORE_READ((struct inet_sock *)s, inet_sport));
	if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&six, s, __sk_common.skc_v6_daddr);
		hash = mix(mix(hash, *(u64 *)six.in6_u.u6_addr8), *(u64 *)(six.in6_u.u6_addr8 + 8));
	}
	return hash;
}

/* Finds descriptor fd of task. Returns its hash; ref->path is 0 if it is not open. */
static __noinline u64 fd_hash_read(struct task_struct *task, s32 fd, struct file_ref *ref)
{
	struct fdtable *fdt;
	struct socket *sock;
	struct inode *inode;
	struct file *f = NULL;

	if (!task || !ref)
		return 0;
	fdt = BPF_CORE_READ(task, files, fdt);
	if ((u32)fd >= BPF_CORE_READ(fdt, max_fds))
		return 0;
	bpf_probe_read_kernel(&f, sizeof(f), (char *)BPF_CORE_READ(fdt, fd) + (u64)fd * sizeof(f));
	if (!f)
		return 0;
	inode = BPF_CORE_READ(f, f_inode);
	ref->path = (u64)f + bpf_core_field_offset(f->f_path);
	ref->inode = (u64)inode;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK) {
		sock = BPF_CORE_READ(f, private_data);
		ref->sk = (u64)BPF_CORE_READ(sock, sk);
	}
	return ref->sk ? socket_hash_read(ref) : path_hash_read(task, ref);
}

/* The same of its working directory. */
static __noinline u64 cwd_hash_read(struct task_struct *task, struct file_ref *ref)
{
	struct fs_struct *fs;

	if (!task || !ref)
		return 0;
	fs = BPF_CORE_READ(task, fs);
	if (!fs)
		return 0;
	ref->path = (u64)fs + bpf_core_field_offset(fs->pwd);
	ref->inode = (u64)BPF_CORE_READ(fs, pwd.dentry, d_inode);
	return path_hash_read(task, ref);
}

/* ---- ids of descriptors ---- */

/* The id of descriptor fd of task; 0 if it is not open. */
static __always_inline u32 fd_id(struct cpu *c, struct scratch *sc, struct task_struct *task, s32 fd, u32 level)
{
	struct file_ref ref = { .level = level };
	struct fdtable *fdt;
	struct file *f;
	struct inode *inode;
	u64 file;

	if (fd < 0)
		return 0;
	if (!bpf_rdonly_cast) {
		u64 hash = fd_hash_read(task, fd, &ref);

		return ref.path ? file_id(c, sc, &ref, hash) : 0;
	}
	fdt = task->files->fdt;
	if ((u32)fd >= fdt->max_fds)
		return 0;
	file = kernel_word(address_of(sc, fdt->fd) + (u64)fd * 8);
	if (!file)
		return 0;
	f = as_kernel(struct file, file);
	ref.path = file + bpf_core_field_offset(f->f_path);
	inode = f->f_inode;
	ref.inode = (u64)inode;
	if ((inode->i_mode & S_IFMT) == S_IFSOCK) {
		struct socket *sock = as_kernel(struct socket, f->private_data);
		struct sock *s = sock->sk;

		ref.sk = (u64)s;
		if (s)
			return file_id(c, sc, &ref, socket_hash(sc, s, inode->i_ino));
	}
	return file_id(c, sc, &ref, path_hash(sc, task->fs, address_of(sc, f->f_path.dentry),
					      address_of(sc, f->f_path.mnt), inode->i_ino));
}

/* The id of the working directory of task. */
static __always_inline u32 cwd_id(struct cpu *c, struct scratch *sc, struct task_struct *task, u32 level)
{
	struct file_ref ref = { .level = level };
	struct fs_struct *fs = task->fs;
	struct dentry *d;

	if (!bpf_rdonly_cast) {
		u64 hash = cwd_hash_read(task, &ref);

		return ref.path ? file_id(c, sc, &ref, hash) : 0;
	}
	if (!fs)
		return 0;
	d = fs->pwd.dentry;
	ref.path = (u64)fs + bpf_core_field_offset(fs->pwd);
	ref.inode = (u64)d->d_inode;
	return file_id(c, sc, &ref, path_hash(sc, fs, address_of(sc, d), address_of(sc, fs->pwd.mnt),
					      d->d_inode->i_ino));
}

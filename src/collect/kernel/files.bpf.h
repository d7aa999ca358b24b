/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The ids under which events name open files, sockets and working directories, and their definitions. */
#include "collect/kernel/file_hash_read.bpf.h"

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

/* One of AF_INET. Servers define one for each connection, so these are short. */
__noinline u32 emit_socket4(struct file_ref *ref, u32 id)
{
	u32 size = SPOOR_EVENT_ROUND(sizeof(struct spoor_socket4));
	struct spoor_socket4 *e;
	struct reservation r;
	struct inode *inode;
	struct sock *sk;

	if (!ref)
		return 0;
	inode = (void *)ref->inode;
	sk = (void *)ref->sk;
	emit_reserve(&r, ref->level & 1, size);
	if (!r.to)
		return 0;
	e = (void *)r.to;
	emit_header(e, SPOOR_EV_SOCKET4, 0, size, (u32)bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
	e->id = id;
	e->type = BPF_CORE_READ(sk, sk_type);
	e->protocol = BPF_CORE_READ(sk, sk_protocol);
	e->state = BPF_CORE_READ(sk, __sk_common.skc_state);
	e->lport = __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	e->rport = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	e->ino = BPF_CORE_READ(inode, i_ino);
	*(u32 *)e->laddr = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	*(u32 *)e->raddr = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	*(u16 *)(e + 1) = 0; /* padding */
	emit_commit(&r, size);
	return id;
}

/* One of another family. */
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
	if (e->family == AF_INET6) {
		e->lport = __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
		e->rport = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
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

static __always_inline u32 emit_file_or_socket(struct scratch *sc, struct file_ref *ref, u32 id)
{
	struct sock *sk = (void *)ref->sk;

	if (!sk)
		return emit_file(sc, ref, id, path_of(ref->path, sc));
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET)
		return emit_socket4(ref, id);
	return emit_socket(ref, id);
}

__noinline u32 file_id_new(struct cpu *c, struct scratch *sc, struct file_ref *ref, u64 hash, u32 id)
{
	u32 now = epoch;

	if (!c || !sc || !ref)
		return 0;
	if (!id)
		id = __sync_fetch_and_add(&next_file, 1);
	if (!emit_file_or_socket(sc, ref, id))
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

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What the arguments of a system call say: strings, socket addresses, payload, the files of descriptors. */
#include "collect/kernel/files.bpf.h"
#include "collect/kernel/threads.bpf.h"

#define SHORT_STRING 64

/*
 * The length of the string in 64 bytes at p, its NUL included; 0 if there is no NUL. Eight bytes at a time: a zero byte
 * is where subtracting one borrows (Warren, Hacker's Delight, 6-1).
 */
static __always_inline u32 short_length(const u8 *p)
{
	int i;

#pragma unroll
	for (i = 0; i < SHORT_STRING / 8; i++) {
		u64 x = *(const u64 *)(p + 8 * i), zero = (x - 0x0101010101010101ULL) & ~x & 0x8080808080808080ULL;

		if (zero)
			return 8 * i + (((zero & -zero) >> 7) * 0x0001020304050607ULL >> 56) + 1;
	}
	return 0;
}

/* Reads a string of the process; as bpf_probe_read_user_str(), which is slower for short ones. */
static __always_inline long read_string(struct scratch *sc, u8 *to, u64 addr)
{
	u32 n;

	if (direct_read(sc, (u64 *)to, addr) || !bpf_probe_read_user(to, SHORT_STRING, (void *)addr)) {
		n = short_length(to);
		if (n)
			return n & 127;
	}
	return bpf_probe_read_user_str(to, SPOOR_MAX_STRING, (void *)addr);
}

/* A path argument: NUL-terminated into data at *off. */
static __always_inline void take_path(struct thread *t, struct scratch *sc, u32 *off, u64 addr)
{
	u32 at = *off & (SPOOR_MAX_DATA / 2 - 1);
	long n = 0;

	if (addr) {
		n = read_string(sc, t->data + at, addr);
		if (n < 0)
			t->flags |= SPOOR_EVENT_UNREADABLE;
		else if (n == SPOOR_MAX_STRING)
			t->flags |= SPOOR_EVENT_TRUNCATED;
	}
	if (n <= 0) {
		t->data[at] = 0;
		n = 1;
	}
	*off = at + (n & (SPOOR_MAX_DATA / 2 - 1));
}

#define SOCKADDR_MOST 128

/* A sockaddr argument: u16 length, bytes. */
static __always_inline void take_sockaddr(struct thread *t, struct scratch *sc, u32 *off, u64 addr, u64 len)
{
	u32 at = *off & (SPOOR_MAX_DATA / 2 - 1);
	u16 n = len > SOCKADDR_MOST ? SOCKADDR_MOST : len;

	if (!addr) {
		n = 0;
	} else if ((n > 64 || !direct_read(sc, (u64 *)(t->data + at + 2), addr)) &&
		   bpf_probe_read_user(t->data + at + 2, n, (void *)addr)) {
		t->flags |= SPOOR_EVENT_UNREADABLE;
		n = 0;
	}
	*(u16 *)(t->data + at) = n;
	*off = at + 2 + n;
}

/*
 * Bytes of a sockaddr. Of one that the kernel writes: none before the call, when the program says how much room there
 * is; afterwards what was written there, of which the kernel says how much it would have been. len: as passed.
 */
static __always_inline u64 sockaddr_length(struct thread *t, const struct spoor_call_config *cfg, u64 len, bool written)
{
	u32 n = 0;

	if (!(cfg->sockaddr & SPOOR_AT_EXIT))
		return len;
	if (!len || bpf_probe_read_user(&n, sizeof(n), (void *)len))
		n = 0;
	if (written)
		return n < t->room ? n : t->room;
	t->room = n < SOCKADDR_MOST ? n : SOCKADDR_MOST;
	return 0;
}

/* Payload, kept only if asked for (-s). Returns how many bytes it has in all. */
static __always_inline u32 take_payload(struct thread *t, u64 addr, u64 len)
{
	u32 at = t->buf_at & (SPOOR_MAX_DATA / 2 - 1);
	u32 n = len > payload_max ? payload_max : len;

	n &= SPOOR_MAX_PAYLOAD - 1;
	if (n && bpf_probe_read_user(t->data + at, n, (void *)addr)) {
		t->flags |= SPOOR_EVENT_UNREADABLE;
		n = 0;
	}
	if (n && len > n)
		t->flags |= SPOOR_EVENT_TRUNCATED;
	t->buf_len = n;
	return n;
}

static __always_inline u32 take_buffer(struct thread *t, const struct spoor_call_config *cfg)
{
	u32 i = ((cfg->buf & 7) - 1) & 7;

	return i < 5 ? take_payload(t, t->args[i], t->args[i + 1]) : 0;
}

/* Everything after the packed arguments that is read from the process's memory. written: the call has succeeded. */
static __always_inline void take_pointed(struct thread *t, struct scratch *sc, const struct spoor_call_config *cfg,
					 u32 off, bool written)
{
	if (cfg->n_paths) {
		take_path(t, sc, &off, t->args[cfg->paths & 7 ? (cfg->paths & 7) < 6 ? cfg->paths & 7 : 5 : 0]);
		if (cfg->n_paths > 1)
			take_path(t, sc, &off, t->args[(cfg->paths >> 4 & 7) < 6 ? cfg->paths >> 4 & 7 : 5]);
	}
	if (cfg->sockaddr) {
		u32 i = ((cfg->sockaddr & 7) - 1) & 7;

		if (i < 5)
			take_sockaddr(t, sc, &off, t->args[i], sockaddr_length(t, cfg, t->args[i + 1], written));
	}
	if (cfg->buf) {
		t->buf_at = off & (SPOOR_MAX_DATA / 2 - 1);
		off += cfg->buf & SPOOR_AT_EXIT ? 0 : take_buffer(t, cfg);
	}
	t->len = off;
}

/* The same at a call's exit, where it is rare: the verifier follows it once. */
__noinline int take_pointed_late(struct thread *t, struct scratch *sc, u32 id, bool written)
{
	const struct spoor_call_config *cfg = &calls[id & (SPOOR_SYSCALL_MAX - 1)];

	if (t && sc)
		take_pointed(t, sc, cfg, (t->ret_at + (cfg->flags & SPOOR_CALL_RET_FD ? 4 : 0)) & 127, written);
	return 0;
}

/* Is its payload one that is read when it begins? */
static __always_inline bool gives_payload(const struct spoor_call_config *cfg)
{
	return cfg->buf && !(cfg->buf & SPOOR_AT_EXIT) && payload_max;
}

/* The same of another process, if its memory cannot be read from here: empty. */
static __always_inline void take_nothing_pointed(struct thread *t, const struct spoor_call_config *cfg)
{
	u32 off = t->len & 127;

	*(u64 *)(t->data + off) = 0;
	t->len = off + cfg->n_paths + (cfg->sockaddr ? 2 : 0);
	t->buf_at = t->len;
	t->room = SOCKADDR_MOST;
	t->flags = cfg->n_paths | cfg->sockaddr || gives_payload(cfg) ? SPOOR_EVENT_UNREADABLE : 0;
}

/* Descriptor argument; how: SPOOR_DIRFD. */
static __always_inline u32 fd_arg_id(struct cpu *c, struct scratch *sc, struct task_struct *task, u64 arg, u32 how,
				     u32 level)
{
	if ((s32)arg != -100)
		return fd_id(c, sc, task, arg, level);
	return how & SPOOR_DIRFD ? cwd_id(c, sc, task, level) : 0;
}

/* Packs arguments and descriptor identities; returns the offset of what follows. */
static __always_inline u32 take_args(struct thread *t, const struct spoor_call_config *cfg, struct cpu *c,
				     struct scratch *sc, struct task_struct *task, u32 level)
{
	u32 off = 0, widths = cfg->widths;
	int i;

#pragma unroll
	for (i = 0; i < 6; i++) {
		*(u64 *)(t->data + off) = t->args[i];
		off += widths & 15;
		widths >>= 4;
	}
	t->files[0] = t->files[1] = 0;
	if (cfg->n_fds) {
		u32 at = cfg->fds & 7;

		t->files[0] = fd_arg_id(c, sc, task, t->args[at < 6 ? at : 5], cfg->fds, level);
		if (cfg->no_fd && t->args[cfg->no_fd >> 5 < 6 ? cfg->no_fd >> 5 : 5] >> (cfg->no_fd & 31) & 1)
			t->files[0] = 0;
		*(u32 *)(t->data + (off & 127)) = t->files[0];
		off += 4;
		if (cfg->n_fds > 1) {
			at = cfg->fds >> 4 & 7;
			t->files[1] = fd_arg_id(c, sc, task, t->args[at < 6 ? at : 5], cfg->fds >> 4, level);
			*(u32 *)(t->data + (off & 127)) = t->files[1];
			off += 4;
		}
	}
	t->ret_at = off;
	if (cfg->flags & SPOOR_CALL_RET_FD) {
		*(u32 *)(t->data + (off & 127)) = 0;
		off += 4;
	}
	return off;
}

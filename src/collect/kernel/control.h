/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What the kernel collectors and their user-space side say to each other: configuration, rings, objects, control
 * records. Fixed-width types only.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif
#include "collect/kernel/glob.h"
#include "trace/record.h"
#include "unwind/row.h"

/* ---- rings: one value of the map `rings` for each (CPU, nesting level) ---- */

#define SPOOR_LEVELS 2          /* 0: task context; 1: task iterator, and whatever interrupts a producer */
#define SPOOR_RING_DATA 4096    /* offset of data in the value */
#define SPOOR_RING_SLACK 131072 /* a record that begins below 2^n may end in here; as the verifier sees its size */

struct spoor_ring {
	__u64 head;    /* kernel: bytes produced; a record that passed the end rounds it up to the next lap */
	__u64 dropped; /* kernel: events for which there was no room */
	__u64 epoch;   /* kernel: segment of the last record */
	__u64 busy;    /* kernel: 1 between reservation and commit */
	__u64 nested;  /* kernel: reservations refused because of that (also in dropped) */
	__u64 pad0[3];
	__u64 tail; /* user: bytes consumed */
	__u64 pad1[7];
};

/* ---- configuration: globals of the collectors, changed while recording ---- */

enum spoor_mode {
	SPOOR_MODE_NONE,
	SPOOR_MODE_APP,
	SPOOR_MODE_APP_ALL,
	SPOOR_MODE_LIB,
	SPOOR_MODE_ALL,
	SPOOR_MODE_CUSTOM,
	SPOOR_MODE_MAX,
};
enum spoor_unwind { SPOOR_UNWIND_CFI, SPOOR_UNWIND_FP, SPOOR_UNWIND_SCAN };

/* What to do with one system call. 16 bytes, indexed by event id. */
struct spoor_call_config {
	__u8 mode;     /* 0: not recorded; 1 + enum spoor_mode */
	__u8 flags;    /* enum spoor_call_flag */
	__u8 n_fds;    /* descriptor arguments, at most 2 looked up */
	__u8 fds;      /* their positions, 4 bits each; SPOOR_DIRFD: AT_FDCWD means the working directory */
	__u8 n_paths;  /* path arguments, at most 2 */
	__u8 paths;    /* their positions, 4 bits each */
	__u8 sockaddr; /* position + 1 of a sockaddr argument, 0: none; | SPOOR_AT_EXIT */
	__u8 buf;      /* position + 1 of a payload argument, 0: none; | SPOOR_AT_EXIT */
	__u32 widths;  /* bytes of each argument (0: absent), 4 bits each */
	__u8 map;      /* enum spoor_map_call: looked at even if not recorded */
	__u8 ret_when; /* of RET_FD: which of the conditions; 0: always */
	__u8 no_fd;    /* argument (3 bits) and bit in it (5 bits) with which the first is no descriptor; 0: none */
	__u8 pad;
};
#define SPOOR_RET_CONDITIONS 16

#define SPOOR_DIRFD 8
#define SPOOR_AT_EXIT 0x80    /* written by the kernel, and read when the call has succeeded */
#define SPOOR_MAX_PAYLOAD 512 /* bytes of -s, less one; a power of two for the verifier */

enum spoor_call_flag {
	SPOOR_CALL_RET_FD = 1,
	SPOOR_CALL_EXEC = 2,     /* execve, execveat */
	SPOOR_CALL_RET_LONG = 4, /* the result takes so many bytes more, 8 */
	SPOOR_CALL_UNKNOWN = 8,  /* nothing in the table: as numbers beyond it */
};

/* Calls that may change the executable layout of an address space. */
enum spoor_map_call {
	SPOOR_MAP_MMAP = 1,
	SPOOR_MAP_PROTECT = 2, /* mprotect, pkey_mprotect */
	SPOOR_MAP_UNMAP = 3,
	SPOOR_MAP_REMAP = 4,
	SPOOR_MAP_OTHER = 5, /* shmat, remap_file_pages: any address may be concerned */
	SPOOR_MAP_BRK = 6,   /* code only by personality(READ_IMPLIES_EXEC) */
};

/* Packed arguments, file ids and strings of one call: at most 90 bytes before the strings, two strings of at most
 * SPOOR_MAX_STRING; a power of two for the verifier. */
#define SPOOR_MAX_DATA 2048
#define SPOOR_RAW_STACK 32768 /* a power of two for the verifier */

#define SPOOR_NR_EXECVE 59
#define SPOOR_NR_EXECVEAT 322

enum spoor_pick {
	SPOOR_PICK_FOLLOW = 1,    /* children are in too */
	SPOOR_PICK_NAMED = 2,     /* in by its name, with its children: execve decides again */
	SPOOR_PICK_WAIT_EXEC = 4, /* not before its execve */
	SPOOR_PICK_PINNED = 8,    /* in by its number, whatever it executes */
};

/* ---- objects ---- */

/* How the kernel knows a file. */
struct spoor_object_key {
	spoor_u64 ino;
	spoor_u64 size;
	spoor_u64 mtime; /* ns; anybody may set it: */
	spoor_u64 ctime; /* ns; tells a file from one written over it with its size and time */
	spoor_u64 dev;   /* kernel's s_dev: major << 20 | minor */
};

enum spoor_object_state {
	SPOOR_OBJECT_NEW = 0, /* rows not loaded yet: walks hand out raw copies */
	SPOOR_OBJECT_READY = 1,
	SPOOR_OBJECT_NO_ROWS = 2,   /* has none: frame pointers */
	SPOOR_OBJECT_FAILED = 3,    /* its file is gone */
	SPOOR_OBJECT_NO_MEMORY = 4, /* no room for its rows: walks end in it, "no rows" */
	SPOOR_OBJECT_MADE = 5,      /* code made at run time: to walks as if it were in anonymous memory */
};

#define SPOOR_KERNEL_OBJECTS 32768 /* objects of one recording; what comes after is not walked through */
#define SPOOR_OBJECT_LOADS 4
struct spoor_kernel_object { /* value of the map `objects`, by object id; user space writes all but state, then state */
	__u32 state; /* enum spoor_object_state */
	__u16 app;   /* 1: the application's own code */
	__u16 n_loads;
	__u32 limit; /* mode custom: call sites taken of this object in one walk */
	__u32 tried; /* the kernel side's alone: FAILED: when it was announced last, in 2^20 ns */
	__u64 text_base;
	__u32 first_page; /* index into row_pages */
	__u32 n_pages;
	struct {
		__u64 offset, end; /* file offsets */
		__u64 delta;       /* vaddr - file offset */
	} loads[SPOOR_OBJECT_LOADS];
};
_Static_assert(sizeof(struct spoor_kernel_object) == 128, "");

/* Rows live in chunks of 64 KiB, so that tables take memory by need; a page's rows never straddle chunks. */
#define SPOOR_CHUNK_ROWS 16384
#define SPOOR_MAX_CHUNKS 4096
#define SPOOR_MAX_ROW_PAGES (1 << 18)
#define SPOOR_MAX_RULES 65536
struct spoor_row_chunk {
	struct spoor_row rows[SPOOR_CHUNK_ROWS];
};

/* ---- control records: in the rings, never on disk ---- */

enum spoor_control_id {
	SPOOR_CTL_MARK = SPOOR_EV_CONTROL, /* from here on this ring's events belong to segment `epoch` */
	SPOOR_CTL_OBJECT,                  /* a file was met for the first time */
	SPOOR_CTL_RAW,                     /* a stack that the kernel could not walk yet */
	SPOOR_CTL_LAYOUT,                  /* the executable mappings of a process */
	SPOOR_CTL_NEED,                    /* an event of this segment refers to a definition of an older one */
};

/* Neither a definition nor a control record. */
static inline int spoor_is_event(unsigned id)
{
	return id < SPOOR_EV_STACK || (id > SPOOR_EV_THREAD && id < SPOOR_EV_CONTROL && id != SPOOR_EV_SOCKET4);
}

struct spoor_ctl_mark {
	struct spoor_event_header h;
	spoor_u64 epoch;
};

struct spoor_ctl_object {
	struct spoor_event_header h;
	__u32 id, pid;
	struct spoor_object_key key;
	spoor_u64 start, end, offset; /* the mapping it was met in */
	__u32 mounts; /* number of the mount namespace in which it was met */
	__u32 place_len, path_len;
	char text[]; /* its place in its file system, as far as there was room; and its path. Neither is terminated */
};
_Static_assert(__builtin_offsetof(struct spoor_ctl_object, text) == 100, "");

struct spoor_layout_range {
	spoor_u64 start, end, offset;
	__u32 object;  /* SPOOR_OBJECT_NONE: anonymous, if not */
	__u32 unknown; /* a file for which there was no id */
};

struct spoor_ctl_layout {
	struct spoor_event_header h;
	spoor_u64 layout; /* its number */
	__u32 pid, n;
	__u32 first; /* one of many mappings is told of in parts: so many stood in those before, */
	__u32 last;  /* and this is the last of them; with none, it cannot be known any more */
	struct spoor_layout_range ranges[];
};

struct spoor_ctl_raw {
	struct spoor_event_header h;
	__u32 stack; /* the id to define */
	__u32 pid;
	spoor_u64 layout;         /* 0: not described */
	spoor_u64 dwarf_regs[16]; /* by DWARF number: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 */
	spoor_u64 pc;
	spoor_u64 beneath; /* of a handler on an alternate stack: where the copy of what it interrupted begins */
	__u8 mode;
	__u8 narrow; /* of a program of 32 bits: its frames cannot be told */
	__u8 remote; /* 1: no copy; read the stack of pid/tid, it sleeps (attach) */
	__u8 pad;
	__u32 budget;
	__u16 len, beneath_len;     /* of bytes */
	__u16 holes, beneath_holes; /* a bit for each page that the part touches: it is missing */
	__u8 bytes[];               /* len from rsp upwards, then beneath_len from there */
};
_Static_assert(sizeof(struct spoor_ctl_raw) == 192, "");

struct spoor_ctl_need {
	struct spoor_event_header h;
	__u32 stack;
	__u32 files[3];
};

/* ---- counters: one value a CPU, added up at the end ---- */
struct spoor_kernel_stats {
	__u64 walks[SPOOR_WALK_STATUS_MAX]; /* walks done in the kernel, by status */
	__u64 raw;                          /* walks left to user space */
	__u64 raw_lost;                     /* the same, but there was no room for the copy: no stack */
	__u64 remembered;                   /* of walks: repeated ones that took none */
	__u64 frames;                       /* frames stepped over */
	__u64 row_hits, row_misses;         /* row cache */
	__u64 stack_defs, file_defs;
	__u64 thread_misses; /* no memory for a thread's state: it is not recorded */
};

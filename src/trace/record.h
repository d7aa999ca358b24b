/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once
/*
 * What an event looks like in the kernel's ring, in a stream file and in the reader: the same bytes.
 * The kernel side writes the final form, so recording costs user space one write() per ring span.
 *
 *   offset 0                8     10     12              16                      size*4
 *          +----------------+-----+------+---------------+------------------------+
 *          | ts (ns, MONO)  | id  | size | tid   | flags | body ...      | padding|
 *          +----------------+-----+------+---------------+------------------------+
 *                                         29 bits 3 bits                      to 4
 *
 * ts and id come first because they are the CTF event header, and readers of CTF drop every other field of that header:
 * size, tid and flags are the CTF event context.
 * Little endian, bodies byte-packed, events 4-byte aligned: every four bytes that a call does without count.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/*
 * 64 bits of an event: aligned to 4 bytes only. The kernel side has them aligned by the offset in their event, so that
 * the compiler does not take a store apart; the processor does not care, nor does the verifier.
 */
#ifdef __VMLINUX_H__
typedef __u64 spoor_u64;
typedef __s64 spoor_s64;
#else
typedef __u64 spoor_u64 __attribute__((aligned(4)));
typedef __s64 spoor_s64 __attribute__((aligned(4)));
#endif

struct spoor_event_header {
	spoor_u64 ts;    /* CLOCK_MONOTONIC ns; of a system call: its end */
	__u16 id;        /* enum spoor_event_id, or a system call (below) */
	__u16 size4;     /* whole event in units of 4 bytes */
	__u32 tid : 29;  /* host's */
	__u32 flags : 3; /* enum spoor_event_flag */
};
_Static_assert(sizeof(struct spoor_event_header) == 16, "");

/* How long an event is that has so many bytes: what follows them is zero. */
#define SPOOR_EVENT_ROUND(bytes) (((bytes) + 3) & ~3u)
#define SPOOR_SIZE4(bytes) (SPOOR_EVENT_ROUND(bytes) / 4)

/* In bytes, its padding included. event: a struct spoor_event_header and what follows it. */
static inline __u32 spoor_event_size(const void *event)
{
	const struct spoor_event_header *h = event;

	return h->size4 * 4u;
}

enum spoor_event_flag {
	SPOOR_EVENT_READ_AT_EXIT = 1, /* a pointed-to argument was not readable at entry and was read at exit */
	SPOOR_EVENT_TRUNCATED = 2,    /* a string or payload is longer than what was kept */
	SPOOR_EVENT_UNREADABLE = 4,   /* a pointed-to argument could not be read */
};
#define SPOOR_MAX_STRING 896 /* bytes that are kept of a path among the arguments, with its NUL */

/*
 * Event ids. 0..511: x86-64 system calls by number; 512..1023: 512 + i386 number (int 0x80);
 * then Spoor's own.
 */
#define SPOOR_SYSCALL_I386 512
#define SPOOR_SYSCALL_MAX 1024
enum spoor_event_id {
	SPOOR_EV_SYSCALL_OTHER = 1024, /* number beyond the table, or too wide a result (nr, 6 args) */
	SPOOR_EV_STACK = 1025,
	SPOOR_EV_OBJECT = 1026,
	SPOOR_EV_FILE = 1027,
	SPOOR_EV_SOCKET = 1028,
	SPOOR_EV_THREAD = 1029,
	SPOOR_EV_THREAD_EXIT = 1030,
	SPOOR_EV_PENDING = 1031, /* a call seen while it has not ended */
	SPOOR_EV_MAPPING = 1032,
	SPOOR_EV_CLOCK = 1033,
	SPOOR_EV_CONFIG = 1034,
	SPOOR_EV_COUNTER = 1035,
	SPOOR_EV_CLASS = 1036,   /* what events of an id from SPOOR_EV_USER on are */
	SPOOR_EV_PROGRAM = 1037, /* a traced program's buffer: begun, ended, crashed, what it lost */
	SPOOR_EV_STACK_ALIAS = 1038,
	SPOOR_EV_PLACE = 1039,
	SPOOR_EV_SOCKET4 = 1040,
	SPOOR_EV_MAX,
	/* What programs say of themselves: each id is defined by a SPOOR_EV_CLASS of its segment. */
	SPOOR_EV_USER = 2048,
	SPOOR_EV_USER_MAX = 0x8000,
	/* Between kernel and consumer only; never on disk (src/collect/kernel/control.h). */
	SPOOR_EV_CONTROL = 0x8000,
};

/*
 * A completed system call (one whose result is wider than its event has room for is a SPOOR_EV_SYSCALL_OTHER).
 * After the fixed part come, packed and in this order,
 *   1. its arguments, each 4 or 8 bytes as the syscall table says (src/trace/syscalls.h);
 *   2. u32 file id for each descriptor argument (0: none), AT_FDCWD included (the working directory's);
 *   3. u32 file id of the returned descriptor, if the call may return one (0 where what it returned is a number);
 *   4. for each path argument a NUL-terminated string (empty if the pointer was NULL or unreadable: see flags).
 *      A path whose address is NULL that is not empty: the call's entry was not seen (an execve that brought its
 *      process into the recording), and of its arguments only the path is known; the others are 0;
 *   5. for each sockaddr argument: u16 length, bytes;
 *   6. the bytes of its buffer argument (payload, with -s): data_len of them.
 */
struct spoor_syscall {
	struct spoor_event_header h; /* ts: end */
	__u32 pid : 22;              /* below PID_MAX_LIMIT */
	__u32 data_len : 10;         /* of a call with a buffer argument; else 0 */
	__u32 stack;                 /* id of a SPOOR_EV_STACK; 0: none asked for, or lost */
	spoor_u64 dur;               /* ns */
	union { /* return value or -errno (kernel-internal -ERESTART* values as they are) */
		__s32 ret;
		spoor_s64 ret_long; /* of calls that the table says so of */
	};
};
/* Where the arguments begin; 4 bytes later behind a ret_long. */
#define SPOOR_SYSCALL_FIXED 36
_Static_assert(__builtin_offsetof(struct spoor_syscall, ret) == SPOOR_SYSCALL_FIXED - 4, "");

/* Which uses of a call return a descriptor: those in which one argument has one of these values, or of these bits. */
#define SPOOR_RET_OTHERS 4
struct spoor_ret_when {
	__u64 below64; /* values as bits */
	__u32 others[SPOOR_RET_OTHERS]; /* and others; each is one of those values where there are fewer */
	__u32 bits;
	__u32 arg; /* position */
};

static inline int spoor_ret_is_fd(const struct spoor_ret_when *w, __u32 value)
{
	return (value < 64 && (w->below64 >> value & 1)) || value & w->bits || value == w->others[0] ||
	       value == w->others[1] || value == w->others[2] || value == w->others[3];
}

struct spoor_syscall_other {
	struct spoor_event_header h;
	__u32 pid;
	__u32 stack;
	spoor_u64 dur;
	spoor_s64 ret;
	__u32 nr;
	__u32 i386;
	spoor_u64 args[6];
};

/*
 * A call that is under way: written when it first sleeps, at attach or when a setting lets it in, at the end of the
 * recording, and when its thread dies in it or is going to. If a completed event of the same thread with ts - dur ==
 * start follows, that one replaces it.
 */
enum spoor_pending_why {
	SPOOR_PENDING_SLEEP = 1,  /* it went to sleep for the first time */
	SPOOR_PENDING_BEFORE = 2, /* it began before it was to be recorded; start is the best known time, see exact */
	SPOOR_PENDING_END = 3,    /* in flight when the recording ended */
	SPOOR_PENDING_DEATH = 4,  /* its thread ended in it (exit, exit_group, or killed) */
	SPOOR_PENDING_MOVED = 5,  /* execve gave its thread the tid of the process: it ends under that one; no data */
	SPOOR_PENDING_LEFT = 6,   /* its thread left the recording: when it ended is not known */
	SPOOR_PENDING_KILLED = 7, /* it had slept, and completes now; but its thread is killed before it runs on */
};
struct spoor_pending {
	struct spoor_event_header h; /* ts: when this was noticed */
	__u32 pid;
	__u32 stack;
	__u64 start; /* ns; 0: unknown */
	__u16 nr;    /* event id of the call: 0..1023 */
	__u8 why;    /* enum spoor_pending_why */
	__u8 exact;  /* 1: start is when the call began; 0: it began no later than start */
	__u16 len;   /* bytes of data: laid out as in spoor_syscall (the returned descriptor's file id is there, 0) */
	__u8 data[];
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_pending) == 38, "");

/* Nothing later will tell of this call. */
static inline int spoor_pending_is_final(const struct spoor_pending *p)
{
	return p->why == SPOOR_PENDING_DEATH || p->why == SPOOR_PENDING_LEFT;
}

/*
 * Definitions. Each is in the segment that refers to it, in its definition stream. Ids are dense and unique in a
 * recording; 0 means none.
 */

/*
 * One frame: (object, offset). offset is an ELF virtual address of the object (the pc or return address itself);
 * for object 0 it is the bare address. The topmost bit says that a signal interrupted the code at this very address:
 * all other addresses are those behind a call.
 */
#define SPOOR_FRAME_OFFSET_BITS 47
#define SPOOR_FRAME(obj, off) \
	((__u64)(obj) << SPOOR_FRAME_OFFSET_BITS | ((off) & ((1ULL << SPOOR_FRAME_OFFSET_BITS) - 1)))
#define SPOOR_FRAME_OBJECT(f) ((__u32)((f) >> SPOOR_FRAME_OFFSET_BITS) & (SPOOR_MAX_OBJECTS - 1))
#define SPOOR_FRAME_INTERRUPTED (1ULL << 63)
#define SPOOR_FRAME_OFFSET(f) ((f) & ((1ULL << SPOOR_FRAME_OFFSET_BITS) - 1))
#define SPOOR_MAX_OBJECTS (1 << 16)
#define SPOOR_MAX_FRAMES 512
#define SPOOR_OBJECT_NONE 0 /* code of no file, as JIT code: bare address */
#define SPOOR_ANONYMOUS "[anonymous]" /* how it is called */
#define SPOOR_OBJECT_VDSO 1

enum spoor_walk_status {
	SPOOR_WALK_COMPLETE = 0,   /* reached the outermost frame, or all that the mode can collect */
	SPOOR_WALK_BUDGET = 1,     /* S call sites collected, more may follow */
	SPOOR_WALK_NO_ROWS = 2,    /* an address without unwind rows */
	SPOOR_WALK_UNREADABLE = 3, /* stack memory could not be read */
	SPOOR_WALK_TRUNCATED = 4,  /* more frames than the walker follows, or a raw copy that was too short */
	SPOOR_WALK_GONE = 5,       /* an object's file was gone before its rows could be read */
	SPOOR_WALK_LOST = 6,       /* no room for a raw copy of the stack, or its definition was lost (counted) */
	SPOOR_WALK_BUSY = 7,       /* no longer made: the address space was locked */
	SPOOR_WALK_GUESSED = 8,    /* as 0 or 1, but frames may be missing: frame pointers were perhaps not kept */
	SPOOR_WALK_STATUS_MAX,
};
enum spoor_walk_way {
	SPOOR_WAY_KERNEL = 0,
	SPOOR_WAY_USER = 1,           /* by the recorder, from a raw copy */
	SPOOR_WAY_ROWS = 2,           /* by the program itself, by unwind rows */
	SPOOR_WAY_FRAME_POINTERS = 3, /* by the program itself, by frame pointers from some frame on: no rows (yet) */
	SPOOR_WAY_MAX,
};

struct spoor_stack {
	struct spoor_event_header h;
	__u32 id;
	__u8 status; /* enum spoor_walk_status */
	__u8 way;    /* enum spoor_walk_way */
	__u16 n;
	spoor_u64 frames[]; /* innermost first */
};
_Static_assert(sizeof(struct spoor_stack) == 24, "");

/* Another id of a stack whose definition is in the same segment: it has the same status, way and frames. */
struct spoor_stack_alias {
	struct spoor_event_header h;
	__u32 id;
	__u32 stack; /* id of a SPOOR_EV_STACK, never of another alias */
};
_Static_assert(sizeof(struct spoor_stack_alias) == 24, "");

enum spoor_object_flag {
	SPOOR_OBJECT_APP = 1,     /* the application's own code */
	SPOOR_OBJECT_IS_VDSO = 2,
	SPOOR_OBJECT_GONE = 4,    /* its file could not be opened */
	SPOOR_OBJECT_NO_CFI = 8,  /* no unwind information: frame pointers */
	SPOOR_OBJECT_DELETED = 16,
};
struct spoor_object {
	struct spoor_event_header h;
	__u32 id;
	__u32 flags;
	__u64 dev, ino, size, mtime; /* dev: the kernel's s_dev, major << 20 | minor; mtime ns */
	__u64 hash_lo, hash_hi;      /* XXH3-128 of the content; 0 if it could not be read */
	__u8 build_id_len;
	__u8 build_id[32];
	char path[]; /* NUL-terminated, as the traced process sees it */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_object) == 105, "");

/* By which path the recorder reached an object's file that was not at the object's path for it. */
struct spoor_place {
	struct spoor_event_header h;
	__u32 object;
	char path[]; /* NUL-terminated */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_place) == 20, "");

enum spoor_file_kind {
	SPOOR_FILE_REG = 1, SPOOR_FILE_DIR, SPOOR_FILE_CHR, SPOOR_FILE_BLK, SPOOR_FILE_FIFO /* named or pipe */,
	SPOOR_FILE_LNK, SPOOR_FILE_ANON /* eventfd, epoll, memfd, ...: path is its kernel name */, SPOOR_FILE_SOCK,
	SPOOR_FILE_NS /* a namespace: path is its kind */,
};
struct spoor_file {
	struct spoor_event_header h;
	__u32 id;
	__u8 kind; /* enum spoor_file_kind */
	__u64 dev, ino; /* as of an object */
	char path[]; /* NUL-terminated, as the process sees it, from its own root directory */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_file) == 37, "");

/* An open socket, an id per state of its addresses: connect() or bind() make a new id. */
struct spoor_socket {
	struct spoor_event_header h;
	__u32 id;
	__u16 family, type, protocol;
	__u16 state;        /* TCP_* of the kernel */
	__u16 lport, rport; /* host byte order */
	__u64 ino;
	__u8 laddr[16], raddr[16]; /* network byte order, the first 4 bytes for IPv4 */
	char path[]; /* AF_UNIX: NUL-terminated; of an abstract name "@" for each 0, as in /proc/net/unix; else empty */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_socket) == 72, "");

/* The same of AF_INET, short: busy servers define one for each connection. */
struct spoor_socket4 {
	struct spoor_event_header h;
	__u32 id;
	__u16 type, protocol, state, lport, rport; /* as of a spoor_socket */
	__u64 ino;
	__u8 laddr[4], raddr[4]; /* network byte order */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_socket4) == 46, "");

enum spoor_thread_why {
	SPOOR_THREAD_ATTACH = 1, SPOOR_THREAD_FORK, SPOOR_THREAD_EXEC, SPOOR_THREAD_RENAME,
	SPOOR_THREAD_SEGMENT, /* repeated because a segment began */
	SPOOR_THREAD_MOVE,    /* came in by a cgroup move */
};
/* A thread is (boot id, tid, start time) with an exec generation. Valid from `since` on, until the tid's next. */
struct spoor_thread {
	struct spoor_event_header h;
	__u32 pid, ppid;
	__u64 start; /* ns, CLOCK_MONOTONIC */
	__u64 since; /* from when on this holds; 0: h.ts, which the writer may have raised to keep the order */
	__u32 gen;   /* how many execs this process has seen since it was recorded */
	__u32 vtid;  /* in its own pid namespace */
	__u8 why;    /* enum spoor_thread_why */
	char comm[16];
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_thread) == 65, "");

enum spoor_exit_kind {
	SPOOR_EXIT_THREAD = 0,
	SPOOR_EXIT_PROCESS = 1, /* it was the last thread of its process */
	SPOOR_EXIT_LEFT = 2,    /* it goes on, but not in this recording: moved out of the cgroup, or by another name */
	SPOOR_EXIT_EXEC = 3,    /* another thread of its process executed a program, which ends all others */
};
struct spoor_thread_exit {
	struct spoor_event_header h;
	__u32 pid;
	__s32 code; /* as wait(2): exit code << 8 | signal; of one that left: 0; SPOOR_EXIT_EXEC: that thread's tid */
	__u8 kind;  /* enum spoor_exit_kind */
} __attribute__((packed));

/* An executable mapping came into being (exec, mmap, mprotect). */
struct spoor_mapping {
	struct spoor_event_header h;
	__u32 pid;
	__u32 object;
	spoor_u64 start, end, offset; /* offset: in the file, bytes */
};

struct spoor_clock {
	struct spoor_event_header h; /* ts: CLOCK_MONOTONIC */
	spoor_u64 realtime, boottime;    /* ns, taken together with ts */
};

/* A change of what is recorded (mode, S, -e, pause, resume, overhead control), in words. */
struct spoor_config {
	struct spoor_event_header h;
	char text[0];
};

/* A count of Spoor's own, final when the recording ended. Names: define_counters(), src/collect. */
struct spoor_counter {
	struct spoor_event_header h;
	spoor_u64 value;
	char name[];
};

/* ---- events of programs that trace themselves ---- */

enum spoor_value_type {
	SPOOR_VALUE_UNSIGNED = 1,
	SPOOR_VALUE_SIGNED,
	SPOOR_VALUE_HEX,   /* unsigned */
	SPOOR_VALUE_OCTAL, /* unsigned */
	SPOOR_VALUE_POINTER,
	SPOOR_VALUE_FLOAT, /* of 4 or 8 bytes */
	SPOOR_VALUE_TEXT,  /* of 1 byte: a character; an array or a sequence is text that ends at its first NUL */
	SPOOR_VALUE_STRING, /* to its NUL; shape and size are 0 */
	SPOOR_VALUE_STACK, /* of 4 bytes: id of a stack of this segment, 0: none */
	SPOOR_VALUE_TYPE_MAX,
};
enum spoor_value_shape {
	SPOOR_SHAPE_SCALAR,
	SPOOR_SHAPE_ARRAY,    /* `count` elements */
	SPOOR_SHAPE_SEQUENCE, /* their number, unsigned of `length_size` bytes, then the elements */
	SPOOR_SHAPE_MAX,
};
enum spoor_value_flag {
	SPOOR_VALUE_CONTEXT = 1,    /* added by the tracer (cpu, vpid, stack ...): such fields come first */
	SPOOR_VALUE_BIG_ENDIAN = 2, /* of integers; a sequence's length is little endian all the same */
	SPOOR_VALUE_IN_HEX = 4,     /* of SIGNED: the bits are shown in hex */
};
enum spoor_class_kind { SPOOR_CLASS_TRACEPOINT = 1, SPOOR_CLASS_MARKER, SPOOR_CLASS_LOG };

/*
 * One field of a class. Its name follows, to its NUL; then, n_values times, a name of an enumeration: u64 first,
 * u64 last (sign-extended if the type is signed), a label to its NUL.
 */
struct spoor_class_field_def {
	__u8 type;        /* enum spoor_value_type */
	__u8 size;        /* bytes of an element: 1, 2, 4, 8 */
	__u8 shape;       /* enum spoor_value_shape */
	__u8 flags;       /* enum spoor_value_flag */
	__u8 length_size; /* of a sequence: 1, 2, 4 or 8; else 0 */
	__u8 zero;
	__u16 count;    /* of an array; else 0 */
	__u16 n_values; /* names of values: only of a scalar UNSIGNED or SIGNED */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_class_field_def) == 10, "");

#define SPOOR_LEVEL_NONE 255
#define SPOOR_MAX_CLASS_FIELDS 256
/* A definition: what the events of one id are. Their bodies are the fields one after another, byte-packed. */
struct spoor_class {
	struct spoor_event_header h;
	__u16 event;    /* the id: SPOOR_EV_USER ... SPOOR_EV_USER_MAX - 1 */
	__u8 kind;      /* enum spoor_class_kind */
	__u8 level;     /* 0 emergency ... 14 debug, as LTTng's; SPOOR_LEVEL_NONE */
	__u32 line;     /* source line, 0: unknown */
	__u16 n_fields; /* with the contexts */
	__u16 len;      /* bytes of data */
	__u8 data[];    /* "provider:event" NUL, source file NUL, the fields; a log line's format NUL, if there is */
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_class) == 28, "");

enum spoor_program_state {
	SPOOR_PROGRAM_BEGUN = 1,
	SPOOR_PROGRAM_RUNS,    /* repeated because a segment began */
	SPOOR_PROGRAM_ENDED,   /* by exit() or _exit(), or it executed another program */
	SPOOR_PROGRAM_CRASHED, /* by a signal: recovered up to there */
	SPOOR_PROGRAM_DAMAGED, /* its buffer held garbage: the rest of it is lost */
	SPOOR_PROGRAM_UNSEEN,  /* without exit(): by a crash or not, nobody saw which */
};
/* A definition: a traced program's buffer. Of several with one arena, the last counts. */
struct spoor_program {
	struct spoor_event_header h; /* tid: the process's leader */
	__u32 pid;
	__u8 state; /* enum spoor_program_state */
	__u8 arena[16];
	__u64 lost;      /* events that found no room, so far */
	__u64 malformed; /* times that something in it made no sense, so far */
	char comm[16];
} __attribute__((packed));
_Static_assert(sizeof(struct spoor_program) == 69, "");

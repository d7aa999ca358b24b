/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The arena: the memory that a traced program shares with whoever records it. This is its one definition. It stands in
 * a memfd or a file, alone tells everything (the event classes' definitions are in it), and is read by a consumer
 * while the program runs or by `spoor ust recover` after it died, at whatever instruction.
 *
 *   0                                  4 KiB = defs_offset     headers_offset       data_offset                  size
 *   +------+----------+--------+------+------------------------+--------------------+-------------+----+-------------+
 *   | head | channels | clocks | exe  | definitions (append)   | headers of packets | packet 0    | .. | packet n-1  |
 *   +------+----------+--------+------+------------------------+--------------------+-------------+----+-------------+
 *   0      1024       2048     3072    256 KiB                  128 bytes each       channel after channel
 *
 * All of it is written by the program, so a reader trusts nothing: offsets, sizes, ids and strings are to be checked.
 * Fixed once the arena is made (readers copy and check them once): everything but the fields marked "live".
 * Little endian; x86-64's order of stores is relied upon (a plain store is a release, a plain load an acquire).
 *
 * A packet holds events back to back in the form of trace/record.h, with three differences: ts is of the arena's clock
 * (a raw TSC), id is a class id of this arena, and sizes are multiples of 8. Id 0 is padding: skip it. Bodies are the
 * class's fields, packed:
 *
 *   +----------+----+-----------+-----+--------------------------------+---------+
 *   | ts       | id | flags,size| tid | field, field, ...              | to 8    |
 *   +----------+----+-----------+-----+--------------------------------+---------+
 *
 * tid is the one that the program sees (its pid namespace's). Within a packet ts never goes backwards.
 *
 * The life of a packet; each change of state is one compare-and-exchange of `owner`, whose generation it counts up:
 *
 *             taken at a thread's first event, or            no room for the next event, or
 *             when its last packet was full                  the thread was found dead
 *     FREE ----------------------------------------> OWNED ---------------------------------> FULL
 *      ^                                             |   ^                                     |
 *      |                            thread ended,    v   | another thread goes on in it        |
 *      |                            room is left     IDLE                                      |
 *      |                                                                                       |
 *      +---------------- READING (the consumer's) <--------------------------------------------+
 *        overwrite: FULL or IDLE (lowest serial) -> READING (the program's) -> OWNED
 *
 * - The owner alone writes events and `committed`. The consumer may read up to `committed` in any state; it keeps
 *   `consumed`. Of a channel that overwrites it copies first and then looks whether the serial is still the same.
 * - A FULL packet is consumed to its end as READING and then made FREE: committed = consumed = 0, owner = FREE last;
 *   then `space` of the channel is counted up, and if `waiters` is not 0, futex-woken (not FUTEX_PRIVATE).
 *   A packet of an overwriting channel keeps committed and consumed: the program counts what was in it (`gone`).
 * - OWNED by a thread that is no more (tgkill: ESRCH): the program makes it FULL, when it runs out of packets.
 * - OWNED with tid 0: the shared packet of its channel, which all threads that found no packet of their own write in,
 *   under the channel's lock.
 */
#include <linux/types.h>

#define SPOOR_ARENA_MAGIC 0x414e455241525053ULL /* "SPRARENA" */
#define SPOOR_ARENA_VERSION 3
#define SPOOR_ARENA_MAX_CHANNELS 8
#define SPOOR_ARENA_MAX_CLOCKS 64
#define SPOOR_ARENA_DEFS_OFFSET 4096
#define SPOOR_ARENA_DEFS_SIZE (256 * 1024) /* at least */
#define SPOOR_ARENA_DEFS_MOST (16 * 1024 * 1024)
#define SPOOR_ARENA_MAX_CLASSES 8192 /* ids 1..8191 */
#define SPOOR_ARENA_MAX_OBJECTS 4096 /* defined, one for each time that it came where another lay */
#define SPOOR_ARENA_MIN_PACKET 4096
#define SPOOR_ARENA_MAX_PACKET (1024 * 1024)

enum spoor_arena_state {
	SPOOR_ARENA_MAKING = 0, /* being set up: nothing in it yet */
	SPOOR_ARENA_LIVE = 1,   /* its program runs, or died (is the process gone?) */
	SPOOR_ARENA_ENDED = 2,  /* exit() ran, or recording into it was ended; no event comes any more */
};

enum spoor_arena_clock_kind {
	SPOOR_ARENA_TSC = 1,
	SPOOR_ARENA_MONOTONIC = 2, /* no invariant TSC: stamps are CLOCK_MONOTONIC ns */
};

enum spoor_arena_mode {
	SPOOR_ARENA_DISCARD = 0,   /* no packet: the new event is lost and counted */
	SPOOR_ARENA_OVERWRITE = 1, /* the oldest full packet is lost, its events are counted */
	SPOOR_ARENA_BLOCK = 2,     /* wait for space at most block_us, then discard */
};

/*
 * What a channel adds to its events: fields with SPOOR_DEF_CONTEXT, first in the body, in this order. Each takes a
 * multiple of 8 bytes.
 */
enum spoor_arena_context {
	SPOOR_CONTEXT_VPID = 1,     /* s64 vpid */
	SPOOR_CONTEXT_VTID = 2,     /* s64 vtid */
	SPOOR_CONTEXT_PROCNAME = 4, /* text[16] procname: of the thread, padded with NULs */
	SPOOR_CONTEXT_IP = 8,       /* pointer ip: in the site's cold code */
	SPOOR_CONTEXT_CPU = 16,     /* u64 cpu */
	SPOOR_CONTEXT_STACK = 32,   /* u16 callstack_status, u16 callstack_way (trace/record.h), u16 reserved, */
				    /* sequence of addresses callstack (below), innermost first */
};

/*
 * Counters of the thread, u64 perf_FIELD: X(bit, name, field, type and config of perf_event_open). One that cannot be
 * had is 0.
 */
#define SPOOR_PERF_FIRST 8
#define SPOOR_PERF_CONTEXTS(X)                            \
	X(8, "cpu-clock", cpu_clock, 1, 0)                \
	X(9, "task-clock", task_clock, 1, 1)              \
	X(10, "page-faults", page_faults, 1, 2)           \
	X(11, "context-switches", context_switches, 1, 3) \
	X(12, "cpu-migrations", cpu_migrations, 1, 4)     \
	X(13, "minor-faults", minor_faults, 1, 5)         \
	X(14, "major-faults", major_faults, 1, 6)         \
	X(15, "cycles", cycles, 0, 0)                     \
	X(16, "instructions", instructions, 0, 1)         \
	X(17, "cache-references", cache_references, 0, 2) \
	X(18, "cache-misses", cache_misses, 0, 3)         \
	X(19, "branches", branches, 0, 4)                 \
	X(20, "branch-misses", branch_misses, 0, 5)       \
	X(21, "bus-cycles", bus_cycles, 0, 6)             \
	X(22, "ref-cycles", ref_cycles, 0, 9)
#define SPOOR_N_PERF 15
#define SPOOR_PERF_KERNEL (1U << 11 | 1U << 12) /* these happen in the kernel: of the program alone they are always 0 */
#define SPOOR_CONTEXTS_PERF (((1U << SPOOR_N_PERF) - 1) << SPOOR_PERF_FIRST)

/*
 * An element of `callstack`: a return address, or the address of what a signal interrupted. The objects that they lie
 * in are defined (struct spoor_def_object); a reader makes (object, offset) of each.
 */
#define SPOOR_ADDRESS_INTERRUPTED (1ULL << 63) /* the instruction itself: a signal came there */
#define SPOOR_ADDRESS_BARE (1ULL << 62)        /* of no object: code that was made at run time */
#define SPOOR_ADDRESS(a) ((a) & ((1ULL << 47) - 1))
#define SPOOR_ARENA_MAX_FRAMES 512

/* Which call sites of a stack are taken: as `spoor record` has it, whose numbers these are. */
enum spoor_stack_mode {
	SPOOR_STACK_DEFAULT = 0, /* APP_ALL */
	SPOOR_STACK_APP = 1,     /* the innermost one in the application's own code */
	SPOOR_STACK_APP_ALL = 2, /* all of these */
	SPOOR_STACK_LIB = 3,     /* the innermost one of each object */
	SPOOR_STACK_ALL = 4,
	SPOOR_STACK_CUSTOM = 5, /* so many of each object as the recorder says */
};
#define SPOOR_STACK_BUDGET 5 /* by default */

struct spoor_arena_channel {
	char name[32];
	__u32 mode;         /* enum spoor_arena_mode */
	__u32 packet_size;  /* bytes, a multiple of 4096 */
	__u32 first_packet; /* its packets are first_packet .. + n_packets - 1 */
	__u32 n_packets;
	__u32 n_shared;  /* of these, how many threads leave for the shared packet */
	__u32 block_us;  /* longest wait of an event in mode BLOCK */
	__u32 contexts;  /* enum spoor_arena_context */
	__u16 stack_mode;   /* enum spoor_stack_mode */
	__u16 stack_budget; /* at most so many call sites; 0: SPOOR_STACK_BUDGET */
	/* live: */
	__u64 lost;        /* events that found no room */
	__u64 lost_large;  /* events larger than a packet */
	__u64 lost_nested; /* 0; older libraries: events in signal handlers over more than two half-written ones */
	__u64 lost_child;  /* of `lost`: by child processes that could have no buffers of their own */
	__u64 shared;      /* events written into a shared packet: not lost, but dearer */
	__u32 space;       /* futex word: counted up whenever a packet becomes FREE */
	__u32 waiters;     /* threads that wait for it */
	__u32 full;        /* counted up whenever a packet becomes FULL */
	__u32 lock;        /* of the shared packet: tid of who holds it, | 1 << 31: others wait; 0: nobody */
	__u64 children;    /* first channel, without a daemon: those child processes */
};
_Static_assert(sizeof(struct spoor_arena_channel) == 128, "");

/* The two clocks read together; stamps between two pairs are interpolated. Packets carry such a pair too. */
struct spoor_arena_clock {
	__u64 tsc, mono;
};

struct spoor_arena {
	__u64 magic;
	__u32 version;
	__u32 state; /* live: enum spoor_arena_state */
	__u64 size;  /* of all of it, bytes */
	__u8 uuid[16];
	__u8 boot_id[16];
	__u32 pid;        /* as the program sees it */
	__u32 clock;      /* enum spoor_arena_clock_kind */
	__u64 start_time; /* of the process: field 22 of /proc/PID/stat, clock ticks since boot */
	__u64 made;       /* CLOCK_MONOTONIC ns */
	__u64 realtime;   /* CLOCK_REALTIME ns, at the same moment */
	__u32 uid;        /* effective */
	__u32 n_channels;
	__u32 n_packets; /* of all channels */
	__u32 n_stuck;   /* sites of the program that could not be switched on when this was made */
	__u64 defs_offset, defs_size;
	__u64 headers_offset; /* struct spoor_arena_packet[n_packets] */
	__u64 data_offset;    /* page-aligned */
	char comm[16];
	__u32 marks_ends; /* 1: `leaving` is kept, and tells ends like these from a death by a signal */
	__u32 leaving;    /* live: threads in _exit(), execve(), or another function that ends the program */
	__u64 pid_ns;     /* the inode of the pid namespace that has these numbers; 0: nobody can say */
	/* live, each on a cache line of its own: */
	__u64 defs_used __attribute__((aligned(64))); /* bytes of definitions that are complete */
	__u64 n_clocks; /* pairs ever noted; pair i stands in clocks[i % 64], the oldest may be torn */
	__u64 serial __attribute__((aligned(64))); /* of the next packet to be opened (atomic); the first is 1 */
	/* futex word: counted up when a packet becomes FULL, few are FREE, and consumer_waits is not 0 */
	__u32 wake __attribute__((aligned(64)));
	__u32 consumer_waits;                         /* the consumer's: not 0 while it waits for `wake` */
	__u64 classes_refused;                        /* event classes for which the definitions had no room */
	__u64 taken; /* the consumer's: events of overwriting channels that it has, as far as it has noted it */
	__u32 uncounted; /* counters (bits of contexts) that are 0 in some event since they could not be had for it */

	struct spoor_arena_channel channels[SPOOR_ARENA_MAX_CHANNELS] __attribute__((aligned(1024)));
	struct spoor_arena_clock clocks[SPOOR_ARENA_MAX_CLOCKS];
	char exe[1024]; /* path, NUL-terminated */
};
_Static_assert(sizeof(struct spoor_arena) == SPOOR_ARENA_DEFS_OFFSET, "");
_Static_assert(__builtin_offsetof(struct spoor_arena, channels) == 1024, "");
_Static_assert(__builtin_offsetof(struct spoor_arena, clocks) == 2048, "");
_Static_assert(__builtin_offsetof(struct spoor_arena, exe) == 3072, "");

enum spoor_packet_state {
	SPOOR_PACKET_FREE = 0,
	SPOOR_PACKET_OWNED = 1,
	SPOOR_PACKET_IDLE = 2,
	SPOOR_PACKET_FULL = 3,
	SPOOR_PACKET_READING = 4,
};

/*
 * The owner word:
 *    63         40 39    36 35   32 31                0
 *   +-------------+--------+-------+-------------------+
 *   | generation  | level  | state | tid of the owner  |
 *   +-------------+--------+-------+-------------------+
 * level: 0, or how many half-written events of the same thread the signal handler that owns it stands over; 3: of
 * handlers over that many or more, which put whole events there.
 * In states other than OWNED tid and level are those of the last owner; READING: of who reads it, which is the consumer
 * (SPOOR_LEVEL_CONSUMER), or a thread that overwrites it.
 */
#define SPOOR_LEVEL_CONSUMER 15
#define SPOOR_OWNER(gen, level, state, tid) \
	((__u64)(gen) << 40 | (__u64)((level) & 15) << 36 | (__u64)((state) & 15) << 32 | (__u32)(tid))
#define SPOOR_OWNER_TID(o) ((__u32)(o))
#define SPOOR_OWNER_STATE(o) ((unsigned)((o) >> 32) & 15)
#define SPOOR_OWNER_LEVEL(o) ((unsigned)((o) >> 36) & 15)
#define SPOOR_OWNER_GEN(o) ((__u32)((o) >> 40))

/*
 * What of an overwriting channel's packet is consumed: bytes, with the serial that they are of, whose end may come at
 * any time.
 */
#define SPOOR_CONSUMED(serial, bytes) ((__u64)(serial) << 32 | (__u32)(bytes))
#define SPOOR_CONSUMED_BYTES(consumed, serial) ((__u32)((consumed) >> 32) == (__u32)(serial) ? (__u32)(consumed) : 0)

/*
 * How many events were in the packets that lay here, all of them, those that were consumed, too: of an overwriting
 * channel. A new packet begins by one store, of `serial`; so whoever looks, or finds the program killed, has all that
 * follows of one moment:
 *
 *   order of stores:  gone_next, serial, committed = 0, gone = gone_next, begun = serial, the new packet's first event
 *                               |                                       |
 *   begun == serial:  gone, committed are what they say                 | again
 *   begun != serial:            | gone is what gone_next says, and committed is 0
 *
 * What is overwritten is all that is gone, less what the consumer has of it. It knows how many events it has taken of
 * the arena in all, from what it has written, and how many of them are here still:
 *
 *   overwritten = sum of gone + events of packets that are here which were taken - events that were ever taken
 */

struct spoor_arena_packet {
	__u64 owner;
	__u64 serial;    /* in the order of opening, unique in the arena: (uuid, serial) names a packet for ever */
	__u64 committed; /* bytes of complete events, from the packet's start */
	__u64 consumed;  /* bytes; the consumer's. Of an overwriting channel: SPOOR_CONSUMED() */
	__u64 tsc, mono; /* when it was opened, by both clocks */
	__u64 begun;     /* the serial that committed and gone are of */
	__u32 channel;
	__u32 owners; /* threads that have written in it: 1, and the whole packet is of the owner's tid */
	__u64 gone, gone_next; /* of an overwriting channel: events of the packets that were here before */
	__u64 reserved[6];
};
_Static_assert(sizeof(struct spoor_arena_packet) == 128, "");

/*
 * Definitions: records one after another from defs_offset to defs_offset + defs_used, never changed. What an event
 * needs is complete before the event's id can occur.
 *
 *   +-------+------+----+--------------------------------------------+
 *   | size  | type | id | what the type says                         |
 *   +-------+------+----+--------------------------------------------+
 *    u32     u16    u16   to size, a multiple of 8
 */
enum spoor_def_type {
	SPOOR_DEF_CLASS = 1,
	SPOOR_DEF_OBJECT = 2,
};
struct spoor_def {
	__u32 size; /* bytes, this head included; a multiple of 8 */
	__u16 type; /* enum spoor_def_type; skip what you do not know */
	__u16 id;   /* of a class: what events carry, 1 .. SPOOR_ARENA_MAX_CLASSES - 1, each once, in no order */
};

enum spoor_def_kind {
	SPOOR_DEF_TRACEPOINT = 0,
	SPOOR_DEF_MARKER = 1,
	SPOOR_DEF_LOG = 2,
};

/*
 *   +--------------------------------+----------------------------------------------------+-----+-------------------+
 *   | struct spoor_def_class         | provider\0 name\0 file\0 function\0 format\0       | to 8| fields ...        |
 *   +--------------------------------+----------------------------------------------------+-----+-------------------+
 *                                      text_size bytes, the padding included
 */
struct spoor_def_class {
	struct spoor_def def;
	__u8 kind;    /* enum spoor_def_kind */
	__u8 level;   /* syslog's and LTTng's: 0 emergency .. 6 info .. 14 debug */
	__u8 channel; /* index: the events are in this channel's packets */
	__u8 reserved;
	__u16 n_fields; /* contexts included */
	__u16 text_size;
	__u32 line; /* of the first site found; file: its too; function: empty if not known */
	__u32 reserved2;
	__u64 signature; /* hash of the fields' names and types: the same for the same declaration in any program */
};
_Static_assert(sizeof(struct spoor_def_class) == 32, "");

enum spoor_def_type_of_field {
	SPOOR_DEF_INT = 1,
	SPOOR_DEF_FLOAT = 2,   /* IEEE 754, 4 or 8 bytes */
	SPOOR_DEF_POINTER = 3, /* u64 */
	SPOOR_DEF_STRING = 4,  /* bytes up to and with a NUL; shape SCALAR */
	SPOOR_DEF_ENUM = 5,    /* an integer whose values have names */
};
enum spoor_def_shape_of_field {
	SPOOR_DEF_SCALAR = 0,
	SPOOR_DEF_ARRAY = 1,    /* `count` elements */
	SPOOR_DEF_SEQUENCE = 2, /* u16 number of elements, then the elements */
};
enum spoor_def_flag_of_field {
	SPOOR_DEF_SIGNED = 1,
	SPOOR_DEF_TEXT = 2,    /* array or sequence of bytes that are characters */
	SPOOR_DEF_CONTEXT = 4, /* the channel's, not the tracepoint's; stands before all of those */
	SPOOR_DEF_BIG = 8,     /* big-endian (network order) integer */
	SPOOR_DEF_STACK = 16,  /* of a context, a sequence of pointers: addresses of a call stack */
	SPOOR_DEF_PADDING = 32, /* of a context of 2 bytes before one that has STACK: means nothing */
};

/*
 *   +---------------------------+----------+-----+-------------------------------------------+
 *   | struct spoor_def_field    | name\0   | to 8| n_labels x struct spoor_def_label         |
 *   +---------------------------+----------+-----+-------------------------------------------+
 */
struct spoor_def_field {
	__u32 size;  /* bytes, labels included; a multiple of 8 */
	__u8 type;   /* enum spoor_def_type_of_field */
	__u8 shape;  /* enum spoor_def_shape_of_field */
	__u8 bytes;  /* of an element: 1, 2, 4, 8; 1 for strings */
	__u8 base;   /* how to show integers: 10, 16, 8, 2 */
	__u8 flags;  /* enum spoor_def_flag_of_field */
	__u8 reserved;
	__u16 count; /* ARRAY */
	__u16 n_labels;
	__u16 reserved2;
};
_Static_assert(sizeof(struct spoor_def_field) == 16, "");

struct spoor_def_label { /* ENUM: values low..high are called name */
	__s64 low, high; /* cast them to the field's type, which need not hold them; low > high then: of no value */
	__u16 size;      /* bytes of this record; a multiple of 8 */
	char name[];     /* NUL-terminated */
};

/*
 * Where an object (the program, a library) lies in memory, and which file that is: for addresses of call stacks of
 * events whose stamp is `since` or later, until another one is defined at the same addresses. Complete before an event
 * whose call stack has such an address, so that nothing else is needed to tell what was called.
 *
 *   +---------------------------+----------+-----+
 *   | struct spoor_def_object   | path\0   | to 8|
 *   +---------------------------+----------+-----+
 */
enum spoor_def_object_flag {
	SPOOR_DEF_OBJECT_MAIN = 1, /* the program itself */
	SPOOR_DEF_OBJECT_VDSO = 2,
	SPOOR_DEF_OBJECT_DELETED = 4, /* its file had lost its name when this was written */
};
struct spoor_def_object {
	struct spoor_def def; /* id: the program's number of it, of the same object always the same; 0: none */
	__u64 start, end;     /* its addresses */
	__u64 bias;           /* an address less that is one of the ELF file */
	__u64 since;          /* stamp of the arena's clock; 0: from the begin */
	__u64 dev, ino;       /* of its file; dev as the kernel counts: major << 20 | minor; 0: not known */
	__u64 size, mtime, ctime; /* of its file: bytes, ns; 0: not known */
	__u32 flags;              /* enum spoor_def_object_flag */
	__u8 build_id_len;        /* at most 32; 0: it has none */
	__u8 reserved[3];
	__u8 build_id[32];
	char path[]; /* as the program sees it */
};
_Static_assert(sizeof(struct spoor_def_object) == 120, "");

/*
 * Daemonless recording writes full packets to a file beside the arena's, DIR/NAME.spill (NAME.arena is the arena):
 * records, one after another, each aligned to 8. A packet that is in both files (its program died between writing and
 * freeing it) has the same serial in both: the longer one counts. A torn last record is to be ignored.
 *
 *   +--------------------+--------------------------------------------------+
 *   | struct spoor_spill | struct spoor_arena_packet, its `committed` bytes |
 *   +--------------------+--------------------------------------------------+
 */
#define SPOOR_SPILL_MAGIC 0x4c505253U /* "SRPL" */
enum spoor_spill_type { SPOOR_SPILL_PACKET = 1 };
struct spoor_spill {
	__u32 magic;
	__u32 type;    /* enum spoor_spill_type; skip what you do not know */
	__u64 size;    /* bytes, this head included; a multiple of 8 */
	__u8 uuid[16]; /* of the arena */
};
_Static_assert(sizeof(struct spoor_spill) == 32, "");

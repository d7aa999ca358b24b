/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The maps and globals that the collectors share. */
#include "collect/kernel/kernel_types.bpf.h"

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "collect/kernel/control.h"
#include "unwind/walk_state.h"

#define ROW_SLOTS 4096
#define PAGE_SLOTS 2048
#define WINDOW 512
#define MEMO_SETS 512
#define MEMO_POOL (1 << 18)
#define MEMO_WAYS 4
#define MEMO_WORDS 64
#define LAYOUT_PART 512 /* mappings that are told of at once */

/* ---- constants, set before loading ---- */
const volatile u64 ring_mask = (1 << 22) - 1;
const volatile u32 unwind_with = SPOOR_UNWIND_CFI;
u32 self_tgid = 0; /* spoor itself and its helpers are never recorded: is_ours() */
u64 self_began = 0; /* when it began: children that are older are not its own */
u32 own_level = 0; /* of the pid namespace in which spoor runs, */
u64 own_ns = 0;    /* and that: it knows processes by their ids there */
const volatile bool match_names = false;
const volatile bool match_cgroup = false;
const volatile bool match_all = false;
const volatile u64 cgroup_id = 0;
const volatile u32 payload_max = 0;

/* ---- settings, changed while recording ---- */
u64 epoch = 1;  /* segment number */
u32 budget = 5; /* S */
bool paused = false;
bool both_attached = false; /* sys_enter and sys_exit: a call that ends was seen to begin, or was answered before */
bool attaching = false; /* the pick list is in use: forks of tasks that are not in yet are looked up too */
struct spoor_call_config calls[SPOOR_SYSCALL_MAX + 1]; /* the last: numbers beyond the table */
struct spoor_ret_when ret_whens[SPOOR_RET_CONDITIONS]; /* the first is not used */
struct spoor_names names;

/* ---- state ---- */
u32 next_image = 1;
u32 next_image_for_now = 1U << 31; /* numbers of images of whose code nothing is noted */
u32 next_layout = 1;
u32 next_stack = 1;
u32 next_file = 1;
u32 next_object = 2; /* 0 none, 1 vDSO */
s64 live_threads = 0;
u32 retake = 0;  /* user space is to run the iterator again: threads were moved in, or there was no memory for some */
u32 missing = 0; /* those for which there was none when it last ran */
u32 crowded = 0; /* threads of which an iterator could not tell for want of room, since user space set it to 0 */
u64 attached_threads = 0;

/* A thread can be met by several at once (fork, an iterator, a move): one takes it in, and describes it. */
enum joined { JOINED_NOT, JOINED, JOINED_SEEN /* by an iterator, which gave the storage its content */ };

enum image_shared { IMAGE_OWN, IMAGE_CAME /* from another process, or alike at attach */, IMAGE_GIVEN /* to others */ };

/* What every collector keeps of a thread that is in; its struct thread begins or ends with it. */
#define SPOOR_MEMBER                                                                                     \
	u32 image; /* of the process; valid in the group leader's storage, as layout and image_shared */ \
	u32 layout;                                                                                      \
	u32 owed; /* layout of the call in flight that is still to be described; 0: none */              \
	u32 gen;                                                                                         \
	u32 ended;       /* taken off live_threads */                                                    \
	u32 joined;      /* enum joined: who counted it into live_threads */                             \
	u8 image_shared; /* enum image_shared: others have it, so new code makes another one of it */    \
	u8 images_made;  /* that nobody had before, of shared ones */                                    \
	u8 vm_shared;    /* with other processes: the image is in shared_images */                       \
	u8 follow;       /* children are in too */                                                       \
	u8 wait_exec;    /* not before the first successful execve, but that one */                      \
	u8 named;        /* in because its name matched: execve decides again */                         \
	u8 pinned        /* in by its number, whatever it executes; 2: and its children */

/* struct thread: one thread that is in. Absence of this storage means out. */
#include SPOOR_THREAD_STATE

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs x levels: set before loading */
	__uint(key_size, 4);
	__uint(value_size, SPOOR_RING_DATA + (1 << 22) + SPOOR_RING_SLACK);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeups SEC(".maps");

/* Objects by file, and by id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SPOOR_KERNEL_OBJECTS);
	__type(key, struct spoor_object_key);
	__type(value, u32);
} object_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPOOR_KERNEL_OBJECTS);
	__type(key, u32);
	__type(value, struct spoor_kernel_object);
} objects SEC(".maps");

/* Rows: pages of text -> (chunk, first row, count). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPOOR_MAX_ROW_PAGES);
	__type(key, u32);
	__type(value, struct spoor_row_page);
} row_pages SEC(".maps");

/* Sizes, not types: to Linux 6.1 a map with types is not like those that are made later, which have none. */
struct row_chunk_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct spoor_row_chunk));
} row_chunk_template SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SPOOR_MAX_CHUNKS);
	__type(key, u32);
	__array(values, struct row_chunk_map);
} row_chunks SEC(".maps") = {
	.values = { [0] = &row_chunk_template },
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPOOR_MAX_RULES);
	__type(key, u32);
	__type(value, struct spoor_rule);
} rules SEC(".maps");

/* Layouts already described. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} layouts SEC(".maps");

/* What mode custom can take of one stack, by layout (scope.bpf.h). */
#define CAPACITIES 4096
struct capacity {
	u64 known; /* layout << 32 | call sites */
	u32 tried; /* when it was not to be known, in 2^20 ns */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CAPACITIES);
	__type(key, u32);
	__type(value, struct capacity);
} capacities SEC(".maps");

/* The executable mappings of an image in which rows may be cached. */
#define CODE_SLOTS 512
#define CODE_RANGES 128
struct code_ranges {
	u64 head; /* image << 32 | how many; more than there is room for: not all are here */
	struct {
		u64 start, end;
	} ranges[CODE_RANGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CODE_SLOTS);
	__type(key, u32);
	__type(value, struct code_ranges);
} code_ranges SEC(".maps");

/*
 * What an image that several processes may come to have was made of: another one, and the code of a file that was
 * mapped into it; or no object, and 0: some may have gone. from is 0 at attach: start is a hash of all that was mapped.
 */
struct image_key {
	u32 from, object;
	u64 start, end, offset;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct image_key);
	__type(value, u32);
} images SEC(".maps");

/* The images of address spaces that several processes run in, by struct mm_struct *. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32);
} shared_images SEC(".maps");

/* Processes to take in at attach; filled by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, u32);   /* tgid */
	__type(value, u32); /* enum spoor_pick bits */
} picks SEC(".maps");

/* ---- per CPU: caches (two places a key, validated by it) and scratch by nesting level ---- */

struct row_entry {
	u64 pc; /* as looked up */
	u32 image;
	u32 app;
	u64 frame; /* SPOOR_FRAME(object, vaddr of pc) */
	struct spoor_rule rule;
};

struct page_entry {
	u64 page; /* pc >> 12 */
	u32 image;
	u32 object;
	u64 delta; /* file offset (vDSO, anonymous: offset, address) = pc - delta */
};

/* A walk that was done, and what it read (memo.bpf.h). */
struct memo {
	u64 key;
	u32 epoch; /* segment that has the stack's definition */
	u32 id;    /* of the stack */
	u16 n;     /* words */
	u16 depth;
	u32 status;
	u64 words[MEMO_WORDS];
};

struct memo_place {
	u32 tag; /* the key's lower half; 0: empty */
	u32 at;  /* offset in the pool; what lies there now may be another one */
};

/* A walk under way. */
struct walk {
	struct spoor_frame_state s;
	u64 window;     /* address of what can be read at present, */
	u64 window_len; /* where a word may begin in it, */
	u64 bytes;      /* and where its bytes are */
	u32 mapped;     /* something was read where the kernel has it mapped: walk_stands() has to be asked */
	u64 hash;
	u32 image;
	u32 n; /* call sites collected */
	u32 budget;
	s32 full; /* the status when that is used up */
	u32 mode;
	s32 status;
	u32 depth;
	u32 searched;     /* words looked at for return addresses (fp_may_skip()) */
	u64 sp;           /* as it was when the walk began */
	u32 memo_words;   /* noted so far; more than MEMO_WORDS: it cannot be remembered */
	u64 memo_bp_at;   /* where the present rbp was loaded from, as in a word */
	u32 memo_bp_seen; /* and that is noted */
};

/* A mapping of the current process. */
struct vma_answer {
	u64 start, end, offset;
	u64 file; /* struct file *, valid while this runs: files are freed after a grace period; 0: anonymous code */
	u64 vdso;
	u32 exec;
	u32 found;
};

/* Where the kernel has a page of a process mapped for itself (user.bpf.h). */
struct user_page {
	u64 addr, space; /* of the page; its address space's number, */
	u64 flushes;     /* and that one's tlb_gen when this was found */
	u64 bytes;
};

#define USER_PAGES 128

struct scratch {
	struct walk walk;
	u64 space, flushes; /* the address space that is read: as in struct user_page, when that began */
	struct user_page user_pages[USER_PAGES];
	struct memo memo; /* of the walk under way */
	u64 window[WINDOW / 8];
	u64 frames[SPOOR_MAX_FRAMES];
	char path[4096 + 512];
	u64 pointer; /* address_of() */
	/* The mapping looked at, and its page: before Linux 6.13 who call each other have 512 bytes of stack. */
	struct vma_answer vma;
	struct page_entry page;
	u32 layout_number; /* of the layout that is being described: */
	u32 layout_told;   /* so many of its mappings were, */
	u32 layout_torn;   /* some could not be, for want of room, */
	u32 n_layout;      /* and these are noted */
	u32 capacity;      /* call sites, as counted so far, */
	u32 capacity_seen; /* and whether there was a mapping at all */
	struct spoor_layout_range layout[LAYOUT_PART];
};

struct cpu {
	struct row_entry rows[ROW_SLOTS];
	struct page_entry pages[PAGE_SLOTS];
	struct memo_place memo_places[MEMO_SETS][MEMO_WAYS];
	u8 memo_pool[MEMO_POOL + sizeof(struct memo)];
	u32 memo_head; /* where the next one goes */
	u64 used[SPOOR_KERNEL_OBJECTS]; /* of each object: number of the walk << 10 | call sites that it took of it */
	u64 walk;
	u64 sched_offset;    /* CLOCK_MONOTONIC less this CPU's scheduler clock, as measured before attaching */
	struct thread spare; /* of an iterator */
	struct scratch scratch[SPOOR_LEVELS];
	struct spoor_kernel_stats stats;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs: set before loading */
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	u32 key = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &key);
}

/* A kernel pointer as a number to hash: the verifier calculates with numbers only, and what is read back is one. */
static __always_inline u64 address_of(struct scratch *sc, const void *p)
{
	*(volatile u64 *)&sc->pointer = (u64)p;
	return *(volatile u64 *)&sc->pointer;
}

/* What the compiler knows of a value the verifier may not: hides it from the compiler. */
#define opaque(x)                            \
	({                                   \
		__typeof__(x) x_ = (x);      \
		asm volatile("" : "+r"(x_)); \
		x_;                          \
	})

static __always_inline u64 mix(u64 h, u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 32);
}

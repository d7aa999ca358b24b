/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The kernel side of a recording, as user space sees it: load, configure, attach, and the memory that both share.
 * Nothing is pinned: when the process ends, in whatever way, the kernel takes everything away.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/kernel/control.h"
#include "collect/session/filter.h"

struct spoor_collector_bpf;
struct spoor_counter_bpf;
struct bpf_map;
struct bpf_object;
struct bpf_program;

struct spoor_kernel_options {
	bool counting;      /* counters instead of events; what below says "counting" is for them only */
	bool by_site;       /* counting: by call site too */
	bool by_process;    /* counting: sums of what has ended by process, else in one */
	bool no_blocked;    /* counting: without the program at context switches */
	bool filtered;      /* counting: not all calls are to be counted */
	unsigned ring_size; /* bytes of one ring's data, a power of two */
	enum spoor_unwind unwind;
	unsigned payload; /* bytes of read and written data to keep of a call, below SPOOR_MAX_PAYLOAD */
	bool copy_memory; /* do not read user memory in place (user.bpf.h) */
	bool match_all;
	bool match_names;   /* execve decides by spoor_kernel_set_names() */
	const char *cgroup; /* path of a cgroup v2 directory, or NULL */
};

/* The maps and globals that all collectors have (maps.bpf.h). */
struct spoor_kernel_common {
	const struct bpf_map *rings, *objects, *row_pages, *row_chunks, *rules, *picks, *object_ids, *wakeups, *cpus;
	const struct bpf_program *attach_tasks, *direct_find, *measure_sched_clock, *object_key_at, *find_self;
	uint64_t *epoch;
	uint32_t *budget, *next_object, *retake, *missing, *crowded;
	bool *paused, *attaching, *both_attached;
	struct spoor_call_config *calls;
	struct spoor_ret_when *ret_whens;
	struct spoor_names *names;
	struct spoor_object_key *found_key;
	long long *live_threads;
	unsigned long long *attached_threads, *direct_map;
};

struct spoor_kernel {
	struct spoor_collector_bpf *collector; /* of a recording, or NULL */
	struct spoor_counter_bpf *counter;     /* of counting, or NULL */
	struct bpf_object *obj;                /* of that which is there */
	struct spoor_kernel_common c;
	unsigned n_cpus;
	unsigned ring_size;
	uint8_t *rings; /* n_cpus * SPOOR_LEVELS values, mapped */
	size_t ring_stride;
	struct spoor_kernel_object *objects; /* mapped, SPOOR_KERNEL_OBJECTS; this and the next: NULL without walks */
	struct spoor_row_page *row_pages;    /* mapped, SPOOR_MAX_ROW_PAGES */
	struct spoor_rule *rules;            /* mapped, SPOOR_MAX_RULES */
};

/* Loads; nothing is attached yet. The error says what is missing. */
int spoor_kernel_open(const struct spoor_kernel_options *o, struct spoor_kernel **ret, struct spoor_error *e);
int spoor_kernel_attach(struct spoor_kernel *k, struct spoor_error *e);
/* From here on nothing is produced; what is in the rings stays readable. */
void spoor_kernel_detach(struct spoor_kernel *k);
void spoor_kernel_close(struct spoor_kernel *k);
/* In a forked process: lets go of everything but the mapped rings, by which nothing stays loaded. */
void spoor_kernel_keep_rings(struct spoor_kernel *k);

/* What to record: for each call its mode, but none beyond `most`. May be called while recording. */
void spoor_kernel_set_calls(struct spoor_kernel *k, const struct spoor_filter *f, enum spoor_mode mode,
			    enum spoor_mode most, unsigned budget);
void spoor_kernel_set_paused(struct spoor_kernel *k, bool paused);
/* One more pattern, as glob(7). -EINVAL, -E2BIG, -ENAMETOOLONG with the reason. */
int spoor_names_add(struct spoor_names *names, const char *glob, struct spoor_error *e);
/* Globs on executable names or comms; before attaching. As spoor_names_add(). */
int spoor_kernel_set_names(struct spoor_kernel *k, const char *const *globs, size_t n, struct spoor_error *e);
/* The next segment: every ring answers with a mark. */
void spoor_kernel_set_epoch(struct spoor_kernel *k, uint64_t epoch);

/* Puts a process on the list of those to take in (bits: enum spoor_pick). */
int spoor_kernel_pick(struct spoor_kernel *k, uint32_t tgid, uint32_t bits);
void spoor_kernel_unpick(struct spoor_kernel *k, uint32_t tgid);
/*
 * Takes in all threads of picked processes, until a pass finds no new one, or the rings have no room to tell of more
 * (spoor_kernel_crowded()): then it is to be done again. Returns how many came in, or -errno.
 */
long spoor_kernel_take_in(struct spoor_kernel *k);
bool spoor_kernel_crowded(const struct spoor_kernel *k);
/* Ends the time in which forks of picked processes are looked up. */
void spoor_kernel_end_attach(struct spoor_kernel *k);
/*
 * Writes the calls in flight of all threads that are in as pending events, each once. Returns of how many there was no
 * room to tell, or -errno.
 */
long spoor_kernel_flush_pending(struct spoor_kernel *k);
/*
 * In a segment that has just begun: tells it what the calls in flight refer to, and of those again that were last told
 * of in a segment before tell_again. Returns how many found no room in the rings, or -errno: to be repeated.
 */
long spoor_kernel_repeat(struct spoor_kernel *k, uint64_t tell_again);
/*
 * Tells of the calls in which threads sleep that are in, if they are to be recorded and began when they were not to be:
 * after a change of that. Returns how many there were, or -errno.
 */
long spoor_kernel_meet(struct spoor_kernel *k);
/* If threads were moved into the cgroup since the last time: takes in what they are doing. Cheap if not. */
bool spoor_kernel_retake(struct spoor_kernel *k);
int64_t spoor_kernel_live_threads(const struct spoor_kernel *k);

/* The key under which walks meet an open file. One thread at a time. 0, or -errno: it cannot be mapped. */
int spoor_kernel_key_of(struct spoor_kernel *k, int fd, struct spoor_object_key *ret);
/*
 * An object that user space found by itself gets an id; NEW until spoor_row_store_publish(). -EEXIST: it has one, and
 * *ret_id is that, or 0 if nobody is told of it yet.
 */
int spoor_kernel_add_object(struct spoor_kernel *k, const struct spoor_object_key *key, uint32_t *ret_id);
/* Were there more objects than ids? */
bool spoor_kernel_is_full(const struct spoor_kernel *k);

static inline struct spoor_ring *spoor_kernel_ring(const struct spoor_kernel *k, unsigned cpu, unsigned level)
{
	return (struct spoor_ring *)(k->rings + (size_t)(cpu * SPOOR_LEVELS + level) * k->ring_stride);
}

int spoor_kernel_wakeup_fd(const struct spoor_kernel *k);
void spoor_kernel_wakeup_drain(struct spoor_kernel *k);

/* Sum over all CPUs. */
void spoor_kernel_stats(const struct spoor_kernel *k, struct spoor_kernel_stats *ret);
/*
 * Run time of all programs so far, ns, and how often they ran; 0 if the kernel does not count
 * (kernel.bpf_stats_enabled).
 */
void spoor_kernel_run_time(const struct spoor_kernel *k, uint64_t *ret_ns, uint64_t *ret_runs);
/* Is user memory read in place? */
bool spoor_kernel_in_place(const struct spoor_kernel *k);
/* Bytes of kernel memory that the maps take. */
uint64_t spoor_kernel_memory(const struct spoor_kernel *k);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Counters of system calls by thread, as `spoor stat` shows them: snapshots, what came between two of them, and
 * threads folded into processes and those into the application. Times are CLOCK_MONOTONIC ns. Whoever fills a snapshot
 * allocates with malloc(); spoor_counters_done() releases. Not thread-safe. Sums stay at their maximum.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPOOR_HISTOGRAM 48

struct spoor_errno_count {
	uint16_t number;
	uint64_t n;
};

/*
 * One system call of one thread [at one site]. What is called blocked is part of the time beside it.
 * Of the difference of two snapshots, carried_ns is what the calls that were in flight at its begin had taken by then:
 * ns + in_flight_ns + unreturned_ns + left_ns - carried_ns passed in these calls between the two.
 */
struct spoor_call_counters {
	uint16_t id;    /* event id (trace/record.h): a system call's, or SPOOR_EV_SYSCALL_OTHER */
	uint32_t stack; /* --by site: id of the call site's stack; 0: none */
	uint64_t calls, errors, ns, min_ns, max_ns, blocked_ns; /* of completed calls */
	uint64_t histogram[SPOOR_HISTOGRAM]; /* [i]: calls with 2^i <= ns < 2^(i+1), [0] and the last also what is
					      * beyond; sum == calls */
	struct spoor_errno_count *errnos;
	size_t n_errnos;
	uint64_t in_flight, in_flight_ns, in_flight_blocked_ns;    /* running now, their time so far */
	uint64_t unreturned, unreturned_ns, unreturned_blocked_ns; /* their thread ended in them; spoor_counters_fold()
								    * puts what is in flight of ended threads here */
	uint64_t left, left_ns, left_blocked_ns; /* their thread was moved out of what is watched in them */
	uint64_t carried_ns, carried_blocked_ns;
	uint8_t min_is_bound, max_is_bound; /* of a difference: known to within a factor of two, from the histogram */
};

/* One thread, or what threads were folded into. */
struct spoor_task_counters {
	pid_t pid, tid, ppid; /* tid 0: what ended threads of pid were folded into; pid 0 too: of ended processes */
	pid_t first_pid;      /* pid 0: of the first of them, whose are name and start; 0: unknown */
	char comm[16];        /* any bytes; NUL-terminated if shorter */
	uint64_t start_ns, end_ns; /* end 0: alive */
	uint64_t process_start_ns; /* its group leader's; 0: unknown */
	uint32_t serial;           /* of a live thread, where it is known: no other has it */
	unsigned threads;          /* accumulated into it */
	unsigned processes;        /* accumulated into it; 0 or 1: of one */
	uint64_t overflow;         /* calls that found no slot of their thread: they are counted with what has tid 0 */
	struct spoor_call_counters *calls;
	size_t n_calls;
};

struct spoor_counters {
	uint64_t at_ns;
	uint64_t since_ns; /* when counting began; of a difference: its begin */
	struct spoor_task_counters *tasks;
	size_t n;
	uint64_t
		lost_threads; /* no memory for their counters; what they start may be missing too, and is not in here */
	uint64_t lost_calls;  /* in no task's counters, for want of memory */
};

static inline uint64_t spoor_add_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t spoor_sub_saturated(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* They empty *c and *t, which themselves are the caller's. */
void spoor_counters_done(struct spoor_counters *c);
void spoor_task_done(struct spoor_task_counters *t);
/* What is in *ret is overwritten, not released. */
int spoor_counters_copy(const struct spoor_counters *c, struct spoor_counters *ret);

/*
 * ---- filling ----
 * These add to arrays that were made by them (or are empty): they alone know how much room there is.
 */

/* A new task at the end, zeroed; NULL: out of memory. Borrowed until the next call. */
struct spoor_task_counters *spoor_counters_add_task(struct spoor_counters *c);
/* A new call at the end of a task, zeroed but for id and stack; NULL: out of memory. Borrowed until the next call. */
struct spoor_call_counters *spoor_task_add_call(struct spoor_task_counters *t, uint16_t id, uint32_t stack);
/* n more calls that failed with this; not into `errors`. */
int spoor_call_add_errno(struct spoor_call_counters *c, uint16_t number, uint64_t n);
/* The bucket of a duration. */
unsigned spoor_histogram_bucket(uint64_t ns);

/* ---- understanding ---- */

enum spoor_stat_level {
	SPOOR_STAT_APPLICATION, /* everything in one */
	SPOOR_STAT_PROCESS,
	SPOOR_STAT_THREAD,
	SPOOR_STAT_TREE, /* as PROCESS; shown by parent */
};

/*
 * Folds tasks into what `level` says, and the calls of each that have equal id (and stack, if by_site); so nothing in
 * *ret occurs twice. A process has the name and times of its group leader if that is there, else of its first thread;
 * the application those of its first process. Tasks come in the order of their start. 0 or -ENOMEM.
 */
int spoor_counters_fold(const struct spoor_counters *c, enum spoor_stat_level level, int by_site,
			struct spoor_counters *ret);

/*
 * The same while a snapshot is being taken, for who comes to know tasks and their calls one after the other: threads
 * that are folded are not kept. Calls stay apart by stack. A process has its own start in every snapshot, whichever of
 * its threads are in it. With SPOOR_STAT_THREAD nothing is folded.
 */
struct spoor_folder;
int spoor_folder_new(enum spoor_stat_level level, struct spoor_folder **ret);
void spoor_folder_free(struct spoor_folder *f);
/* The next task; its calls are not looked at. 0 or -ENOMEM: it is then not in, and must have no calls. */
int spoor_folder_task(struct spoor_folder *f, const struct spoor_task_counters *t);
/* Where a call of that task is to be added, by spoor_call_merge(). Borrowed until the next one. NULL: out of memory. */
struct spoor_call_counters *spoor_folder_call(struct spoor_folder *f, uint16_t id, uint32_t stack);
/* Everything that came; the folder can then only be freed. */
void spoor_folder_take(struct spoor_folder *f, struct spoor_counters *ret);

/* Is `a` the better of two to name what both are folded into: the leader of a process, the first of an application? */
int spoor_task_names_better(const struct spoor_task_counters *a, const struct spoor_task_counters *b);
/* The end of what `from` is folded into: the last one's, and none while one is alive. It begins at 1. */
void spoor_task_set_end(struct spoor_task_counters *to, const struct spoor_task_counters *from);

/*
 * What came between two snapshots, thread by thread; those with nothing to say are left out. A thread that ended in
 * between and is only in `before` was folded into tid 0 of its process, or pid 0, in `now`: what it had before is taken
 * off from there. The same tid with another start is another thread. 0 or -ENOMEM.
 */
int spoor_counters_delta(const struct spoor_counters *before, const struct spoor_counters *now,
			 struct spoor_counters *ret);

/*
 * A call of some task, on its way to being merged. Of ended tasks what is in flight counts as unreturned. Refs are
 * sorted by group, call id, stack.
 */
struct spoor_call_ref {
	size_t group;
	const struct spoor_call_counters *call;
	uint8_t ended;
};
void spoor_call_refs_sort(struct spoor_call_ref *refs, size_t n);
/* Merges refs, sorted and all of one group, into *to, which has no calls; each (id, stack), or id, once. */
int spoor_call_refs_merge(const struct spoor_call_ref *refs, size_t n, int by_site, struct spoor_task_counters *to);
/* Has this task ended, or is it what ended ones were folded into? */
static inline int spoor_task_ended(const struct spoor_task_counters *t)
{
	return t->end_ns || !t->tid;
}

/* Adds `from` to the counters of others of the same system call. 0 or -ENOMEM (to is then incomplete). */
int spoor_call_merge(struct spoor_call_counters *to, const struct spoor_call_counters *from);

/* What tables show: calls that have not returned count as one each, with their time so far. */
uint64_t spoor_call_shown(const struct spoor_call_counters *c);
uint64_t spoor_call_shown_ns(const struct spoor_call_counters *c);
uint64_t spoor_call_shown_blocked_ns(const struct spoor_call_counters *c);

enum spoor_stat_sort {
	SPOOR_STAT_BY_TIME,
	SPOOR_STAT_BY_CALLS,
	SPOOR_STAT_BY_ERRORS,
	SPOOR_STAT_BY_MAX,
	SPOOR_STAT_BY_NAME,
};
/* Greatest first, names ascending; ties by name, then stack. */
void spoor_task_sort_calls(struct spoor_task_counters *t, enum spoor_stat_sort sort);
int spoor_call_compare(const struct spoor_call_counters *a, const struct spoor_call_counters *b,
		       enum spoor_stat_sort sort);
/* As its calls would be sorted if they were one. */
void spoor_counters_sort_tasks(struct spoor_counters *c, enum spoor_stat_sort sort);

/* All calls of a task in one, without errnos. */
struct spoor_call_counters spoor_task_total(const struct spoor_task_counters *t);

/*
 * The duration that `per_mille` thousandths of the completed calls did not exceed: interpolated (by logarithm, to
 * within its bucket, and within min_ns..max_ns). 0 if there are none.
 */
uint64_t spoor_call_percentile(const struct spoor_call_counters *c, unsigned per_mille);

/*
 * Hundredths of a per cent of each part, which add up to 10,000 exactly (largest remainder; ties: the first), or all 0
 * if all parts are.
 */
int spoor_shares(const uint64_t *parts, size_t n, uint32_t *ret);

/* "openat", "openat (i386)", "syscall_999", "(unknown number)". */
void spoor_call_counters_name(uint16_t id, char *buf, size_t size);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Which calls and user events of a trace a report is about. What is zero or empty does not restrict. What chooses calls
 * (some_calls, errno_, failed, min_duration) leaves no user events, and events leave no calls; both given leave both.
 */
#include "analyze/symbolize.h"
#include "base/strings.h"
#include "trace/syscalls.h"

#define SPOOR_SELECT_I386 (1ULL << 32)

struct spoor_select {
	uint64_t from, to;     /* CLOCK_MONOTONIC ns; a call that overlaps [from, to] is in; to 0: no end */
	uint32_t *pids, *tids; /* owned */
	size_t n_pids, n_tids;
	uint8_t calls[SPOOR_SYSCALL_MAX + 1]; /* 1: wanted, by event id; SPOOR_SYSCALL_MAX: unknown numbers */
	uint8_t some_calls;                   /* calls[] counts, and numbers[] */
	uint8_t n_numbers;
	uint64_t numbers[8]; /* of unknown ones these are wanted, too; SPOOR_SELECT_I386: of that ABI alone */
	struct spoor_globs functions;         /* some frame's function */
	int errno_;                           /* failed with this */
	uint8_t failed;                       /* returned any error */
	uint64_t min_duration;                /* ns */
	struct spoor_globs events;            /* user events: "provider:name" */
	uint8_t event_wanted[SPOOR_EV_USER_MAX - SPOOR_EV_USER]; /* what events said, by id: 1 yes, 2 no, 0 not asked */

	struct spoor_select_stack { /* what functions said about a stack */
		uint32_t id, pid;
		uint8_t known, match;
	} * stacks;
	size_t stacks_size, n_stacks;
};

/* Is this an error's return value? Also the kernel-internal ERESTART* ones, which a signal leaves. */
static inline int spoor_ret_failed(int64_t ret)
{
	return ret < 0 && ret >= -4095;
}

/* exit() and exit_group() that did what they are for: such a call never ends, and is no unfinished one. */
static inline int spoor_is_exit(const struct spoor_pending *p)
{
	return p->why == SPOOR_PENDING_DEATH && spoor_syscall_info(p->nr)->flags & SPOOR_SYSCALL_NORETURN;
}

int spoor_select_add_pid(struct spoor_select *s, uint32_t pid);
int spoor_select_add_tid(struct spoor_select *s, uint32_t tid);
void spoor_select_done(struct spoor_select *s);

/*
 * All but the functions: for a completed call, or a pending one (which has not failed, and lasts until `now`).
 * Events that are no calls: 0.
 */
int spoor_select_event(const struct spoor_select *s, const struct spoor_event_header *h, uint64_t now);
/* By its process and id alone. */
int spoor_select_thread(const struct spoor_select *s, uint32_t pid, uint32_t tid);
/* All but the functions, for a user event of a thread of pid. */
int spoor_select_user(struct spoor_select *s, const struct spoor_event *ev, uint32_t pid);
/* Anything that chooses calls: what is no call is then left out. */
int spoor_select_chooses_calls(const struct spoor_select *s);
/* The functions. */
int spoor_select_stack(struct spoor_select *s, struct spoor_symbolizer *z, const struct spoor_segment *segment,
		       uint32_t pid, uint32_t stack);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What a recording needs of this machine, tried one thing at a time. Not thread-safe (libbpf's messages are silenced
 * meanwhile). Nothing stays loaded.
 */
#include <stdbool.h>
#include <stddef.h>

enum spoor_check_state {
	SPOOR_CHECK_OK,
	SPOOR_CHECK_LIMITED, /* recording works, something is missing */
	SPOOR_CHECK_NO,      /* recording is impossible */
};

struct spoor_check {
	const char *name; /* static; stable, for programs */
	enum spoor_check_state state;
	char detail[256]; /* one line: what was found */
	char advice[256]; /* one line: what to do; empty if ok */
};

/* Runs all checks. Returns how many results were filled, at most max. */
size_t spoor_check_machine(struct spoor_check *ret, size_t max);

/* "ok", "limited", "no" */
const char *spoor_check_state_name(enum spoor_check_state state);

/* Whether this process holds a capability (CAP_*), by itself or by one that includes it. */
bool spoor_check_capable(int cap);

/* Whether /proc is there, and of this process's pid namespace. */
bool spoor_check_proc_there(void);
/* What to do about it. */
#define SPOOR_PROC_ADVICE "mount it: mount -t proc proc /proc"
#define SPOOR_CLOCKS_WRONG "Spoor is in a time namespace, whose clocks are not those of the kernel's events"
#define SPOOR_CLOCKS_ADVICE "start it outside (nsenter -t PID -T, of a process that is)"

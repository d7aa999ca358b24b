/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What every kind of collecting has in common: it has targets, is attached to them, hears signals, and ends with its
 * command, with its targets, after a time, or when it is told to. Used from one thread.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/kernel/kernel.h"
#include "collect/session/command.h"
#include "collect/session/objects.h"
#include "collect/session/targets.h"

enum spoor_session_end { SPOOR_END_COMMAND, SPOOR_END_TARGETS, SPOOR_END_DURATION, SPOOR_END_SIGNAL, SPOOR_END_FAILED };

struct spoor_host {
	const struct spoor_targets *targets;
	struct spoor_kernel *kernel;   /* from spoor_host_open() on */
	struct spoor_objects *objects; /* set by who collects and freed here; NULL: nothing is unwound */
	struct spoor_command command;
	char cmd_path[PATH_MAX];
	int signal_fd;        /* to be polled */
	int also_fd;          /* ends a wait, too; -1: none */
	bool hurry;           /* what comes too late is lost: before others, after the command is forked */
	void (*make_room)(void *ctx); /* takes out what is in the rings; NULL: there is always room */
	void *ctx;
	uint64_t duration_ns; /* 0: until it ends by itself */
	uint64_t began;
	long attached; /* threads that ran already and were taken in */
	bool stop;
	enum spoor_session_end end; /* why, once stop is set */
	int wait_status;            /* of the command, as wait(2) */
};

/* Are the targets and the privileges there? Initializes h. From here on a file that is too large is a failing write,
 * and as many descriptors as can be had may be open (the command is given the limit as it was). */
int spoor_host_check(struct spoor_host *h, const struct spoor_targets *t, struct spoor_error *e);
/* Loads the kernel side: what its options say of targets is filled in here. */
int spoor_host_open(struct spoor_host *h, struct spoor_kernel_options *ko, struct spoor_error *e);
/* From here on signals that end a collection (and `other`, if not 0) wait to be read. */
int spoor_host_block_signals(struct spoor_host *h, int other, struct spoor_error *e);
/* Loads the rows of what the targets map, forks the command, attaches. */
int spoor_host_attach(struct spoor_host *h, struct spoor_error *e);
/* Takes in what runs, gives up privileges, lets the command go. `keep`: see spoor_privileges_drop(). */
int spoor_host_go(struct spoor_host *h, uint64_t keep, struct spoor_error *e);

#define SPOOR_LOOK_MS 200 /* so often it is looked, whatever comes: at rings, and whether the targets are gone */

/* What there is to do after waiting. */
struct spoor_host_news {
	bool kernel;       /* it asked to be looked at */
	bool other_signal; /* that of spoor_host_block_signals() came */
	bool fd;           /* can be read */
};
/*
 * Waits for signals, the kernel, the loader and fd (-1: none), but for no more than most_ms, nor beyond the time
 * until_ns or the end of the duration. Takes what signals say, and in what was moved into the targets.
 */
struct spoor_host_news spoor_host_wait(struct spoor_host *h, int fd, uint64_t until_ns, unsigned most_ms);
/* Sets stop if the time is over, or if all that were named by pid, and what they bore, are gone. */
void spoor_host_see_end(struct spoor_host *h, uint64_t now);
/*
 * Waits until the loader has worked off what is known by now, but for no more than most_ns. drain() takes what the
 * rings and the loader have; it says whether there is something else to wait for.
 */
void spoor_host_settle(struct spoor_host *h, uint64_t most_ns, bool (*drain)(void *ctx), void *ctx);
/* spoor_command_await() where a signal ended the recording. drain(): as above. */
void spoor_host_await_command(struct spoor_host *h, bool (*drain)(void *ctx), void *ctx);
void spoor_host_done(struct spoor_host *h);

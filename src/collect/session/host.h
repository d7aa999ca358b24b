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
#include "collect/session/objects.h"
#include "collect/session/targets.h"

enum spoor_session_end { SPOOR_END_COMMAND, SPOOR_END_TARGETS, SPOOR_END_DURATION, SPOOR_END_SIGNAL, SPOOR_END_FAILED };

struct spoor_host {
	const struct spoor_targets *targets;
	struct spoor_kernel *kernel;   /* borrowed */
	struct spoor_objects *objects; /* borrowed; NULL: nothing is unwound */
	struct spoor_command command;
	char cmd_path[PATH_MAX];
	int signal_fd; /* to be polled */
	bool hurry;    /* what comes too late is lost: before others, after the command is forked */
	uint64_t began;
	long attached; /* threads that ran already and were taken in */
	bool stop;
	enum spoor_session_end end; /* why, once stop is set */
	int wait_status;            /* of the command, as wait(2) */
};

/* Are the targets and the privileges there? Initializes h. From here on a file that is too large is a failing write. */
int spoor_host_check(struct spoor_host *h, const struct spoor_targets *t, struct spoor_error *e);
/* From here on signals that end a collection (and `other`, if not 0) wait to be read. */
int spoor_host_block_signals(struct spoor_host *h, int other);
/* Loads the rows of what the targets map, forks the command, attaches. h->kernel is loaded. */
int spoor_host_attach(struct spoor_host *h, struct spoor_error *e);
/* Takes in what runs, gives up privileges, lets the command go. keep_admin: see spoor_privileges_drop(). */
int spoor_host_go(struct spoor_host *h, bool keep_admin, struct spoor_error *e);

/* Reads what signals there are. Returns whether `other` was among them. */
bool spoor_host_signals(struct spoor_host *h);
/* Are all that were named by pid, and what they bore, gone? Then the end has come. */
bool spoor_host_targets_gone(const struct spoor_host *h);
/* Ctrl-C on a terminal goes to the command too: where it ends of it, its end is what is told. */
void spoor_host_await_command(struct spoor_host *h);
void spoor_host_done(struct spoor_host *h);

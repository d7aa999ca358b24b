/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Whose event is this? A pid may be several processes one after another, and one process several programs. */
#include "trace/reader.h"

enum spoor_by { SPOOR_BY_PROCESS, SPOOR_BY_APP /* the program's name */, SPOOR_BY_ALL };

struct spoor_process {
	uint32_t pid;    /* of an application: of its first process */
	uint32_t gen;    /* which program of the process: execs before */
	uint64_t start;  /* ns; 0 unknown */
	char comm[16];   /* NUL-terminated, "" if unknown */
	unsigned n_pids; /* processes of an application */
};

struct spoor_processes;
int spoor_processes_new(enum spoor_by by, struct spoor_processes **ret);
void spoor_processes_free(struct spoor_processes *p);

/* Number (from 0) of the process or application that tid, a thread of pid, belonged to at ts; or -ENOMEM. */
int spoor_processes_of(struct spoor_processes *p, const struct spoor_segment *segment, uint32_t pid, uint32_t tid,
		       uint64_t ts);
size_t spoor_processes_count(const struct spoor_processes *p);
const struct spoor_process *spoor_processes_get(const struct spoor_processes *p, unsigned number);

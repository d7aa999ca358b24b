/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The matrix: per process or application, system call x call site of the application's own code. Events are counted
 * by (process, call, stack id), which costs one look into a hash table; only then is each distinct stack symbolized.
 * Where an application is several processes, stacks through code made at run time are of each of them: one address is
 * another function in each.
 *
 * The call site is the innermost frame of the application's own code (objects that were recorded as such).
 */
#include "analyze/processes.h"
#include "analyze/symbolize.h"

struct spoor_count {
	uint64_t calls; /* completed */
	uint64_t errors;
	uint64_t total, max; /* ns, completed calls */
	uint64_t unfinished; /* in flight at the end, or end lost */
	uint64_t so_far;     /* ns, of these */
};

struct spoor_cell {
	uint32_t process; /* its number */
	uint32_t stack;
	uint64_t call;                       /* spoor_call_key() */
	const struct spoor_segment *segment; /* in which the stack was first met */
	uint32_t pid;
	uint32_t whose;    /* 0: of the process in which the stack was first met, or of all; else its pid */
	uint8_t own_names; /* what its frames are called depends on the process */
	struct spoor_count count;
};

struct spoor_callsites;
int spoor_callsites_new(struct spoor_processes *processes, struct spoor_callsites **ret);
void spoor_callsites_free(struct spoor_callsites *c);
/* Counts a completed call, or a pending one that never ended and lasted so_far ns. */
int spoor_callsites_add(struct spoor_callsites *c, const struct spoor_event *ev, uint64_t so_far);
size_t spoor_callsites_cells(const struct spoor_callsites *c, const struct spoor_cell **ret);

/* Which call: event id, and beyond the table its number. */
static inline uint64_t spoor_call_key(unsigned id, uint32_t nr, unsigned i386)
{
	return id < SPOOR_SYSCALL_MAX ? id : (uint64_t)1 << 40 | (uint64_t) !!i386 << 32 | nr;
}
/* "openat", "openat (i386)", "syscall_999". */
void spoor_call_key_name(uint64_t key, char *buf, size_t size);

struct spoor_site {
	uint32_t process;
	uint64_t call;
	char *label; /* owned: what the site is called; not yet escaped */
	struct spoor_count count;
};
/*
 * The cells merged by site: of one process in a row, processes and sites with the most time first. free() each by
 * spoor_sites_free(). progress: called now and then with done and total stacks; may be NULL.
 */
int spoor_callsites_sites(const struct spoor_callsites *c, struct spoor_symbolizer *z,
			  void (*progress)(void *p, size_t done, size_t total), void *p, struct spoor_site **ret,
			  size_t *ret_n);
void spoor_sites_free(struct spoor_site *sites, size_t n);

/* The call site of a stack, as the matrix labels it. free() it; NULL: out of memory. */
char *spoor_site_label(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid, uint32_t stack);
/* All frames of a stack in one: "inner x.c:5 < outer x.c:9 < main x.c:20". The same of whose it is. */
char *spoor_chain_label(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid, uint32_t stack);
/* "complete", "budget", "no rows", ... */
const char *spoor_walk_status_name(unsigned status);
const char *spoor_walk_way_name(unsigned way);

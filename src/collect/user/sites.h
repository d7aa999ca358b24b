/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The sites of an ELF file: Spoor's own (include/spoor/site.h, found by the note), and those of <sys/sdt.h>. The file
 * may be anybody's: everything in it is checked and bounded. x86-64 only. Thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum spoor_site_kind { SPOOR_SITE_TRACEPOINT, SPOOR_SITE_MARKER, SPOOR_SITE_LOG, SPOOR_SITE_SDT };
enum spoor_site_state { SPOOR_SITE_UNKNOWN, SPOOR_SITE_OFF, SPOOR_SITE_ON };

/* How a site is switched. Of a file: as it was built to be. Of a process: what is in force there. */
enum spoor_site_way {
	SPOOR_SITE_PATCHED, /* its code is written */
	SPOOR_SITE_FLAG,    /* it asks a flag in memory */
	SPOOR_SITE_MEM,     /* its code is written, through /proc/self/mem, where a policy refuses any other way */
	SPOOR_SITE_REFUSED, /* not at all: its code cannot be written, and it asks no flag */
	SPOOR_SITE_ABSENT,  /* not at all: libspoor-ust is not in the process */
};

struct spoor_site_info {
	enum spoor_site_kind kind;
	const char *provider, *name;
	const char *fields; /* "s32 fd, string path"; of a marker its format; of an SDT probe its arguments' places */
	const char *file;   /* "": unknown */
	unsigned line;
	int level;           /* -1: none */
	uint64_t code;       /* ELF virtual address */
	uint64_t tracepoint; /* the same, of its struct spoor_tracepoint; 0: none */
	enum spoor_site_way way;
	enum spoor_site_state state;
	const char *channels; /* of a process: where its events are, "default,bulk"; NULL or "": nowhere */
	const char *object; /* path of the file */
};

typedef void (*spoor_site_fn)(void *ctx, const struct spoor_site_info *site);

/*
 * Calls each() for all sites. Returns how many; -ENOEXEC: no ELF file for x86-64, or not linked; -EBADMSG: its sites
 * make no sense.
 */
int spoor_sites_of_file(const char *path, spoor_site_fn each, void *ctx, struct spoor_error *e);
/* Of a process: of all files that it maps as code, with their states. -ESRCH, -EACCES. */
int spoor_sites_of_process(uint32_t pid, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e);
/* Has it libspoor-ust, linked or preloaded, shared or within another file? As far as we may read what it maps. */
bool spoor_sites_have_agent(uint32_t pid);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/jit_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/jit_map.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/time.h"
#include "object/made_code.h"

#define SLACK_NS SPOOR_NS_PER_SEC /* the kernel stamps files by a coarse clock, and clocks are adjusted */

struct spoor_jit_places spoor_jit_places(const char *folder, const struct spoor_trace_info *info)
{
	return (struct spoor_jit_places){ .folder = folder ?: "/tmp", .trace = spoor_trace_place(info) };
}

/* ---- a file ---- */

/* Ids in containers are few, and come again with each start of one: an older file is another process's. */
static bool is_too_old(const struct spoor_jit_places *places, const struct spoor_traced_process *o,
		       const struct stat *st)
{
	uint64_t written = (uint64_t)st->st_mtim.tv_sec * SPOOR_NS_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;

	return o->start && written + SLACK_NS < o->start + places->trace.epoch_offset;
}

/*
 * Whoever made it: names are all that it gives. root: O_PATH of the process's, beyond which no link in it leads; or
 * AT_FDCWD.
 */
static int open_map(int root, const char *path, const struct spoor_jit_places *places,
		    const struct spoor_traced_process *o)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
	_cleanup_(spoor_closep) int fd = -1;
	struct stat st;

	fd = root == AT_FDCWD ? open(path, flags) : spoor_open_in_root(root, path, flags);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SPOOR_JIT_MAP_MAX ||
	    is_too_old(places, o, &st))
		return -ENOENT;
	return TAKE_FD(fd);
}

/* ---- the process ---- */

/* What the innermost of its pid namespaces calls it; 0: unknown. */
static uint32_t inner_of(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[1024], *last;
	uint32_t inner = 0;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	f = fopen(path, "re");
	while (f && !inner && fgets(line, sizeof(line), f)) {
		last = strncmp(line, "NStgid:", 7) ? NULL : strrchr(line, '\t');
		inner = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
	}
	return inner;
}

/* The map in the root of the process that this namespace calls pid. -ESRCH: it is not the one, or its root not ours. */
static int open_inside(uint32_t pid, const struct spoor_jit_places *places, const struct spoor_traced_process *o,
		       char *path)
{
	_cleanup_(spoor_closep) int root = -1;
	uint32_t inner = inner_of(pid);
	int n;

	root = inner ? spoor_process_root(&places->trace, o, pid) : -ESRCH;
	if (root < 0)
		return -ESRCH;
	n = snprintf(path, SPOOR_JIT_PATH, "/proc/%u/root", pid);
	if (snprintf(path + n, (size_t)(SPOOR_JIT_PATH - n), "%s/perf-%u.map", places->folder, inner) >=
	    SPOOR_JIT_PATH - n)
		return -ENOENT;
	return open_map(root, path + n, places, o);
}

/* ---- strangers ---- */

static bool is_made_code(const char *mapping)
{
	char rights[8] = "";
	unsigned long inode = 1;
	int n = 0;

	if (sscanf(mapping, "%*x-%*x %7s %*x %*s %lu %n", rights, &inode, &n) != 2 || rights[2] != 'x')
		return false;
	return inode ? spoor_path_is_shared_memory(mapping + n) : !mapping[n] || !strncmp(mapping + n, "[anon", 5);
}

/* Does another process run here by this number, with code in it of which the map may be? */
static bool may_be_of_another(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[4608];

	if (!spoor_process_start(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/maps", spoor_process_thread(pid));
	f = fopen(path, "re");
	if (!f)
		return true;
	while (fgets(line, sizeof(line), f))
		if (is_made_code(line))
			return true;
	return ferror(f) != 0;
}

/* On another machine, and once this one was booted again, numbers are anybody's. */
static int open_by(uint32_t pid, const struct spoor_jit_places *places, const struct spoor_traced_process *o,
		   char *path)
{
	if (!places->trace.here ||
	    (o->start && !spoor_process_is(&places->trace, o, pid) && may_be_of_another(pid)))
		return -ENOENT;
	if (snprintf(path, SPOOR_JIT_PATH, "%s/perf-%u.map", places->folder, pid) >= SPOOR_JIT_PATH)
		return -ENOENT;
	return open_map(AT_FDCWD, path, places, o);
}

int spoor_jit_open(const struct spoor_jit_places *places, const struct spoor_traced_process *o,
		   char ret_path[static SPOOR_JIT_PATH])
{
	int inside = open_inside(o->pid, places, o, ret_path), fd;
	bool other = o->inner && o->inner != o->pid;

	if (inside == -ESRCH && other)
		inside = open_inside(o->inner, places, o, ret_path); /* we are in its container */
	if (inside >= 0)
		return inside;
	fd = open_by(o->pid, places, o, ret_path);
	if (fd >= 0 || inside != -ESRCH || !other || !o->start)
		return fd;
	return open_by(o->inner, places, o, ret_path);
}

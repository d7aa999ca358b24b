/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/mapped_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "object/regular_file.h"

/* 0: not known. */
static long file_system_of(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) ? 0 : fs.f_type;
}

/*
 * By its ctime only where a name led to it: it was met a moment ago, so what changed it since may have written other
 * content over it. The mapping leads to it also when it was renamed or removed, which changes that, too.
 */
static bool has_the_numbers(int fd, const struct spoor_mapped_file *m, bool by_name)
{
	const long fs = file_system_of(fd);
	const bool overlay = fs == OVERLAYFS_SUPER_MAGIC; /* it has other numbers than the mapped file */
	const bool known = m->size || m->mtime;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	if (st.st_ino != m->ino && !(known && overlay))
		return false;
	if (m->dev && m->dev != spoor_kernel_dev(st.st_dev) && !overlay &&
	    fs != BTRFS_SUPER_MAGIC) /* whose subvolumes show numbers of their own */
		return false;
	if (by_name && m->ctime && spoor_ns(st.st_ctim) != m->ctime)
		return false;
	return !known || ((uint64_t)st.st_size == m->size && spoor_ns(st.st_mtim) == m->mtime);
}

static bool is_the_file(int fd, const struct spoor_mapped_file *m, bool by_name)
{
	int r = m->is_it ? m->is_it(m->ctx, fd, by_name) : -ENOSYS;

	return r < 0 ? has_the_numbers(fd, m, by_name) : r;
}

static int open_checked(const char *path, const struct spoor_mapped_file *m, bool by_name)
{
	_cleanup_(spoor_closep) int fd = spoor_open_regular(path);

	if (fd == -ETIMEDOUT || fd == -EACCES)
		return fd;
	return fd >= 0 && is_the_file(fd, m, by_name) ? TAKE_FD(fd) : -ENOENT;
}

/* Or may another way lead to it? */
static bool is_settled(int fd)
{
	return fd >= 0 || fd == -ETIMEDOUT;
}

static int open_if_same(const char *path, const struct spoor_mapped_file *m)
{
	return open_checked(path, m, true);
}

static int open_through(uint32_t id, const struct spoor_mapped_file *m)
{
	char path[4400];
	int fd = -ENOENT;

	if (m->end) {
		snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, id, m->start, m->end);
		fd = open_checked(path, m, false);
	}
	if (is_settled(fd))
		return fd;
	snprintf(path, sizeof(path), "/proc/%u/root/%s", id, m->path);
	return open_if_same(path, m);
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* A field of /proc/PID/mountinfo: blanks, tabs, newlines and backslashes are \ooo there. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; to++) {
		if (*at == '\\' && is_octal(at[1]) && is_octal(at[2]) && is_octal(at[3])) {
			*to = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			at += 4;
		} else {
			*to = *at++;
		}
	}
	*to = '\0';
}

/* What is left of `place` below `root`, "" if that is itself (a file can be mounted, too); NULL: it is not below it. */
static const char *below(const char *place, const char *root)
{
	size_t n = strcmp(root, "/") ? strlen(root) : 0;

	return !strncmp(place, root, n) && (place[n] == '/' || !place[n]) ? place + n : NULL;
}

#define PATH_ROOM (2 * PATH_MAX)
#define SELF "/proc/self"

/* Through the mounts of its file system in a directory of /proc: by which path. */
static int open_by_mounts(const char *process, const struct spoor_mapped_file *m, char path[PATH_ROOM])
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	_cleanup_(spoor_freep) char *line = NULL;
	unsigned major_number, minor_number;
	size_t room = 0;
	int fd = -ENOENT;

	snprintf(path, PATH_ROOM, "%s/mountinfo", process);
	f = fopen(path, "re");
	while (f && !is_settled(fd) && getline(&line, &room, f) > 0) {
		_cleanup_(spoor_freep) char *root = NULL, *point = NULL;
		const char *rest;

		if (sscanf(line, "%*d %*d %u:%u %ms %ms", &major_number, &minor_number, &root, &point) != 4 ||
		    ((uint64_t)major_number << 20 | minor_number) != m->dev)
			continue;
		unescape(root);
		unescape(point);
		rest = below(m->place, root);
		if (!rest)
			continue;
		snprintf(path, PATH_ROOM, "%s/root%s%s", process, strcmp(point, "/") ? point : "", rest);
		fd = open_if_same(path, m);
	}
	return fd;
}

static bool is_in(const char *process, uint32_t mounts)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/ns/mnt", process);
	return !stat(path, &st) && st.st_ino == mounts;
}

/* Through any mount that we have, be it another than the process's; then through others in its mount namespace. */
static int open_in_file_system(const struct spoor_mapped_file *m, char path[PATH_ROOM])
{
	_cleanup_(spoor_closedirp) DIR *all = NULL;
	struct dirent *d;
	char process[32];
	int fd;

	if (!m->place || !*m->place)
		return -ENOENT;
	fd = open_by_mounts(SELF, m, path);
	if (fd >= 0)
		memmove(path, path + strlen(SELF "/root"), strlen(path + strlen(SELF "/root")) + 1);
	all = is_settled(fd) || !m->mounts || is_in(SELF, m->mounts) ? NULL : opendir("/proc");
	while (all && !is_settled(fd) && (d = readdir(all))) {
		snprintf(process, sizeof(process), "/proc/%.16s", d->d_name);
		if (isdigit(d->d_name[0]) && is_in(process, m->mounts))
			fd = open_by_mounts(process, m, path);
	}
	return fd;
}

/*
 * The mapping itself leads to the file even if it was deleted or lies in another mount namespace, as long as the
 * process lives; then its path as the process saw it; the same by the thread, since a leader that has ended shows
 * neither; then the path as we see it. Once it has ended, its place in its file system, wherever that is mounted.
 */
int spoor_mapped_file_open(const struct spoor_mapped_file *m)
{
	char path[PATH_ROOM];
	int fd = m->pid ? open_through(m->pid, m) : -ENOENT, by_path;

	if (!is_settled(fd) && m->tid && m->tid != m->pid)
		fd = open_through(m->tid, m);
	if (is_settled(fd))
		return fd;
	by_path = open_if_same(m->path, m);
	if (is_settled(by_path))
		return by_path;
	fd = open_in_file_system(m, path);
	return fd == -ENOENT ? by_path : fd;
}

/* Which costs less than to open the file once more, while its rows are waited for. */
static bool sees_paths_as_we_do(const struct spoor_mapped_file *m)
{
	char path[64], root[2];

	snprintf(path, sizeof(path), "/proc/%u/root", m->pid);
	return readlink(path, root, sizeof(root)) == 1 && is_in(SELF, m->mounts);
}

char *spoor_mapped_file_elsewhere(const struct spoor_mapped_file *m)
{
	_cleanup_(spoor_closep) int own = -1, fd = -1;
	char path[PATH_ROOM];

	if (sees_paths_as_we_do(m))
		return NULL;
	own = open_if_same(m->path, m);
	if (own < 0)
		fd = open_in_file_system(m, path);
	return fd >= 0 ? strdup(path) : NULL;
}

int spoor_mapped_file_at(uint32_t pid, uint64_t address, struct spoor_mapped_file *ret)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	_cleanup_(spoor_freep) char *line = NULL;
	size_t room = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (getline(&line, &room, f) > 0) {
		uint64_t start, end, ino;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &start, &end, &ino) != 3 ||
		    address < start || address >= end)
			continue;
		ret->start = start;
		ret->end = end;
		ret->ino = ino;
		return 0;
	}
	return -ENOENT;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/row_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"

#define NAME_SIZE 48

static bool ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int spoor_row_cache_open(const char *dir, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct stat st;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return spoor_fail(e, errno, "cannot make cache directory %s: %s", dir, strerror(errno));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return spoor_fail(e, errno, "cannot open cache directory %s: %s", dir, strerror(errno));
	if (!ours(&st))
		return spoor_fail(e, EPERM, "cache directory %s can be written by others; use one of your own", dir);
	return TAKE_FD(fd);
}

static void name_of(const struct spoor_object_identity *id, char *ret)
{
	snprintf(ret, NAME_SIZE, "%016llx%016llx", (unsigned long long)id->hash[1], (unsigned long long)id->hash[0]);
}

static int read_whole(int fd, void *buf, size_t size)
{
	size_t done = 0;
	ssize_t n;

	while (done < size) {
		n = pread(fd, (char *)buf + done, size - done, done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		done += n;
	}
	return 0;
}

int spoor_row_cache_get(int dir, const struct spoor_object_identity *id, struct spoor_rows *ret)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct spoor_rows rows;
	char name[NAME_SIZE];
	struct stat st;
	void *mem;
	int r;

	name_of(id, name);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !ours(&st))
		return -ENOENT;
	if (st.st_size < (off_t)sizeof(struct spoor_row_file) || st.st_size > SPOOR_ROW_FILE_MAX_SIZE)
		return -ENOENT;
	/* Read, not mapped: the file may be cut short under us. */
	mem = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mem == MAP_FAILED)
		return -ENOENT;
	if (read_whole(fd, mem, st.st_size) < 0 ||
	    ((struct spoor_row_file *)mem)->checksum != spoor_row_file_checksum(mem, st.st_size) ||
	    spoor_row_file_open(mem, st.st_size, &rows) < 0) {
		munmap(mem, st.st_size);
		return -ENOENT;
	}
	r = spoor_row_file_answer(&rows, id);
	if (r == 0)
		*ret = rows;
	else
		spoor_rows_free(&rows);
	return r == -ESTALE ? -ENOENT : r;
}

/* A file without a name where the file system has such; else one with a name of its own. */
static int create(int dir, const char *name, bool *ret_named)
{
	int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	*ret_named = false;
	if (fd >= 0)
		return fd;
	fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	*ret_named = fd >= 0;
	return fd < 0 ? -errno : fd;
}

static int give_name(int dir, int fd, const char *name)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int spoor_row_cache_put(int dir, const struct spoor_object_identity *id, const void *file, size_t size)
{
	_cleanup_(spoor_closep) int fd = -1;
	char name[NAME_SIZE], temporary[NAME_SIZE + 16];
	bool named;
	int r;

	name_of(id, name);
	snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid());
	fd = create(dir, temporary, &named);
	if (fd < 0)
		return fd;
	r = spoor_write_whole(fd, file, size);
	if (r == 0 && !named) {
		r = give_name(dir, fd, temporary);
		named = r == 0;
	}
	if (r == 0 && renameat(dir, temporary, dir, name) < 0)
		r = -errno;
	if (r < 0 && named)
		unlinkat(dir, temporary, 0);
	return r;
}

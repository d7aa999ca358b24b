/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots of a trace being written: closed segments never change, so hard links to them are a copy that costs nothing
 * and outlives their removal by --max-size.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "trace/writer_internal.h"

struct snapshot {
	const char *path;
	int root_fd, host_fd, part_fd;
	int first_fd; /* its first segment: -1 until that has metadata */
	unsigned n;   /* segments begun */
};

static void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int make_dir(int at, const char *name)
{
	return mkdirat(at, name, 0700) < 0 ? -errno : open_dir(at, name);
}

static int write_whole(int fd, const char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf += n;
		len -= n;
	}
	return 0;
}

static int copy_file(int from_dir, int to_dir, const char *name)
{
	_cleanup_(spoor_closep) int from = openat(from_dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(spoor_closep) int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	_cleanup_(spoor_freep) char *buf = malloc(1 << 20);

	if (!buf)
		return -ENOMEM;
	if (from < 0 || to < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(from, buf, 1 << 20);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = write_whole(to, buf, n);
		if (r < 0)
			return r;
	}
}

/* Another file system, one without hard links, or one that has enough of them. */
static int link_or_copy(int from_dir, int to_dir, const char *name)
{
	if (linkat(from_dir, name, to_dir, name, 0) == 0)
		return 0;
	if (errno != EXDEV && errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK)
		return -errno;
	return copy_file(from_dir, to_dir, name);
}

static int take_files(int from, int to)
{
	_cleanup_(closedirp) DIR *d = NULL;
	int fd = dup(from), r = 0;

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (;;) {
		struct dirent *de;
		struct stat st;

		errno = 0;
		de = readdir(d);
		if (!de)
			return -errno;
		if (fstatat(from, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!S_ISREG(st.st_mode) || !strcmp(de->d_name, "metadata"))
			continue;
		r = link_or_copy(from, to, de->d_name);
		if (r < 0)
			return r;
	}
}

/* Where the first segment's had to be copied, the others share the copy. */
static int take_metadata(struct snapshot *s, int from, int to)
{
	int r;

	if (s->first_fd >= 0 && linkat(s->first_fd, "metadata", to, "metadata", 0) == 0)
		return 0;
	r = link_or_copy(from, to, "metadata");
	if (r >= 0 && s->first_fd < 0)
		s->first_fd = dup(to);
	return r;
}

/* Its metadata comes last, so that no reader of CTF takes half a segment for a trace. */
static int take_segment(const struct spoor_writer *w, struct snapshot *s, unsigned number)
{
	_cleanup_(spoor_closep) int from = -1, to = -1;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "seg-%06u", number);
	from = open_dir(w->part_fd, name);
	if (from < 0)
		return from;
	to = make_dir(s->part_fd, name);
	if (to < 0)
		return to;
	s->n++;
	r = take_files(from, to);
	return r < 0 ? r : take_metadata(s, from, to);
}

static int take(struct spoor_writer *w, struct snapshot *s)
{
	int r;

	/* As a writer's: who opens it now is told that it is being written. */
	if (flock(s->root_fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	s->host_fd = make_dir(s->root_fd, w->host_dir);
	if (s->host_fd < 0)
		return s->host_fd;
	s->part_fd = make_dir(s->host_fd, "kernel");
	if (s->part_fd < 0)
		return s->part_fd;
	for (unsigned i = 0; i < w->n_closed; i++) {
		r = take_segment(w, s, w->closed[i].number);
		if (r < 0)
			return r;
	}
	return spoor_manifest_write_snapshot(w, s->root_fd);
}

static void undo(const struct spoor_writer *w, const struct snapshot *s)
{
	for (unsigned i = 0; i <= s->n && i < w->n_closed; i++)
		spoor_segment_remove(s->part_fd, w->closed[i].number);
	unlinkat(s->host_fd, "kernel", AT_REMOVEDIR);
	unlinkat(s->root_fd, w->host_dir, AT_REMOVEDIR);
	rmdir(s->path);
}

int spoor_writer_snapshot(struct spoor_writer *w, const char *path, struct spoor_error *e)
{
	struct snapshot s = { .path = path, .root_fd = -1, .host_fd = -1, .part_fd = -1, .first_fd = -1 };
	int r;

	if (!w->n_closed)
		return spoor_fail(e, ENODATA, "%s: no snapshot: no segment is closed yet", path);
	if (mkdir(path, 0700) < 0)
		return spoor_fail(e, errno, "%s: cannot create the snapshot: %m", path);
	s.root_fd = open_dir(AT_FDCWD, path);
	r = s.root_fd < 0 ? s.root_fd : take(w, &s);
	if (r < 0) {
		undo(w, &s);
		spoor_fail(e, -r, "%s: no snapshot: %s", path, strerror(-r));
	}
	spoor_closep(&s.first_fd);
	spoor_closep(&s.part_fd);
	spoor_closep(&s.host_fd);
	spoor_closep(&s.root_fd);
	return r;
}

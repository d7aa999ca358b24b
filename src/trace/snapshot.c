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
#include "base/file.h"
#include "trace/writer_internal.h"

struct snapshot {
	const char *path;
	int root_fd, host_fd;
	struct snapshot_part {
		int fd;
		int last_fd; /* of the segment before: -1 until there is one */
		unsigned n;  /* segments begun */
	} parts[SPOOR_MAX_PARTS];
};

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int make_dir(int at, const char *name)
{
	return mkdirat(at, name, 0700) < 0 ? -errno : open_dir(at, name);
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
		r = spoor_write_whole(to, buf, n);
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
	_cleanup_(spoor_closedirp) DIR *d = NULL;
	int fd = fcntl(from, F_DUPFD_CLOEXEC, 0), r = 0;

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

static off_t metadata_size(int dir_fd)
{
	struct stat st;

	return fstatat(dir_fd, "metadata", &st, AT_SYMLINK_NOFOLLOW) < 0 ? -1 : st.st_size;
}

/*
 * Where the last segment's had to be copied, those of the same text share the copy: it only grows, so of one size is
 * one text.
 */
static int take_metadata(struct snapshot_part *p, int from, int to)
{
	int r;

	if (p->last_fd >= 0 && metadata_size(p->last_fd) == metadata_size(from) &&
	    linkat(p->last_fd, "metadata", to, "metadata", 0) == 0)
		return 0;
	r = link_or_copy(from, to, "metadata");
	if (r < 0)
		return r;
	spoor_closep(&p->last_fd);
	p->last_fd = fcntl(to, F_DUPFD_CLOEXEC, 0);
	return 0;
}

/* Its metadata comes last, so that no reader of CTF takes half a segment for a trace. */
static int take_segment(const struct writer_part *part, struct snapshot_part *p, unsigned number)
{
	_cleanup_(spoor_closep) int from = -1, to = -1;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "seg-%06u", number);
	from = open_dir(part->fd, name);
	if (from < 0)
		return from;
	to = make_dir(p->fd, name);
	if (to < 0)
		return to;
	p->n++;
	r = take_files(from, to);
	return r < 0 ? r : take_metadata(p, from, to);
}

static int take_part(const struct spoor_writer *w, struct snapshot *s, unsigned i)
{
	const struct writer_part *part = &w->parts[i];
	struct snapshot_part *p = &s->parts[i];
	int r = 0;

	p->fd = make_dir(s->host_fd, part->type);
	if (p->fd < 0)
		return p->fd;
	for (unsigned k = 0; r >= 0 && k < w->n_closed; k++)
		r = take_segment(part, p, part->closed[k].number);
	return r;
}

static int take(struct spoor_writer *w, struct snapshot *s)
{
	int r = 0;

	/* As a writer's: who opens it now is told that it is being written. */
	if (flock(s->root_fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	s->host_fd = make_dir(s->root_fd, w->host_dir);
	if (s->host_fd < 0)
		return s->host_fd;
	for (unsigned i = 0; r >= 0 && i < w->n_parts; i++)
		r = take_part(w, s, i);
	return r < 0 ? r : spoor_manifest_write_snapshot(w, s->root_fd);
}

static void undo(const struct spoor_writer *w, const struct snapshot *s)
{
	for (unsigned i = 0; i < w->n_parts; i++) {
		const struct writer_part *part = &w->parts[i];
		const struct snapshot_part *p = &s->parts[i];

		if (p->fd < 0)
			continue;
		for (unsigned k = 0; k <= p->n && k < w->n_closed; k++)
			spoor_segment_remove(p->fd, part->closed[k].number);
		unlinkat(s->host_fd, part->type, AT_REMOVEDIR);
	}
	unlinkat(s->root_fd, w->host_dir, AT_REMOVEDIR);
	rmdir(s->path);
}

int spoor_writer_snapshot(struct spoor_writer *w, const char *path, struct spoor_error *e)
{
	struct snapshot s = { .path = path, .root_fd = -1, .host_fd = -1 };
	int r;

	for (unsigned i = 0; i < SPOOR_MAX_PARTS; i++)
		s.parts[i] = (struct snapshot_part){ .fd = -1, .last_fd = -1 };
	if (w->o.store)
		return spoor_fail(e, EOPNOTSUPP, "%s: no snapshot: the trace is at a relay; only a flight recorder's "
				  "(--mode overwrite) can be taken there", path);
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
	for (unsigned i = 0; i < SPOOR_MAX_PARTS; i++) {
		spoor_closep(&s.parts[i].last_fd);
		spoor_closep(&s.parts[i].fd);
	}
	spoor_closep(&s.host_fd);
	spoor_closep(&s.root_fd);
	return r;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/replica.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/writer_internal.h"

#define MOST_OPEN 160 /* streams' files; two segments of 64 lanes and definitions */
#define MOST_SEGMENT 1000000
#define MOST_METADATA (64ULL << 20)
#define MOST_MANIFEST (64ULL << 20)
#define MOST_FILE (1ULL << 50)

struct open_file {
	unsigned part, segment, instance;
	int fd;
	uint64_t size, used; /* used: a clock */
};

struct spoor_replica {
	int root_fd, parts[SPOOR_REPLICA_PARTS];
	struct open_file files[MOST_OPEN];
	unsigned n_files;
	uint64_t clock;
};

/* ---- opening ---- */

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int make_dir(int at, const char *name)
{
	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return open_dir(at, name);
}

static int open_parts(struct spoor_replica *r, const char *host, unsigned parts)
{
	static const char *const names[SPOOR_REPLICA_PARTS] = { "kernel", "ust" };
	_cleanup_(spoor_closep) int host_fd = make_dir(r->root_fd, host);

	if (host_fd < 0)
		return host_fd;
	for (unsigned i = 0; i < SPOOR_REPLICA_PARTS; i++) {
		if (!(parts & 1u << i))
			continue;
		r->parts[i] = make_dir(host_fd, names[i]);
		if (r->parts[i] < 0)
			return r->parts[i];
	}
	return 0;
}

int spoor_replica_open(int at, const char *name, const char *host, unsigned parts, struct spoor_replica **ret)
{
	struct spoor_replica *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->parts[0] = r->parts[1] = -1;
	r->root_fd = err = make_dir(at, name);
	if (err >= 0)
		err = spoor_trace_lock(r->root_fd);
	if (err >= 0)
		err = open_parts(r, host, parts);
	if (err < 0) {
		spoor_replica_close(r);
		return err;
	}
	*ret = r;
	return 0;
}

void spoor_replica_close(struct spoor_replica *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->n_files; i++)
		close(r->files[i].fd);
	spoor_closep(&r->parts[0]);
	spoor_closep(&r->parts[1]);
	spoor_closep(&r->root_fd);
	free(r);
}

int spoor_replica_fd(const struct spoor_replica *r)
{
	return r->root_fd;
}

/* ---- segments ---- */

static int check(const struct spoor_replica *r, unsigned part, unsigned segment)
{
	struct stat st;

	if (part >= SPOOR_REPLICA_PARTS || r->parts[part] < 0 || !segment || segment > MOST_SEGMENT)
		return -EBADMSG;
	return fstat(r->parts[part], &st) < 0 || !st.st_nlink ? -ENOENT : 0;
}

/* As readers see it, or hidden still. -ENOENT: there is none any more, or not yet. */
static int open_segment(const struct spoor_replica *r, unsigned part, unsigned segment)
{
	char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];
	int fd;

	spoor_segment_names(segment, name, hidden);
	fd = open_dir(r->parts[part], name);
	return fd == -ENOENT ? open_dir(r->parts[part], hidden) : fd;
}

int spoor_replica_segment(struct spoor_replica *r, unsigned part, unsigned segment)
{
	char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];
	_cleanup_(spoor_closep) int fd = -1;
	int err = check(r, part, segment);

	if (err)
		return err;
	spoor_segment_names(segment, name, hidden);
	fd = open_segment(r, part, segment);
	if (fd >= 0)
		return 0;
	return mkdirat(r->parts[part], hidden, 0700) < 0 ? -errno : 0;
}

int spoor_replica_ready(struct spoor_replica *r, unsigned part, unsigned segment)
{
	char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];
	struct stat st;
	int err = check(r, part, segment);

	if (err)
		return err;
	spoor_segment_names(segment, name, hidden);
	if (!fstatat(r->parts[part], name, &st, AT_SYMLINK_NOFOLLOW))
		return 0; /* repeated */
	return renameat(r->parts[part], hidden, r->parts[part], name) < 0 && errno != ENOENT ? -errno : 0;
}

static void forget_segment(struct spoor_replica *r, unsigned part, unsigned segment)
{
	for (unsigned i = 0; i < r->n_files;) {
		struct open_file *f = &r->files[i];

		if (f->part != part || f->segment != segment) {
			i++;
			continue;
		}
		close(f->fd);
		*f = r->files[--r->n_files];
	}
}

int spoor_replica_drop(struct spoor_replica *r, unsigned part, unsigned segment)
{
	int err = check(r, part, segment);

	if (err)
		return err;
	forget_segment(r, part, segment);
	spoor_segment_remove(r->parts[part], segment);
	return 0;
}

/* ---- bytes ---- */

/* At an offset that the file has reached; a failure leaves it as long as it was. */
static int put(int fd, uint64_t size, uint64_t offset, const void *data, size_t len, uint64_t most)
{
	const uint8_t *from = data;

	if (offset > size || offset > most || len > most - offset)
		return -EBADMSG;
	while (len > 0) {
		ssize_t n = pwrite(fd, from, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int err = n < 0 ? errno : EIO;

			/* What was there stays. If even this fails, the rest comes again, to the same place. */
			if (ftruncate(fd, (off_t)size) < 0)
				return -err;
			return -err;
		}
		from += n;
		len -= n;
		offset += n;
	}
	return 0;
}

static int put_file(int dir_fd, const char *name, uint64_t offset, const void *data, size_t len, uint64_t most)
{
	_cleanup_(spoor_closep) int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return put(fd, st.st_size, offset, data, len, most);
}

int spoor_replica_metadata(struct spoor_replica *r, unsigned part, unsigned segment, uint64_t offset, const void *text,
			   size_t len)
{
	_cleanup_(spoor_closep) int dir_fd = -1, fd = -1;
	int err = check(r, part, segment);

	if (err)
		return err;
	dir_fd = open_segment(r, part, segment);
	if (dir_fd == -ENOENT)
		return 0; /* repeated, and dropped meanwhile */
	if (dir_fd < 0)
		return dir_fd;
	err = put_file(dir_fd, "metadata", offset, text, len, MOST_METADATA);
	if (err || len)
		return err;
	fd = openat(dir_fd, "metadata", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 || ftruncate(fd, (off_t)offset) < 0 ? -errno : 0;
}

static int check_instance(unsigned part, unsigned segment, unsigned instance)
{
	if (instance >= SPOOR_INSTANCE_DEFS(0))
		return instance == SPOOR_INSTANCE_DEFS(segment) ? 0 : -EBADMSG;
	if (part == SPOOR_STREAM_UST)
		return instance < SPOOR_MAX_LANES ? 0 : -EBADMSG;
	return instance < SPOOR_INSTANCE_LEVEL * SPOOR_MAX_LEVELS ? 0 : -EBADMSG;
}

/* The one that was used longest ago makes room. */
static struct open_file *free_slot(struct spoor_replica *r)
{
	struct open_file *oldest = &r->files[0];

	if (r->n_files < MOST_OPEN)
		return &r->files[r->n_files++];
	for (unsigned i = 1; i < r->n_files; i++)
		if (r->files[i].used < oldest->used)
			oldest = &r->files[i];
	close(oldest->fd);
	return oldest;
}

static int open_file(struct spoor_replica *r, unsigned part, unsigned segment, unsigned instance,
		     struct open_file **ret)
{
	_cleanup_(spoor_closep) int dir_fd = -1, fd = -1;
	char name[32];
	struct stat st;

	for (unsigned i = 0; i < r->n_files; i++)
		if (r->files[i].part == part && r->files[i].segment == segment && r->files[i].instance == instance) {
			*ret = &r->files[i];
			return 0;
		}
	dir_fd = open_segment(r, part, segment);
	if (dir_fd < 0)
		return dir_fd;
	spoor_instance_name(part, instance, name, sizeof(name));
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret = free_slot(r);
	**ret = (struct open_file){ part, segment, instance, TAKE_FD(fd), st.st_size, 0 };
	return 0;
}

int spoor_replica_data(struct spoor_replica *r, unsigned part, unsigned segment, unsigned instance, uint64_t offset,
		       const void *data, size_t len)
{
	struct open_file *f = NULL;
	int err = check(r, part, segment);

	if (!err)
		err = check_instance(part, segment, instance);
	if (err)
		return err;
	err = open_file(r, part, segment, instance, &f);
	if (err == -ENOENT)
		return 0; /* repeated, and dropped meanwhile */
	if (err || !f)
		return err;
	f->used = ++r->clock;
	err = put(f->fd, f->size, offset, data, len, MOST_FILE);
	if (err)
		return err;
	if (offset + len > f->size)
		f->size = offset + len;
	return 0;
}

int spoor_replica_manifest(struct spoor_replica *r, uint64_t offset, int last, const void *text, size_t len)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct stat st;
	int err;

	if (fstat(r->root_fd, &st) < 0 || !st.st_nlink)
		return -ENOENT;
	if (!offset && unlinkat(r->root_fd, "manifest.new", 0) < 0 && errno != ENOENT)
		return -errno;
	if (offset && fstatat(r->root_fd, "manifest.new", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* repeated: it has its name already */
	err = put_file(r->root_fd, "manifest.new", offset, text, len, MOST_MANIFEST);
	if (err || !last)
		return err;
	return renameat(r->root_fd, "manifest.new", r->root_fd, "manifest") < 0 ? -errno : 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening and closing a trace that is written: its directories, and whose and of when it is. */
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/writer_internal.h"

/* CLOCK_REALTIME - CLOCK_MONOTONIC: of several tries the one least disturbed. */
static uint64_t epoch_offset(void)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < 16; i++) {
		struct timespec a, b, c;
		uint64_t m1, m2, real;

		clock_gettime(CLOCK_MONOTONIC, &a);
		clock_gettime(CLOCK_REALTIME, &b);
		clock_gettime(CLOCK_MONOTONIC, &c);
		m1 = a.tv_sec * 1000000000ULL + a.tv_nsec;
		m2 = c.tv_sec * 1000000000ULL + c.tv_nsec;
		real = b.tv_sec * 1000000000ULL + b.tv_nsec;
		if (m2 - m1 >= best)
			continue;
		best = m2 - m1;
		offset = real - (m1 + best / 2);
	}
	return offset;
}

static void read_boot_id(uint8_t *ret)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "";
	int n = 0;

	if (!f || !fgets(text, sizeof(text), f))
		return;
	for (const char *p = text; *p && n < 32; p++) {
		int v = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;

		if (v < 0)
			continue;
		ret[n / 2] |= n % 2 ? v : v << 4;
		n++;
	}
}

static int identify(struct spoor_writer *w)
{
	struct utsname u;

	if (getrandom(w->uuid, sizeof(w->uuid), 0) != sizeof(w->uuid))
		return -EIO;
	w->uuid[6] = (w->uuid[6] & 0x0f) | 0x40; /* RFC 4122 version 4 */
	w->uuid[8] = (w->uuid[8] & 0x3f) | 0x80;
	read_boot_id(w->boot_id);
	w->epoch_offset = epoch_offset();
	if (uname(&u) < 0)
		return -errno;
	snprintf(w->hostname, sizeof(w->hostname), "%s", u.nodename[0] ? u.nodename : "localhost");
	memcpy(w->host_dir, w->hostname, sizeof(w->host_dir));
	for (char *p = w->host_dir; *p; p++)
		if (*p == '/' || *p <= ' ' || *p > '~' || (p == w->host_dir && *p == '.'))
			*p = '_';
	snprintf(w->release, sizeof(w->release), "%s", u.release);
	snprintf(w->machine, sizeof(w->machine), "%s", u.machine);
	return 0;
}

static int make_dir(int at, const char *name, int *ret_fd)
{
	int fd;

	if (mkdirat(at, name, 0700) < 0)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		int err = errno;

		unlinkat(at, name, AT_REMOVEDIR);
		return -err;
	}
	*ret_fd = fd;
	return 0;
}

/* Nothing could be recorded: the next try may use the name. */
static void remove_beginning(struct spoor_writer *w)
{
	char part[80];

	if (w->root_fd < 0)
		return; /* it is not ours */
	if (w->part_fd >= 0)
		spoor_segment_remove(w->part_fd, 1);
	snprintf(part, sizeof(part), "%s/kernel", w->host_dir);
	unlinkat(w->root_fd, part, AT_REMOVEDIR);
	unlinkat(w->root_fd, w->host_dir, AT_REMOVEDIR);
	unlinkat(w->root_fd, "manifest", 0);
	rmdir(w->path);
}

static int make_dirs(struct spoor_writer *w, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int host_fd = -1;
	int r;

	r = make_dir(AT_FDCWD, w->path, &w->root_fd);
	if (r == -EEXIST)
		return spoor_fail(e, EEXIST, "%s: exists already; choose another name with -o", w->path);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot create: %s", w->path, strerror(-r));
	/* Held while we live: a reader knows by it that the trace is still being written. */
	if (flock(w->root_fd, LOCK_EX | LOCK_NB) < 0)
		return spoor_fail(e, errno, "%s: cannot lock: %m", w->path);
	r = make_dir(w->root_fd, w->host_dir, &host_fd);
	if (r >= 0)
		r = make_dir(host_fd, "kernel", &w->part_fd);
	return r < 0 ? spoor_fail(e, -r, "%s: cannot create its directories: %s", w->path, strerror(-r)) : 0;
}

static void init_stream(struct writer_stream *s, unsigned cpu, unsigned level, unsigned instance)
{
	*s = (struct writer_stream){ .fd = -1, .cpu = cpu, .level = level, .instance = instance };
}

static void writer_free(struct spoor_writer *w)
{
	for (unsigned i = 0; i < w->n_streams; i++)
		spoor_stream_leave(&w->streams[i]);
	spoor_stream_leave(&w->defs[0]);
	spoor_stream_leave(&w->defs[1]);
	spoor_segment_free(w->previous);
	spoor_segment_free(w->current);
	spoor_closep(&w->part_fd);
	spoor_closep(&w->root_fd);
	spoor_closep(&w->reserve_fd);
	json_decref(w->clocks);
	json_decref(w->counters);
	free(w->streams);
	free(w->closed);
	free(w->metadata);
	free(w->path);
	free(w->command);
	free(w->mode);
	free(w);
}

static void writer_freep(struct spoor_writer **w)
{
	if (*w)
		writer_free(*w);
}

static int allocate(struct spoor_writer *w, const struct spoor_writer_options *o)
{
	w->o = *o;
	if (o->max_size && !o->segment_size)
		w->o.segment_size = o->max_size / 8; /* else nothing could ever be dropped */
	w->path = strdup(o->path);
	w->command = strdup(o->command ? o->command : "");
	w->mode = strdup(o->mode ? o->mode : "");
	w->streams = calloc((size_t)o->n_cpus * SPOOR_MAX_LEVELS, sizeof(*w->streams));
	if (!w->path || !w->command || !w->mode || !w->streams)
		return -ENOMEM;
	w->n_streams = o->n_cpus * SPOOR_MAX_LEVELS;
	for (unsigned i = 0; i < w->n_streams; i++) {
		unsigned cpu = i / SPOOR_MAX_LEVELS, level = i % SPOOR_MAX_LEVELS;

		init_stream(&w->streams[i], cpu, level, cpu + level * SPOOR_INSTANCE_LEVEL);
	}
	for (unsigned i = 0; i < 2; i++)
		init_stream(&w->defs[i], 0, 0, SPOOR_INSTANCE_DEFS(i));
	return 0;
}

int spoor_writer_open(const struct spoor_writer_options *o, struct spoor_writer **ret, struct spoor_error *e)
{
	_cleanup_(writer_freep) struct spoor_writer *w = NULL;
	int r;

	if (!o->path || !o->n_cpus || o->n_cpus > SPOOR_MAX_CPUS)
		return spoor_fail(e, EINVAL, "a trace needs a path and 1 to %d CPUs", SPOOR_MAX_CPUS);
	w = calloc(1, sizeof(*w));
	if (!w)
		return spoor_fail(e, ENOMEM, "%s: out of memory", o->path);
	w->root_fd = w->part_fd = w->reserve_fd = -1;
	w->defs[0].fd = w->defs[1].fd = -1;
	r = allocate(w, o);
	if (r >= 0)
		r = identify(w);
	if (r >= 0)
		r = spoor_schema_metadata(&(struct spoor_metadata){ w->uuid, w->boot_id, w->epoch_offset, w->hostname,
								    w->release, "kernel" },
					  &w->metadata, &w->metadata_len);
	if (r < 0)
		return spoor_fail(e, -r, "%s: %s", o->path, strerror(-r));
	r = make_dirs(w, e);
	if (r >= 0)
		r = spoor_manifest_open(w, e);
	if (r >= 0)
		r = spoor_segment_create(w, &w->current, e);
	if (r >= 0)
		r = spoor_manifest_write(w, 0, e);
	if (r < 0) {
		remove_beginning(w);
		return r;
	}
	for (unsigned i = 0; i < w->n_streams; i++)
		w->streams[i].segment = w->current;
	*ret = TAKE_PTR(w);
	return 0;
}

uint64_t spoor_writer_bytes(const struct spoor_writer *w)
{
	uint64_t open = (w->previous ? w->previous->bytes : 0) + (w->current ? w->current->bytes : 0);

	return w->metadata_len + w->closed_bytes + open;
}

int spoor_writer_close(struct spoor_writer *w, struct spoor_error *e)
{
	int r = 0, r2;

	if (!w)
		return 0;
	if (w->previous)
		r = spoor_writer_segment_end(w, e);
	r2 = spoor_writer_flush(w, r < 0 ? NULL : e);
	r = r < 0 ? r : r2;
	r2 = spoor_manifest_write(w, 1, r < 0 ? NULL : e);
	r = r < 0 ? r : r2;
	writer_free(w);
	return r;
}

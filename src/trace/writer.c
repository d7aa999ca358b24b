/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening and closing a trace that is written: who wrote it where, its directories, its parts. */
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
#include "base/time.h"
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

void spoor_host_directory(const char *host, char *ret, size_t size)
{
	static const char *const ours[] = { "manifest", "manifest.new", "objects" };
	size_t n = 0;

	for (; host[n] && n + 1 < size; n++)
		ret[n] = host[n] == '/' || host[n] <= ' ' || host[n] > '~' || (!n && host[n] == '.') ? '_' : host[n];
	ret[n] = '\0';
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strcmp(host, ours[i]))
			strcpy(ret + n, "_");
}

static int identify(struct spoor_writer *w)
{
	struct utsname u;

	if (getrandom(w->uuid, sizeof(w->uuid), 0) != sizeof(w->uuid))
		return -EIO;
	w->uuid[6] = (w->uuid[6] & 0x0f) | 0x40; /* RFC 4122 version 4 */
	w->uuid[8] = (w->uuid[8] & 0x3f) | 0x80;
	spoor_boot_id(w->boot_id);
	w->epoch_offset = epoch_offset();
	if (w->o.boot_id) {
		memcpy(w->boot_id, w->o.boot_id, sizeof(w->boot_id));
		w->epoch_offset = w->o.epoch_offset;
	}
	if (uname(&u) < 0)
		return -errno;
	snprintf(w->hostname, sizeof(w->hostname), "%s", u.nodename[0] ? u.nodename : "localhost");
	if (w->o.store)
		snprintf(w->hostname, sizeof(w->hostname), "%s", w->o.store->host);
	spoor_host_directory(w->hostname, w->host_dir, sizeof(w->host_dir));
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
	char name[128];

	if (w->root_fd < 0 || w->o.resume || w->o.store)
		return; /* it is not ours */
	for_each_part(p, w) {
		if (p->fd >= 0)
			spoor_segment_remove(p->fd, 1);
		snprintf(name, sizeof(name), "%s/%s", w->host_dir, p->type);
		unlinkat(w->root_fd, name, AT_REMOVEDIR);
	}
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
	for_each_part(p, w)
		if (r >= 0)
			r = make_dir(host_fd, p->type, &p->fd);
	return r < 0 ? spoor_fail(e, -r, "%s: cannot create its directories: %s", w->path, strerror(-r)) : 0;
}

static struct writer_stream *init_stream(struct writer_part *p, struct writer_stream *s, unsigned instance)
{
	*s = (struct writer_stream){ .part = p, .fd = -1, .instance = instance };
	return s;
}

static int part_init(struct spoor_writer *w, struct writer_part *p, const char *type, unsigned stream_id,
		     unsigned n_streams)
{
	p->type = type;
	p->stream_id = stream_id;
	p->fd = -1;
	spoor_part_uuid(w->uuid, stream_id, p->uuid);
	for (unsigned i = 0; i < 2; i++)
		init_stream(p, &p->defs[i], SPOOR_INSTANCE_DEFS(i));
	p->streams = calloc(n_streams, sizeof(*p->streams));
	if (!p->streams)
		return -ENOMEM;
	p->n_streams = n_streams;
	return spoor_schema_metadata(&(struct spoor_metadata){ p->uuid, w->boot_id, w->epoch_offset, w->hostname,
							       w->release, type, stream_id },
				     &p->metadata, &p->metadata_len);
}

static int add_kernel(struct spoor_writer *w)
{
	struct writer_part *p = w->kernel = &w->parts[w->n_parts++];
	int r = part_init(w, p, "kernel", SPOOR_STREAM_KERNEL, w->o.n_cpus * SPOOR_MAX_LEVELS);

	for (unsigned i = 0; r >= 0 && i < p->n_streams; i++) {
		unsigned cpu = i / SPOOR_MAX_LEVELS, level = i % SPOOR_MAX_LEVELS;
		struct writer_stream *s = init_stream(p, &p->streams[i], cpu + level * SPOOR_INSTANCE_LEVEL);

		s->cpu = cpu;
		s->level = level;
	}
	return r;
}

static int add_ust(struct spoor_writer *w)
{
	struct writer_part *p = w->ust = &w->parts[w->n_parts++];
	int r = part_init(w, p, "ust", SPOOR_STREAM_UST, w->o.n_lanes);

	for (unsigned i = 0; r >= 0 && i < p->n_streams; i++)
		init_stream(p, &p->streams[i], i)->cpu = i;
	return r;
}

static int add_parts(struct spoor_writer *w)
{
	int r = 0;

	if (w->o.n_cpus)
		r = add_kernel(w);
	if (r >= 0 && w->o.n_lanes)
		r = add_ust(w);
	for_each_part(p, w)
		p->shared_len = p->metadata_len;
	return r;
}

static void part_done(struct writer_part *p)
{
	for (unsigned i = 0; i < p->n_streams; i++)
		spoor_stream_leave(&p->streams[i]);
	spoor_stream_leave(&p->defs[0]);
	spoor_stream_leave(&p->defs[1]);
	spoor_segment_free(p->previous);
	spoor_segment_free(p->current);
	spoor_closep(&p->fd);
	free(p->streams);
	free(p->closed);
	free(p->metadata);
}

static void writer_free(struct spoor_writer *w)
{
	for_each_part(p, w)
		part_done(p);
	spoor_closep(&w->root_fd);
	spoor_closep(&w->reserve_fd);
	for (unsigned i = 0; i < w->n_classes; i++)
		free(w->classes[i]);
	free(w->classes);
	spoor_source_list_done(&w->sources);
	json_decref(w->clocks);
	json_decref(w->counters);
	free(w->path);
	free(w->command);
	free(w->mode);
	free(w);
}

void spoor_writer_freep(struct spoor_writer **w)
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
	return w->path && w->command && w->mode ? 0 : -ENOMEM;
}

static struct spoor_writer *new_writer(const struct spoor_writer_options *o)
{
	_cleanup_(spoor_writer_freep) struct spoor_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->root_fd = w->reserve_fd = -1;
	w->window = UINT64_MAX;
	return allocate(w, o) < 0 ? NULL : TAKE_PTR(w);
}

static int begin_anew(struct spoor_writer *w, struct spoor_error *e)
{
	int r = identify(w);

	if (r >= 0)
		r = add_parts(w);
	if (r < 0)
		return spoor_fail(e, -r, "%s: %s", w->path, strerror(-r));
	r = w->o.store ? 0 : make_dirs(w, e);
	return r < 0 ? r : spoor_manifest_open(w, e);
}

static int begin_again(struct spoor_writer *w, struct spoor_error *e)
{
	int r;

	if (!w->o.n_lanes || w->o.n_cpus)
		return spoor_fail(e, EINVAL, "%s: only a recording of user events alone can be gone on with", w->path);
	r = w->o.store ? spoor_digest_identity(w, e) : spoor_resume_identity(w, e);
	if (r < 0)
		return r;
	if (add_parts(w) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	return w->o.store ? spoor_digest_parts(w, e) : spoor_resume_parts(w, e);
}

int spoor_writer_open(const struct spoor_writer_options *o, struct spoor_writer **ret, struct spoor_error *e)
{
	_cleanup_(spoor_writer_freep) struct spoor_writer *w = NULL;
	int r;

	if (!o->path || !(o->n_cpus || o->n_lanes) || o->n_cpus > SPOOR_MAX_CPUS || o->n_lanes > SPOOR_MAX_LANES)
		return spoor_fail(e, EINVAL, "a trace needs a path, and up to %d CPUs or up to %d lanes",
				  SPOOR_MAX_CPUS, SPOOR_MAX_LANES);
	w = new_writer(o);
	if (!w)
		return spoor_fail(e, ENOMEM, "%s: out of memory", o->path);
	r = spoor_stack_seed(&w->stack_seed);
	if (r < 0)
		return spoor_fail(e, -r, "%s: no random numbers: %s", w->path, strerror(-r));
	r = o->resume ? begin_again(w, e) : begin_anew(w, e);
	if (r >= 0 && o->resume && !o->store)
		spoor_checkpoint_save(w);
	if (r >= 0)
		r = spoor_segments_create(w, e);
	if (r >= 0)
		r = spoor_manifest_write(w, 0, e);
	if (r < 0) {
		remove_beginning(w);
		return r;
	}
	for_each_part(p, w)
		for (unsigned i = 0; i < p->n_streams; i++)
			p->streams[i].segment = p->current;
	*ret = TAKE_PTR(w);
	return 0;
}

/* A writer that writes nothing: it knows all that one must know to go on. */
int spoor_writer_look(const char *path, const uint8_t *boot_id, uint64_t window, struct spoor_writer **ret,
		      struct spoor_error *e)
{
	struct spoor_writer_options o = { .path = path, .resume = 1, .n_lanes = SPOOR_MAX_LANES, .boot_id = boot_id };
	_cleanup_(spoor_writer_freep) struct spoor_writer *w = new_writer(&o);
	int r;

	if (!w)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	w->window = window;
	r = begin_again(w, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(w);
	return 0;
}

uint64_t spoor_writer_bytes(const struct spoor_writer *w)
{
	uint64_t bytes = w->closed_bytes;

	for_each_part(p, w)
		bytes += p->shared_len + (p->previous ? p->previous->bytes : 0) + (p->current ? p->current->bytes : 0);
	return bytes;
}

unsigned spoor_writer_dropped(const struct spoor_writer *w)
{
	return w->n_dropped;
}

void spoor_writer_suspend(struct spoor_writer *w)
{
	w->suspended = true;
}

void spoor_writer_last(struct spoor_writer *w)
{
	if (w->ust && !w->o.store)
		spoor_checkpoint_forget(w);
}

void spoor_writer_fails(struct spoor_writer *w)
{
	w->failed = true;
}

void spoor_writer_goes_on(struct spoor_writer *w)
{
	w->failed = false;
}

int spoor_writer_close(struct spoor_writer *w, struct spoor_error *e)
{
	int r = 0, r2;

	if (!w)
		return 0;
	w->quota_until = 0; /* what is left is small, and the last */
	if (w->parts[0].previous)
		r = spoor_writer_segment_end(w, e);
	r2 = spoor_writer_flush(w, r < 0 ? NULL : e);
	r = r < 0 ? r : r2;
	r2 = spoor_manifest_write(w, 1, r < 0 ? NULL : e);
	r = r < 0 ? r : r2;
	if (w->o.store)
		w->o.store->ops->end(w->o.store, r >= 0 && !w->failed);
	writer_free(w);
	return r;
}

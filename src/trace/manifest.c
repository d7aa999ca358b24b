/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The manifest of a trace being written. It is replaced by rename, so that it is always whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "trace/writer_internal.h"

static json_t *uuid_json(const uint8_t *u)
{
	char text[37];

	snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	return json_string(text);
}

json_t *spoor_text_json(const char *text)
{
	_cleanup_(spoor_freep) char *copy = NULL;
	json_t *j = json_string(text);

	if (j)
		return j;
	copy = strdup(text);
	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(copy);
}

static json_t *segment_json(const struct writer_segment *s)
{
	uint64_t begin = s->ts_begin == UINT64_MAX ? 0 : s->ts_begin;
	char name[32];

	snprintf(name, sizeof(name), "seg-%06u", s->number);
	return json_pack("{s:i, s:s, s:I, s:I, s:I, s:I}", "number", (int)s->number, "directory", name, "begin",
			 (json_int_t)begin, "end", (json_int_t)s->ts_end, "bytes", (json_int_t)s->bytes,
			 "stream_bytes", (json_int_t)s->stream_bytes);
}

static json_t *segments_json(const struct spoor_writer *w, const struct writer_part *p, int snapshot)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < w->n_closed; i++)
		json_array_append_new(list, segment_json(&p->closed[i]));
	if (p->previous && !snapshot)
		json_array_append_new(list, segment_json(p->previous));
	if (p->current && !snapshot)
		json_array_append_new(list, segment_json(p->current));
	return list;
}

static json_t *parts_json(const struct spoor_writer *w, int snapshot)
{
	json_t *list = json_array();

	for_each_part(p, w)
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:{s:i, s:I}}", "type", p->type, "directory",
						      p->type, "segments", segments_json(w, p, snapshot), "dropped",
						      "segments", (int)w->n_dropped, "bytes",
						      (json_int_t)p->dropped_bytes));
	return list;
}

uint64_t spoor_writer_lost(const struct spoor_writer *w)
{
	uint64_t lost = w->lost_before;

	for_each_part(p, w) {
		lost += p->defs[0].lost + p->defs[1].lost;
		for (unsigned i = 0; i < p->n_streams; i++)
			lost += p->streams[i].lost;
	}
	return lost;
}

uint64_t spoor_writer_lost_told(const struct spoor_writer *w)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < w->kernel->n_streams; i++)
		lost += w->kernel->streams[i].level ? w->kernel->streams[i].lost : 0;
	return lost;
}

void spoor_writer_lost_before(struct spoor_writer *w, uint64_t lost)
{
	if (lost > w->lost_before)
		w->lost_before = lost;
}

static json_t *host_json(const struct spoor_writer *w, int snapshot)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "hostname", spoor_text_json(w->hostname), "directory",
			 w->host_dir, "release", spoor_text_json(w->release), "machine", spoor_text_json(w->machine),
			 "boot_id", uuid_json(w->boot_id), "parts", parts_json(w, snapshot));
}

int spoor_manifest_open(struct spoor_writer *w, struct spoor_error *e)
{
	struct timespec mono, boot;
	json_int_t m, b;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	m = mono.tv_sec * 1000000000LL + mono.tv_nsec;
	b = boot.tv_sec * 1000000000LL + boot.tv_nsec;
	w->counters = json_object();
	w->clocks = json_pack("[{s:I, s:I, s:I}]", "monotonic", m, "realtime", m + (json_int_t)w->epoch_offset,
			      "boottime", b);
	if (!w->counters || !w->clocks)
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	return 0;
}

/* Pairs of clocks: one comes with each segment, of a recording that may go on for years. */
#define MOST_CLOCKS 256
#define STEP_NS 10000000

static int64_t time_of(const json_t *pair, const char *clock)
{
	return json_integer_value(json_object_get(pair, clock));
}

/* Was the clock set between two pairs, or did it go on in sleep? adjtime(3) changes its pace by 500 ppm at most. */
static bool steps(const json_t *a, const json_t *b, const char *clock)
{
	int64_t passed = time_of(b, "monotonic") - time_of(a, "monotonic");
	int64_t more = time_of(b, clock) - time_of(a, clock) - passed;

	return llabs(more) > STEP_NS + passed / 1000;
}

static bool is_at_step(const json_t *clocks, size_t i)
{
	const json_t *before = json_array_get(clocks, i - 1), *pair = json_array_get(clocks, i),
		     *next = json_array_get(clocks, i + 1);

	return steps(before, pair, "realtime") || steps(before, pair, "boottime") || steps(pair, next, "realtime") ||
	       steps(pair, next, "boottime");
}

/* Of those between which nothing happened every other one goes; of too many others the oldest. The first stays. */
static void thin_clocks(json_t *clocks)
{
	for (size_t i = json_array_size(clocks) / 2 * 2 - 2; i > 0; i -= 2)
		if (i + 1 < json_array_size(clocks) && !is_at_step(clocks, i))
			json_array_remove(clocks, i);
	while (json_array_size(clocks) >= MOST_CLOCKS)
		json_array_remove(clocks, 1);
}

void spoor_manifest_note(struct spoor_writer *w, const struct spoor_event_header *def)
{
	if (def->id == SPOOR_EV_CLOCK && spoor_event_size(def) >= sizeof(struct spoor_clock)) {
		const struct spoor_clock *c = (const void *)def;

		if (json_array_size(w->clocks) >= MOST_CLOCKS)
			thin_clocks(w->clocks);
		json_array_append_new(w->clocks,
				      json_pack("{s:I, s:I, s:I}", "monotonic", (json_int_t)c->h.ts, "realtime",
						(json_int_t)c->realtime, "boottime", (json_int_t)c->boottime));
	}
	if (def->id == SPOOR_EV_COUNTER && spoor_event_size(def) > sizeof(struct spoor_counter)) {
		const struct spoor_counter *c = (const void *)def;

		if (memchr(c->name, 0, spoor_event_size(def) - sizeof(*c)))
			json_object_set_new(w->counters, c->name, json_integer(c->value));
	}
}

/* snapshot: the recording goes on, but nothing more comes to these segments. */
static json_t *manifest_json(struct spoor_writer *w, int ended, int snapshot)
{
	json_t *j = json_pack("{s:s, s:i, s:o, s:I, s:O, s:o, s:o, s:b, s:[o], s:I, s:O}", "format", "spoor-trace",
			      "version", SPOOR_TRACE_VERSION, "uuid", uuid_json(w->uuid), "epoch_offset",
			      (json_int_t)w->epoch_offset, "clocks", w->clocks, "command", spoor_text_json(w->command),
			      "mode", spoor_text_json(w->mode), "ended", ended, "hosts", host_json(w, snapshot),
			      "lost_writing", (json_int_t)spoor_writer_lost(w), "counters", w->counters);

	if (j && ((snapshot && json_object_set_new(j, "snapshot", json_true()) < 0) ||
		  (ended && w->suspended && json_object_set_new(j, "suspended", json_true()) < 0))) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static int write_text(int root_fd, const char *text)
{
	_cleanup_(spoor_closep) int fd =
		openat(root_fd, "manifest.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : spoor_write_whole(fd, text, strlen(text));

	if (r < 0)
		return r;
	return renameat(root_fd, "manifest.new", root_fd, "manifest") < 0 ? -errno : 0;
}

int spoor_manifest_replace(int root_fd, const json_t *j)
{
	_cleanup_(spoor_freep) char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	int r = text ? write_text(root_fd, text) : -ENOMEM;

	if (r < 0)
		unlinkat(root_fd, "manifest.new", 0);
	return r;
}

/* Takes j. */
static int write_manifest(int root_fd, json_t *j)
{
	int r = spoor_manifest_replace(root_fd, j);

	json_decref(j);
	return r;
}

static int store_manifest(struct spoor_writer *w, int ended)
{
	json_t *j = manifest_json(w, ended, 0);
	_cleanup_(spoor_freep) char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	int r = text ? w->o.store->ops->manifest(w->o.store, text, strlen(text)) : -ENOMEM;

	json_decref(j);
	if (r >= 0)
		w->manifest_len = strlen(text);
	return r;
}

/* Counters and a few segments come to a manifest before it is looked at again. */
#define RESERVE_MORE (16 << 10)

void spoor_manifest_keep_reserve(struct spoor_writer *w)
{
	size_t len = (w->manifest_len + RESERVE_MORE + 4095) & ~4095UL;

	if (w->reserve_fd < 0)
		w->reserve_len = 0;
	if (len <= w->reserve_len)
		return;
	if (w->reserve_fd < 0)
		w->reserve_fd = openat(w->root_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (w->reserve_fd >= 0 && fallocate(w->reserve_fd, 0, 0, (off_t)len) == 0)
		w->reserve_len = len;
}

void spoor_manifest_give_reserve(struct spoor_writer *w)
{
	/* Who was forked just now may have it open, too; and beyond a quota there is no room for this: so both. */
	int r = w->reserve_fd < 0 ? 0 : ftruncate(w->reserve_fd, 0);

	(void)r;
	spoor_closep(&w->reserve_fd);
	w->reserve_fd = -1;
	w->reserve_len = 0;
}

/* The reserve's file becomes the manifest: it needs no space more, and no inode, of which there may be none either. */
static int write_into_reserve(struct spoor_writer *w, const json_t *j)
{
	_cleanup_(spoor_freep) char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	size_t len = text ? strlen(text) : 0;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", w->reserve_fd);
	if (!len || len > w->reserve_len || pwrite(w->reserve_fd, text, len, 0) != (ssize_t)len)
		return -ENOSPC;
	/* Its blocks are there already: as a rename goes over another file, ext4 writes only those that are not. */
	if (ftruncate(w->reserve_fd, (off_t)len) || fdatasync(w->reserve_fd) ||
	    linkat(AT_FDCWD, path, w->root_fd, "manifest.new", AT_SYMLINK_FOLLOW))
		return -errno;
	if (renameat(w->root_fd, "manifest.new", w->root_fd, "manifest")) {
		unlinkat(w->root_fd, "manifest.new", 0);
		return -ENOSPC;
	}
	close(w->reserve_fd);
	w->reserve_fd = -1;
	w->reserve_len = 0;
	return 0;
}

/*
 * Beyond a quota of btrfs there may be room for a file, but not for a rename. So over the old manifest, in one write,
 * which a kill does not cut; blanks are what is left of a longer one. The old one has its room already, so that it can
 * be put back where there is none for the new one.
 */
static int write_over(struct spoor_writer *w, const json_t *j)
{
	_cleanup_(spoor_freep) char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	_cleanup_(spoor_closep) int fd = openat(w->root_fd, "manifest", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(spoor_freep) char *padded = NULL, *old = malloc(w->manifest_len);
	ssize_t old_len, len, n;

	if (fd < 0)
		return -errno;
	if (!text || !old)
		return -ENOMEM;
	old_len = pread(fd, old, w->manifest_len, 0);
	len = asprintf(&padded, "%-*s\n", (int)w->manifest_len, text);
	if (len < 0)
		return -ENOMEM;
	n = pwrite(fd, padded, len, 0);
	if (n == len)
		return 0;
	if (n > 0 && (pwrite(fd, old, old_len, 0) != old_len || ftruncate(fd, old_len)))
		return -EIO;
	return -ENOSPC;
}

static int write_last(struct spoor_writer *w, int in_order)
{
	json_t *j = manifest_json(w, in_order, 0);
	int r = spoor_manifest_replace(w->root_fd, j);

	if (spoor_is_full(r) && w->reserve_fd >= 0) {
		r = write_into_reserve(w, j);
		if (r < 0) {
			spoor_manifest_give_reserve(w);
			r = spoor_manifest_replace(w->root_fd, j);
		}
	}
	if (spoor_is_full(r))
		r = write_over(w, j);
	json_decref(j);
	return r;
}

static int write_here(struct spoor_writer *w, int ended)
{
	int r = ended ? write_last(w, !w->failed) : write_manifest(w->root_fd, manifest_json(w, 0, 0));
	struct stat st;

	if (r >= 0 && !fstatat(w->root_fd, "manifest", &st, 0))
		w->manifest_len = st.st_size;
	if (r >= 0 && !ended)
		spoor_manifest_keep_reserve(w);
	return r;
}

int spoor_manifest_write(struct spoor_writer *w, int ended, struct spoor_error *e)
{
	int r = w->o.store ? store_manifest(w, ended && !w->failed) : write_here(w, ended);

	return r < 0 ? spoor_fail(e, -r, "%s: cannot write the manifest: %s", w->path, strerror(-r)) : 0;
}

int spoor_manifest_write_snapshot(struct spoor_writer *w, int root_fd)
{
	return write_manifest(root_fd, manifest_json(w, 1, 1));
}

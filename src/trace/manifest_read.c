/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The manifest, read. What it says is a convenience: a trace without it is read all the same. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "trace/reader_internal.h"

#define MAX_MANIFEST (64 << 20)

int spoor_parse_uuid(const char *text, uint8_t ret[16])
{
	uint8_t u[16] = {};
	int n = 0;

	for (const char *p = text; *p; p++) {
		int v = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;

		if (*p == '-')
			continue;
		if (v < 0 || n == 32)
			return -EINVAL;
		u[n / 2] |= n % 2 ? v : v << 4;
		n++;
	}
	if (n != 32)
		return -EINVAL;
	memcpy(ret, u, 16);
	return 0;
}

/* An attribute of the metadata, `name = number;`. */
static uint64_t metadata_number(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, 10) : 0;
}

int spoor_read_text(const char *path, size_t max, char **ret)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(spoor_freep) char *text = NULL;
	size_t len = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > (off_t)max)
		st.st_size = max;
	text = malloc(st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (len < st.st_size) {
		ssize_t n = read(fd, text + len, st.st_size - len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += n;
	}
	text[len] = 0;
	*ret = TAKE_PTR(text);
	return 0;
}

/* What the manifest would say stands in any segment's metadata, too: the clock's offset. Returns the version; or 0. */
static int take_metadata(struct spoor_trace *t)
{
	_cleanup_(spoor_freep) char *path = NULL, *text = NULL;
	uint64_t version;

	if (asprintf(&path, "%s/metadata", t->segments[0]->path) < 0) {
		path = NULL;
		return 0;
	}
	if (spoor_read_text(path, 65536, &text) < 0 || !text)
		return 0;
	t->info.epoch_offset =
		metadata_number(text, "\toffset_s = ") * 1000000000 + metadata_number(text, "\toffset = ");
	version = metadata_number(text, "\ttracer_major = ");
	return version < INT32_MAX ? version : 0;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

/* The trace's own directory: path, or at most three above it (HOST/PART/SEGMENT). */
static int find_root(const char *path, char **ret)
{
	for (int up = 0; up <= 3; up++) {
		_cleanup_(spoor_freep) char *dir = NULL, *manifest = NULL;

		if (asprintf(&dir, "%s%.*s", path, up * 3, "/../../..") < 0)
			return dir = NULL, -ENOMEM;
		if (asprintf(&manifest, "%s/manifest", dir) < 0)
			return manifest = NULL, -ENOMEM;
		if (spoor_file_exists(manifest)) {
			*ret = TAKE_PTR(dir);
			return up;
		}
	}
	return -ENOENT;
}

/* What was opened lies in a host's directory: which? */
static int find_host(struct spoor_trace *t, const char *path, const char *root)
{
	_cleanup_(spoor_freep) char *below = realpath(path, NULL), *above = realpath(root, NULL);
	const char *host;

	if (!below || !above || strncmp(below, above, strlen(above)))
		return 0;
	host = below + strlen(above);
	host += strspn(host, "/");
	t->host = strndup(host, strcspn(host, "/"));
	return t->host ? 0 : -ENOMEM;
}

/* The writer holds a lock on the directory for as long as it lives. */
int spoor_trace_is_live(const char *root)
{
	_cleanup_(spoor_closep) int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Is it in the part of this directory? Paths end in HOST/PART/seg-N. */
static int in_part(const struct spoor_segment *s, const char *directory)
{
	const char *end = strrchr(s->path, '/'), *begin = end;

	while (begin && begin > s->path && begin[-1] != '/')
		begin--;
	return begin && strlen(directory) == end - begin && !strncmp(begin, directory, end - begin);
}

/* Those of the part: they are side by side, in order of their numbers. */
static struct spoor_segment **segments_of(const struct spoor_trace *t, const char *part, unsigned *ret_n)
{
	unsigned from = 0, to;

	while (from < t->n_segments && !in_part(t->segments[from], part))
		from++;
	to = from;
	while (to < t->n_segments && t->segments[to]->part == t->segments[from]->part)
		to++;
	*ret_n = to - from;
	return to > from ? &t->segments[from] : NULL;
}

static uint64_t count_of(const json_t *j, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(j, key));

	return n > 0 ? (uint64_t)n : 0;
}

static int by_number(const void *key, const void *segment)
{
	json_int_t a = *(const json_int_t *)key, b = (*(struct spoor_segment *const *)segment)->number;

	return a < b ? -1 : a > b;
}

/* What its files have now. */
static void measure_segments(struct spoor_trace *t)
{
	struct stat st;

	for (unsigned i = 0; i < t->n_segments; i++)
		t->segments[i]->stream_bytes = 0;
	for (size_t i = 0; i < t->n_files; i++)
		if (lstat(t->files[i].path, &st) == 0)
			t->files[i].segment->stream_bytes += st.st_size;
}

static void check_segments(struct spoor_trace *t, const char *path, const json_t *part)
{
	unsigned n;
	const char *directory = text_of(part, "directory");
	struct spoor_segment **all = segments_of(t, directory, &n);
	size_t i;
	json_t *s;

	json_array_foreach(json_object_get(part, "segments"), i, s)
	{
		json_int_t nr = json_integer_value(json_object_get(s, "number"));
		struct spoor_segment **there = n ? bsearch(&nr, all, n, sizeof(*all), by_number) : NULL;
		uint64_t written = count_of(s, "stream_bytes");
		char reason[128];
		int at;

		if (there && (*there)->stream_bytes >= written)
			continue;
		at = snprintf(reason, sizeof(reason), "%.32s: segment %lld", directory, (long long)nr);
		if (there)
			snprintf(reason + at, sizeof(reason) - at, ": %" PRIu64 " bytes of its streams are not there",
				 written - (*there)->stream_bytes);
		else
			snprintf(reason + at, sizeof(reason) - at, " is not there");
		spoor_trace_note(t, path, 0, reason);
	}
}

/* NULL: the manifest does not tell of it. */
static const json_t *host_json(const json_t *hosts, const char *directory)
{
	const json_t *host;
	size_t i;

	if (!directory)
		return json_array_get(hosts, 0);
	json_array_foreach((json_t *)hosts, i, host) if (!strcmp(text_of(host, "directory"), directory)) return host;
	return NULL;
}

static void take_losses(struct spoor_trace *t, const json_t *j)
{
	const json_t *counters = json_object_get(j, "counters");

	t->info.lost_writing = count_of(j, "lost_writing");
	t->info.lost_child = count_of(counters, "ust_lost_child");
	t->info.lost_undescribed = count_of(counters, "ust_undescribed");
	t->info.threads_not_recorded = count_of(counters, "threads_not_recorded");
	t->info.programs_late = count_of(counters, "ust_late");
	t->info.programs_turned_away = count_of(counters, "ust_turned_away");
	t->info.held_lost = count_of(counters, "ust_held_lost");
	t->info.programs_not_recorded = count_of(counters, "ust_not_recorded");
	t->info.uncounted = count_of(counters, "ust_uncounted");
	t->info.overwritten = count_of(counters, "ust_overwritten");
	t->info.ring_damages = count_of(counters, "ring_damages");
	t->info.relay_discarded = count_of(counters, "relay_discarded");
	t->info.relay_reconnects = count_of(counters, "relay_reconnects");
	t->info.relay_away_ms = count_of(counters, "relay_away_ms");
	t->discarded = t->info.lost_writing + count_of(counters, "discarded") + count_of(counters, "ust_discarded");
}

/* The segments of all parts are dropped together. */
static void take_dropped(struct spoor_trace *t, const json_t *parts)
{
	const json_t *part;
	size_t i;

	t->info.dropped_segments = t->info.dropped_bytes = 0;
	json_array_foreach((json_t *)parts, i, part)
	{
		const json_t *dropped = json_object_get(part, "dropped");
		uint64_t n = count_of(dropped, "segments");

		t->info.dropped_segments = n > t->info.dropped_segments ? n : t->info.dropped_segments;
		t->info.dropped_bytes += count_of(dropped, "bytes");
	}
}

static void take_parts(struct spoor_trace *t, const char *path, const json_t *parts)
{
	const json_t *part;
	size_t i;

	take_dropped(t, parts);
	if (t->info.live) /* the oldest may go between our two looks */
		return;
	measure_segments(t);
	json_array_foreach((json_t *)parts, i, part) check_segments(t, path, part);
}

static void take_manifest(struct spoor_trace *t, const char *path, json_t *j, int whole)
{
	const json_t *hosts = json_object_get(j, "hosts"), *host = host_json(hosts, t->host);

	t->info.command = text_of(j, "command");
	t->info.mode = text_of(j, "mode");
	t->info.hostname = text_of(host, "hostname");
	t->info.release = text_of(host, "release");
	if (host == json_array_get(hosts, 0))
		t->info.epoch_offset = json_integer_value(json_object_get(j, "epoch_offset"));
	else
		take_metadata(t);
	t->info.ended = json_is_true(json_object_get(j, "ended"));
	t->info.suspended = json_is_true(json_object_get(j, "suspended"));
	t->info.snapshot = json_is_true(json_object_get(j, "snapshot"));
	spoor_parse_uuid(text_of(host, "boot_id"), t->info.boot_id);
	t->has_uuid = spoor_parse_uuid(text_of(j, "uuid"), t->uuid) >= 0;
	take_losses(t, j);
	if (whole)
		take_parts(t, path, json_object_get(host, "parts"));
}

/* Its writer says so before it removes it; we may have looked before that. */
bool spoor_trace_was_dropped(struct spoor_trace *t, const struct spoor_segment *s)
{
	_cleanup_(spoor_freep) char *file = NULL, *text = NULL;
	json_t *j;

	if (spoor_file_exists(s->path) || errno != ENOENT)
		return false;
	if (s->number <= t->info.dropped_segments)
		return true;
	if (asprintf(&file, "%s/manifest", t->root) < 0) {
		file = NULL;
		return false;
	}
	j = spoor_read_text(file, MAX_MANIFEST, &text) < 0 ? NULL : json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (j)
		take_dropped(t, json_object_get(host_json(json_object_get(j, "hosts"), t->host), "parts"));
	json_decref(j);
	return s->number <= t->info.dropped_segments;
}

static int version_of(const json_t *j)
{
	json_int_t v = json_integer_value(json_object_get(j, "version"));

	return v > 0 && v < INT32_MAX ? v : 0;
}

static int check_version(int version, const char *path, struct spoor_error *e)
{
	if (version > SPOOR_TRACE_VERSION)
		return spoor_fail(e, EPROTONOSUPPORT, "%s: written by a newer Spoor (format %d, this one reads %d)",
				  path, version, SPOOR_TRACE_VERSION);
	if (version && version < SPOOR_TRACE_VERSION)
		return spoor_fail(e, EPROTONOSUPPORT,
				  "%s: in format %d, from before the first release; this Spoor "
				  "reads %d: record again, or use the Spoor that wrote it",
				  path, version, SPOOR_TRACE_VERSION);
	return 0;
}

int spoor_trace_find(struct spoor_trace *t, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *root = NULL;

	t->above = find_root(t->path, &root);
	if (t->above > 0 && find_host(t, t->path, root) < 0)
		t->above = -ENOMEM;
	t->info.live = t->above >= 0 && spoor_trace_is_live(root);
	t->root = t->above < 0 ? strdup(t->path) : TAKE_PTR(root);
	t->info.root = t->root;
	return t->root && t->above != -ENOMEM ? 0 : spoor_fail(e, ENOMEM, "%s: out of memory", t->path);
}

int spoor_trace_read_manifest(struct spoor_trace *t, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *file = NULL, *text = NULL;
	json_error_t je = {};
	json_t *j = NULL;
	int r;

	if (asprintf(&file, "%s/manifest", t->root) < 0) {
		file = NULL;
		return spoor_fail(e, ENOMEM, "%s: out of memory", t->path);
	}
	r = t->above < 0 ? t->above : spoor_read_text(file, MAX_MANIFEST, &text);
	if (r >= 0)
		j = json_loads(text, JSON_REJECT_DUPLICATES, &je);
	t->manifest = j;
	if (j && version_of(j)) {
		r = check_version(version_of(j), t->path, e);
		if (r == 0)
			take_manifest(t, file, j, t->above <= 1);
		return r;
	}
	spoor_trace_note(t, file, je.position > 0 ? je.position : 0, r < 0 ? strerror(-r) : "no manifest of a trace");
	return check_version(take_metadata(t), t->path, e);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Going on with a trace whose writer is no more: what it was, its closed segments, and where its streams stood is taken
 * from what is on disk, as readers do; the manifest's words are taken, its counts of segments are not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

#define MAX_MANIFEST (64 << 20)
#define LOCK_TRIES 100
#define LOCK_PAUSE_US 3000
#define CLASSES_IN 3 /* last segments in which the classes are looked for: the last may have begun a moment ago */

static void json_freep(json_t **j)
{
	json_decref(*j);
}

/* ---- the manifest ---- */

static int take_text(const json_t *j, const char *key, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(j, key));

	if (!text || strlen(text) >= size)
		return -EBADMSG;
	strcpy(ret, text);
	return 0;
}

static int take_words(struct spoor_writer *w, const json_t *j)
{
	const char *command = json_string_value(json_object_get(j, "command"));
	const char *mode = json_string_value(json_object_get(j, "mode"));
	char *c = strdup(command ?: ""), *m = strdup(mode ?: "");

	if (!c || !m) {
		free(c);
		free(m);
		return -ENOMEM;
	}
	free(w->command);
	free(w->mode);
	w->command = c;
	w->mode = m;
	w->clocks = json_incref(json_object_get(j, "clocks"));
	w->counters = json_incref(json_object_get(j, "counters"));
	return json_is_array(w->clocks) && json_is_object(w->counters) ? 0 : -EBADMSG;
}

static int take_host(struct spoor_writer *w, const json_t *host)
{
	const char *boot_id = json_string_value(json_object_get(host, "boot_id"));

	if (!boot_id || spoor_parse_uuid(boot_id, w->boot_id) < 0)
		return -EBADMSG;
	if (take_text(host, "hostname", w->hostname, sizeof(w->hostname)) < 0 ||
	    take_text(host, "directory", w->host_dir, sizeof(w->host_dir)) < 0 ||
	    take_text(host, "release", w->release, sizeof(w->release)) < 0 ||
	    take_text(host, "machine", w->machine, sizeof(w->machine)) < 0)
		return -EBADMSG;
	return !w->host_dir[0] || w->host_dir[0] == '.' || strchr(w->host_dir, '/') ? -EBADMSG : 0;
}

static int take_manifest(struct spoor_writer *w, const json_t *j)
{
	const json_t *hosts = json_object_get(j, "hosts"), *host = json_array_get(hosts, 0);
	const json_t *parts = json_object_get(host, "parts"), *part = json_array_get(parts, 0);
	const char *uuid = json_string_value(json_object_get(j, "uuid"));
	const char *type = json_string_value(json_object_get(part, "type"));
	int r;

	if (json_integer_value(json_object_get(j, "version")) != SPOOR_TRACE_VERSION)
		return -EPROTO;
	if (json_is_true(json_object_get(j, "snapshot")) || json_array_size(hosts) != 1 ||
	    json_array_size(parts) != 1 || !type || strcmp(type, "ust"))
		return -EPROTO;
	if (!uuid || spoor_parse_uuid(uuid, w->uuid) < 0)
		return -EBADMSG;
	r = take_words(w, j);
	if (r >= 0)
		r = take_host(w, host);
	if (r < 0)
		return r;
	w->epoch_offset = json_integer_value(json_object_get(j, "epoch_offset"));
	w->lost_before = json_integer_value(json_object_get(j, "lost_writing"));
	w->n_dropped = json_integer_value(json_object_get(json_object_get(part, "dropped"), "segments"));
	w->parts[0].dropped_bytes = json_integer_value(json_object_get(json_object_get(part, "dropped"), "bytes"));
	return 0;
}

static int check_boot(const struct spoor_writer *w)
{
	uint8_t now[16];

	if (w->o.boot_id) /* by the caller's word */
		return memcmp(w->o.boot_id, w->boot_id, sizeof(now)) ? -ESTALE : 0;
	if (spoor_boot_id(now) < 0)
		return 0; /* nothing to compare with */
	return memcmp(now, w->boot_id, sizeof(now)) ? -ESTALE : 0;
}

int spoor_resume_manifest(struct spoor_writer *w, const char *text)
{
	_cleanup_(json_freep) json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	int r = j ? take_manifest(w, j) : -EBADMSG;

	return r < 0 ? r : check_boot(w);
}

int spoor_trace_lock(int fd)
{
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK || i == LOCK_TRIES)
			return errno == EWOULDBLOCK ? -EBUSY : -errno;
		usleep(LOCK_PAUSE_US);
	}
	return 0;
}

int spoor_resume_identity(struct spoor_writer *w, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *file = NULL, *text = NULL;
	int r;

	w->root_fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->root_fd < 0)
		return spoor_fail(e, errno, "%s: cannot open: %m", w->path);
	if (spoor_trace_lock(w->root_fd) < 0)
		return spoor_fail(e, EBUSY, "%s: is being written", w->path);
	if (asprintf(&file, "%s/manifest", w->path) < 0) {
		file = NULL;
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	}
	r = spoor_read_text(file, MAX_MANIFEST, &text);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot read: %s", file, strerror(-r));
	r = spoor_resume_manifest(w, text);
	if (r == -ESTALE)
		return spoor_fail(e, ESTALE, "%s: was recorded before the machine was started again", w->path);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot go on with it: its manifest is damaged, or of another kind",
				  w->path);
	return 0;
}

/* ---- segments and streams ---- */

static int by_number(const void *a, const void *b)
{
	const struct writer_segment *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Behind those of the checkpoint. */
static int list_segments(struct spoor_writer *w, const struct spoor_trace *t)
{
	struct writer_part *p = w->ust;
	struct writer_segment *all = reallocarray(p->closed, w->n_closed + t->n_segments + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	p->closed = all;
	for (unsigned i = 0; i < t->n_segments; i++) {
		unsigned number = t->segments[i]->number;

		all[w->n_closed++] = (struct writer_segment){ .number = number, .fd = -1, .ts_begin = UINT64_MAX };
		w->n_begun = number > w->n_begun ? number : w->n_begun;
	}
	qsort(all, w->n_closed, sizeof(*all), by_number);
	return 0;
}

static struct writer_segment *closed_of(struct spoor_writer *w, unsigned number)
{
	struct writer_segment key = { .number = number };

	return bsearch(&key, w->ust->closed, w->n_closed, sizeof(key), by_number);
}

static struct writer_stream *stream_of(struct writer_part *p, uint32_t instance)
{
	if (instance >= SPOOR_INSTANCE_DEFS(0))
		return &p->defs[instance & 1];
	return instance < p->n_streams ? &p->streams[instance] : NULL;
}

/* Files come in order of segments for each stream, so the last packet is the stream's last. */
static void take_packet(const struct spoor_packet *packet, struct writer_stream *s, struct writer_segment *seg)
{
	if (packet->ts_begin < seg->ts_begin)
		seg->ts_begin = packet->ts_begin;
	if (packet->ts_end > seg->ts_end)
		seg->ts_end = packet->ts_end;
	if (!s)
		return;
	s->seq = packet->seq + 1;
	s->before = s->discarded = packet->discarded;
	if (packet->ts_end > s->last_ts)
		s->last_ts = packet->ts_end;
}

static int take_file(struct spoor_writer *w, struct spoor_trace *t, const struct spoor_stream_file *f,
		     struct spoor_error *e)
{
	struct writer_segment *seg = closed_of(w, f->segment->number);
	struct spoor_cursor c;
	uint64_t cut = 0;
	int r = spoor_repair_file(f->path, &cut, e);

	if (r < 0)
		return r;
	if (spoor_cursor_open(t, &c, f->path, f->segment, f->instance) < 0)
		return spoor_fail(e, EIO, "%s: cannot read", f->path);
	for (size_t at = 0; at < c.len;) {
		const struct spoor_packet *packet = (const void *)(c.map + at);

		take_packet(packet, stream_of(w->ust, f->instance), seg);
		at += packet->packet_size / 8; /* whole: the file has been repaired */
	}
	seg->bytes += c.len;
	seg->stream_bytes += c.len;
	spoor_cursor_close(&c);
	return 0;
}

/* ---- classes ---- */

/* Those of the segment that tells of most, which the checkpoint has not; ids are dense: whoever wrote them counted. */
static int take_classes(struct spoor_writer *w, struct spoor_trace *t)
{
	const struct spoor_segment *best = NULL;
	uint64_t ts = 0;
	int r = 0;

	for (unsigned i = 0; i < w->n_closed; i++)
		if (w->ust->closed[i].ts_end > ts)
			ts = w->ust->closed[i].ts_end;
	for (unsigned i = 0; i < t->n_segments; i++) {
		struct spoor_segment *s = t->segments[i];

		if (s->number + CLASSES_IN <= w->n_begun)
			continue;
		if (spoor_segment_load(s) < 0)
			return -ENOMEM;
		if (!best || s->n_classes > best->n_classes)
			best = s;
	}
	for (unsigned i = w->n_classes; r >= 0 && best && i < best->n_classes; i++) {
		if (!best->classes[i])
			continue; /* beyond the last */
		r = w->n_classes == i ? spoor_class_restore(w, best->classes[i], ts) : -EBADMSG;
	}
	return r;
}

/* ---- stacks and objects ---- */

static void see_ids(struct spoor_writer *w, const struct spoor_segment *s)
{
	for (size_t i = 0; i < s->stacks.size; i++)
		if (s->stacks.slots[i].def && s->stacks.slots[i].id > w->last_stack)
			w->last_stack = s->stacks.slots[i].id;
	for (size_t i = 0; i < s->objects.size; i++)
		if (s->objects.slots[i].def && (!w->least_object || s->objects.slots[i].id < w->least_object))
			w->least_object = s->objects.slots[i].id;
}

/* An older segment may have greater ids than a later one, which refers to what is seldom. */
static int take_ids(struct spoor_writer *w, const struct spoor_trace *t)
{
	for (unsigned i = 0; i < t->n_segments; i++) {
		if (spoor_segment_load(t->segments[i]) < 0)
			return -ENOMEM;
		see_ids(w, t->segments[i]);
	}
	return 0;
}

void spoor_writer_known_ids(const struct spoor_writer *w, uint32_t *ret_last_stack, uint32_t *ret_least_object)
{
	*ret_last_stack = w->last_stack;
	*ret_least_object = w->least_object;
}

int spoor_writer_sources(const struct spoor_writer *w, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p)
{
	int r = 0;

	for (size_t i = 0; i < w->sources.n && r == 0; i++)
		r = each(&w->sources.all[i], p);
	return r;
}

/*
 * A segment's text is the begin of this one, or longer by a class whose definition was not written any more: that one
 * is forgotten, for its id is going to be another's.
 */
static int check_metadata(const struct writer_part *p, const struct spoor_segment *s)
{
	_cleanup_(spoor_freep) char *path = NULL, *text = NULL;
	size_t len;
	int r;

	if (asprintf(&path, "%s/metadata", s->path) < 0)
		return path = NULL, -ENOMEM;
	r = spoor_read_text(path, 1 << 30, &text);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* it had just begun */
	len = strlen(text);
	if (memcmp(text, p->metadata, len < p->metadata_len ? len : p->metadata_len))
		return -EPROTO;
	return len > p->metadata_len && truncate(path, (off_t)p->metadata_len) < 0 ? -errno : 0;
}

static int check_metadatas(const struct spoor_writer *w, const struct spoor_trace *t)
{
	int r = 0;

	for (unsigned i = 0; i < t->n_segments && r >= 0; i++)
		if (t->segments[i]->number + CLASSES_IN > w->n_begun)
			r = check_metadata(w->ust, t->segments[i]);
	return r;
}

/* ---- all of it ---- */

static int take_files(struct spoor_writer *w, struct spoor_trace *t, struct spoor_error *e)
{
	int r = 0;

	for (size_t i = 0; i < t->n_files && r >= 0; i++)
		r = take_file(w, t, &t->files[i], e);
	w->closed_bytes = 0;
	for (unsigned i = 0; i < w->n_closed; i++)
		w->closed_bytes += w->ust->closed[i].bytes;
	return r;
}

static int take_definitions(struct spoor_writer *w, struct spoor_trace *t)
{
	int r = take_classes(w, t);

	if (r >= 0)
		r = take_ids(w, t);
	if (r >= 0)
		r = check_metadatas(w, t);
	return r;
}

static int open_part(struct spoor_writer *w, struct spoor_error *e)
{
	char part[80];

	snprintf(part, sizeof(part), "%s/ust", w->host_dir);
	w->ust->fd = openat(w->root_fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return w->ust->fd < 0 ? spoor_fail(e, errno, "%s/%s: cannot open: %m", w->path, part) : 0;
}

/* Of what the checkpoint has of packets, none is asked for once so much came since. */
static int take_sources(struct spoor_writer *w, struct spoor_trace *t)
{
	int r;

	for (unsigned i = 0; i < t->n_segments; i++)
		w->since += closed_of(w, t->segments[i]->number)->bytes;
	if (w->since >= w->window)
		spoor_source_list_forget_packets(&w->sources);
	r = spoor_trace_late_sources(t, w->window, spoor_source_list_add, &w->sources);
	spoor_source_list_sort(&w->sources);
	return r;
}

int spoor_resume_parts(struct spoor_writer *w, struct spoor_error *e)
{
	_cleanup_(spoor_trace_closep) struct spoor_trace *t = NULL;
	int r = open_part(w, e);

	if (r < 0)
		return r;
	spoor_checkpoint_load(w);
	r = spoor_trace_open_after(w->path, w->n_begun, &t, e);
	if (r < 0)
		return r;
	if (list_segments(w, t) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	r = take_files(w, t, e);
	if (r < 0)
		return r;
	r = take_definitions(w, t);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot go on with it: what is there is of another Spoor, or damaged",
				  w->path);
	r = take_sources(w, t);
	return r < 0 ? spoor_fail(e, -r, "%s: %s", w->path, strerror(-r)) : 0;
}

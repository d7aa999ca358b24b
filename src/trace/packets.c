/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Streams and packets. A packet is one writev of its header and the caller's spans: there wholly or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/writer_internal.h"

#define DEFS_FLUSH_BYTES (256 << 10)
#define DEFS_MAX_BYTES (64 << 20) /* waiting for space on a full disk */

static int name_of(const struct writer_stream *s, char *buf, size_t size)
{
	if (s->instance >= SPOOR_INSTANCE_DEFS(0))
		return snprintf(buf, size, "defs");
	if (s->level)
		return snprintf(buf, size, "cpu%u.%u", s->cpu, s->level);
	return snprintf(buf, size, "cpu%u", s->cpu);
}

static int open_stream(struct spoor_writer *w, struct writer_stream *s, struct spoor_error *e)
{
	char name[32];

	name_of(s, name, sizeof(name));
	s->fd = openat(s->segment->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0)
		return spoor_fail(e, errno, "%s: cannot create stream %s in segment %u: %m", w->path, name,
				  s->segment->number);
	s->file_size = 0;
	return 0;
}

void spoor_stream_leave(struct writer_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Leaves the file as it was if not everything could be written. Consumes iov. */
static int write_whole(int fd, uint64_t offset, struct iovec *iov, int n)
{
	uint64_t at = offset;

	while (n > 0) {
		ssize_t done = pwritev(fd, iov, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			int err = done < 0 ? errno : EIO;

			/* If even this fails, the reader meets a torn packet and spoor_trace_repair() cuts it. */
			if (ftruncate(fd, offset) < 0)
				return -err;
			return -err;
		}
		at += done;
		for (; n > 0 && (size_t)done >= iov->iov_len; iov++, n--)
			done -= iov->iov_len;
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= done;
		}
	}
	return 0;
}

/* Writes to a file whose directory was removed succeed, so ask. */
static int vanished(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || st.st_nlink == 0;
}

/*
 * babeltrace2 2.0.4 sorts packets by their begin and turns equal ones round, so begins must differ even if one packet
 * ends and the next begins with events of the same nanosecond: a packet begins a nanosecond before its first event if
 * the packet before it has ended by then.
 */
static uint64_t packet_begin(const struct writer_stream *s, uint64_t ts_begin)
{
	return ts_begin > s->last_ts ? ts_begin - 1 : ts_begin;
}

/* What is kept free below max_size for definitions: those that wait, and some that events to come need. */
static uint64_t room_of_definitions(const struct spoor_writer *w)
{
	uint64_t bytes = w->o.max_size / 16;

	if (w->previous)
		bytes += w->previous->buf_len + sizeof(struct spoor_packet);
	if (w->current)
		bytes += w->current->buf_len + sizeof(struct spoor_packet);
	return bytes;
}

static const char *remedy(int err)
{
	if (err == ENOSPC)
		return "; what was written stays readable; free space or use --max-size";
	if (err == EFBIG)
		return "; what was written stays readable; raise the limit (ulimit -f) or use --rotate";
	return "";
}

/* One packet of w->iov[1..n]. */
static int write_packet(struct spoor_writer *w, struct writer_stream *s, int n, uint64_t bytes, uint64_t ts_begin,
			uint64_t ts_end, struct spoor_error *e)
{
	struct spoor_packet p = {
		.magic = SPOOR_PACKET_MAGIC,
		.stream_instance_id = s->instance,
		.ts_begin = packet_begin(s, ts_begin),
		.ts_end = ts_end,
		.content_size = (sizeof(p) + bytes) * 8,
		.packet_size = (sizeof(p) + bytes) * 8,
		.seq = s->seq,
		.discarded = s->discarded + s->lost,
		.cpu = s->cpu,
		.segment = s->segment->number,
	};
	struct writer_segment *seg = s->segment;
	int r;

	if (s->fd < 0) {
		r = open_stream(w, s, e);
		w->failed |= r < 0;
		if (r < 0)
			return r;
	}
	if (vanished(s->fd)) {
		w->failed = 1;
		return spoor_fail(e, ENOENT, "%s: the trace's directory was removed while it was being written",
				  w->path);
	}
	memcpy(p.uuid, w->uuid, sizeof(p.uuid));
	w->iov[0] = (struct iovec){ &p, sizeof(p) };
	r = write_whole(s->fd, s->file_size, w->iov, n + 1);
	w->failed |= r < 0;
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot write: %s%s", w->path, strerror(-r), remedy(-r));
	s->file_size += sizeof(p) + bytes;
	s->seq++;
	s->last_ts = ts_end;
	seg->bytes += sizeof(p) + bytes;
	if (ts_begin < seg->ts_begin)
		seg->ts_begin = ts_begin;
	if (ts_end > seg->ts_end)
		seg->ts_end = ts_end;
	return 0;
}

static uint64_t count_events(const struct iovec *iov, int n)
{
	uint64_t count = 0;

	for (int i = 0; i < n; i++) {
		size_t at = 0;

		while (at + sizeof(struct spoor_event_header) <= iov[i].iov_len) {
			const struct spoor_event_header *h = (const void *)((const char *)iov[i].iov_base + at);

			if (h->size8 < 2)
				break;
			at += h->size8 * 8;
			count++;
		}
	}
	return count;
}

static struct writer_stream *stream_of(struct spoor_writer *w, unsigned cpu, unsigned level)
{
	if (cpu >= w->o.n_cpus || level >= SPOOR_MAX_LEVELS)
		return NULL;
	return &w->streams[cpu * SPOOR_MAX_LEVELS + level];
}

/* Fills w->iov from spans until it is full. Returns how many spans were taken. */
static int gather(struct spoor_writer *w, const struct iovec *spans, int n_spans, int *ret_n, uint64_t *ret_bytes)
{
	int taken = 0, n = 0;

	*ret_bytes = 0;
	for (; taken < n_spans && n < SPOOR_MAX_SPANS; taken++) {
		if (!spans[taken].iov_len)
			continue;
		w->iov[++n] = spans[taken];
		*ret_bytes += spans[taken].iov_len;
	}
	*ret_n = n;
	return taken;
}

int spoor_writer_packet(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans,
			uint64_t ts_begin, uint64_t ts_end, uint64_t discarded, struct spoor_error *e)
{
	struct writer_stream *s = stream_of(w, cpu, level);

	if (!s)
		return spoor_fail(e, EINVAL, "%s: no stream for CPU %u, level %u", w->path, cpu, level);
	for (int i = 0; i < n_spans; i++)
		if (spans[i].iov_len % 8)
			return spoor_fail(e, EINVAL, "%s: a span of %zu bytes does not hold whole events", w->path,
					  spans[i].iov_len);
	s->discarded = discarded;
	if (ts_begin < s->last_ts || ts_end < ts_begin) {
		s->lost += count_events(spans, n_spans);
		return spoor_fail(e, EINVAL, "%s: events of CPU %u, level %u are out of order", w->path, cpu, level);
	}
	while (n_spans > 0) {
		uint64_t bytes, end = ts_end;
		int n, taken, r;

		taken = gather(w, spans, n_spans, &n, &bytes);
		if (!n)
			return 0;
		if (taken < n_spans && spans[taken].iov_len)
			end = ((const struct spoor_event_header *)spans[taken].iov_base)->ts;
		r = spoor_segments_make_room(w, sizeof(struct spoor_packet) + bytes + room_of_definitions(w), e);
		if (r > 0)
			r = write_packet(w, s, n, bytes, ts_begin, end, e);
		else if (r == 0) /* max_size holds only the segments that are being written */
			s->lost += count_events(spans, taken);
		if (r < 0) {
			s->lost += count_events(spans, n_spans);
			return r;
		}
		ts_begin = end;
		spans += taken;
		n_spans -= taken;
	}
	return 0;
}

void spoor_writer_lose(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans)
{
	struct writer_stream *s = stream_of(w, cpu, level);

	if (s)
		s->lost += count_events(spans, n_spans);
}

/* ---- definitions ---- */

static int append(struct writer_segment *seg, const struct spoor_event_header *def)
{
	size_t len = def->size8 * 8;

	if (seg->buf_len + len > DEFS_MAX_BYTES) {
		seg->defs->lost++;
		return -ENOSPC;
	}
	if (seg->buf_len + len > seg->buf_size) {
		size_t size = seg->buf_size ? seg->buf_size * 2 : DEFS_FLUSH_BYTES * 2;
		uint8_t *p = realloc(seg->buf, size);

		if (!p)
			return -ENOMEM;
		seg->buf = p;
		seg->buf_size = size;
	}
	memcpy(seg->buf + seg->buf_len, def, len);
	seg->buf_len += len;
	return 0;
}

int spoor_writer_define(struct spoor_writer *w, const struct spoor_event_header *def)
{
	int r;

	if (def->size8 < 2)
		return -EINVAL;
	spoor_manifest_note(w, def);
	/* Streams that are still in the previous segment may refer to it. */
	if (w->previous) {
		r = append(w->previous, def);
		if (r < 0)
			return r;
	}
	if (!w->current)
		return -EBADF;
	r = append(w->current, def);
	if (r < 0)
		return r;
	return w->current->buf_len >= DEFS_FLUSH_BYTES ? spoor_writer_flush(w, NULL) : 0;
}

static int by_time(const void *a, const void *b)
{
	const struct spoor_event_header *x = *(const struct spoor_event_header *const *)a;
	const struct spoor_event_header *y = *(const struct spoor_event_header *const *)b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x < y ? -1 : x > y; /* stable: they stand in the order in which they came */
}

/* A new buffer with the same events in the order of time, none before ts. */
static int sort_definitions(const struct writer_segment *seg, uint64_t ts, uint8_t **ret)
{
	_cleanup_(spoor_freep) struct spoor_event_header **index = NULL;
	size_t n = 0, len = 0;
	uint8_t *out;

	index = malloc(seg->buf_len / sizeof(struct spoor_event_header) * sizeof(*index));
	out = malloc(seg->buf_len);
	if (!index || !out) {
		free(out);
		return -ENOMEM;
	}
	for (size_t at = 0; at < seg->buf_len; n++) {
		index[n] = (struct spoor_event_header *)(seg->buf + at);
		at += index[n]->size8 * 8;
	}
	qsort(index, n, sizeof(*index), by_time);
	for (size_t i = 0; i < n; i++) {
		struct spoor_event_header *h = (struct spoor_event_header *)(out + len);

		memcpy(h, index[i], index[i]->size8 * 8);
		if (h->ts < ts)
			h->ts = ts;
		ts = h->ts;
		len += h->size8 * 8;
	}
	*ret = out;
	return 0;
}

static uint64_t last_ts(const uint8_t *buf, size_t len)
{
	uint64_t ts = 0;

	for (size_t at = 0; at < len;) {
		const struct spoor_event_header *h = (const void *)(buf + at);

		ts = h->ts;
		at += h->size8 * 8;
	}
	return ts;
}

int spoor_definitions_flush(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e)
{
	_cleanup_(spoor_freep) uint8_t *sorted = NULL;
	int r;

	if (!seg->buf_len)
		return 0;
	r = sort_definitions(seg, seg->defs->last_ts + 1, &sorted);
	if (r < 0)
		return spoor_fail(e, -r, "%s: out of memory", w->path);
	w->iov[1] = (struct iovec){ sorted, seg->buf_len };
	r = spoor_segments_make_room(w, sizeof(struct spoor_packet) + seg->buf_len, e);
	if (r >= 0) /* without room, too: what is there could not be understood */
		r = write_packet(w, seg->defs, 1, seg->buf_len, ((struct spoor_event_header *)sorted)->ts,
				 last_ts(sorted, seg->buf_len), e);
	/* Kept for the next try (up to DEFS_MAX_BYTES): without its definitions, an event cannot be understood. */
	if (r < 0)
		return r;
	seg->buf_len = 0;
	return 0;
}

int spoor_writer_flush(struct spoor_writer *w, struct spoor_error *e)
{
	int r = 0, r2 = 0;

	if (w->previous)
		r = spoor_definitions_flush(w, w->previous, e);
	if (w->current)
		r2 = spoor_definitions_flush(w, w->current, e);
	return r < 0 ? r : r2;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Streams and packets. A packet is one writev of its header and the caller's spans: there wholly or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "trace/writer_internal.h"

void spoor_instance_name(unsigned stream_id, unsigned instance, char *buf, size_t size)
{
	unsigned cpu = instance % SPOOR_INSTANCE_LEVEL, level = instance / SPOOR_INSTANCE_LEVEL;

	if (instance >= SPOOR_INSTANCE_DEFS(0))
		snprintf(buf, size, "defs");
	else if (stream_id == SPOOR_STREAM_UST)
		snprintf(buf, size, "lane%u", instance);
	else if (level)
		snprintf(buf, size, "cpu%u.%u", cpu, level);
	else
		snprintf(buf, size, "cpu%u", cpu);
}

void spoor_stream_name(const struct writer_stream *s, char *buf, size_t size)
{
	spoor_instance_name(s->part->stream_id, s->instance, buf, size);
}

static int open_stream(struct spoor_writer *w, struct writer_stream *s, struct spoor_error *e)
{
	char name[32];

	spoor_stream_name(s, name, sizeof(name));
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
	s->file_size = 0;
}

int spoor_write_at(int fd, uint64_t offset, struct iovec *iov, int n)
{
	uint64_t at = offset;

	while (n > 0) {
		ssize_t done = pwritev(fd, iov, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			int err = done < 0 ? errno : EIO, r;

			r = ftruncate(fd, offset);
			(void)r; /* if this fails, too: see cut_torn() */
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

	for_each_part(p, w) {
		if (p->previous)
			bytes += p->previous->buf_len + sizeof(struct spoor_packet);
		if (p->current)
			bytes += p->current->buf_len + sizeof(struct spoor_packet);
	}
	return bytes;
}

static const char *remedy(int r)
{
	if (r == -EDQUOT)
		return "; what was written stays readable; raise the quota or use --max-size";
	if (spoor_is_full(r))
		return "; what was written stays readable; free space or use --max-size";
	if (r == -EFBIG)
		return "; what was written stays readable; raise the limit (ulimit -f) or use --rotate";
	return "";
}

static int cannot_write(const struct spoor_writer *w, int r, struct spoor_error *e)
{
	return spoor_fail(e, -r, "%s: cannot write: %s%s", w->path, strerror(-r), remedy(r));
}

static int be_open(struct spoor_writer *w, struct writer_stream *s, struct spoor_error *e)
{
	int r;

	if (w->quota_until && spoor_now_monotonic() < w->quota_until)
		return cannot_write(w, -EDQUOT, e);
	r = s->fd < 0 ? open_stream(w, s, e) : 0;
	if (r >= 0 && vanished(s->fd))
		return spoor_fail(e, ENOENT, "%s: the trace's directory was removed while it was being written",
				  w->path);
	return r;
}

static int store_packet(struct spoor_store *store, const struct writer_stream *s, const struct iovec *iov, int n)
{
	return store->ops->packet(store, s->part->stream_id, s->segment->number, s->instance, s->file_size, iov, n);
}

#define QUOTA_PAUSE 1000000000ULL /* ns */

/*
 * Beyond a quota btrfs has no room for a change that makes a file shorter: what is kept for the last manifest is room
 * for that, and there is some again afterwards, but not after a second time. So then nothing is written for a while. If
 * even this fails, the reader meets a torn packet and spoor_trace_repair() cuts it.
 */
static void cut_torn(struct spoor_writer *w, const struct writer_stream *s)
{
	struct stat st;

	if (fstat(s->fd, &st) < 0 || (uint64_t)st.st_size <= s->file_size)
		return;
	spoor_manifest_give_reserve(w);
	if (ftruncate(s->fd, (off_t)s->file_size) == 0)
		spoor_manifest_keep_reserve(w);
}

/* Events are multiples of 4 bytes, packets of 8. */
static size_t padding(const struct writer_packet *p)
{
	return -p->bytes & 7;
}

static size_t packet_size(const struct writer_packet *p)
{
	return sizeof(struct spoor_packet) + p->bytes + padding(p) + p->n_sources * sizeof(*p->sources);
}

static void account(struct writer_stream *s, uint64_t size, const struct writer_packet *p)
{
	struct writer_segment *seg = s->segment;

	s->file_size += size;
	s->seq++;
	s->last_ts = p->ts_end;
	seg->bytes += size;
	seg->stream_bytes += size;
	if (p->ts_begin < seg->ts_begin)
		seg->ts_begin = p->ts_begin;
	if (p->ts_end > seg->ts_end)
		seg->ts_end = p->ts_end;
}

int spoor_stream_write(struct spoor_writer *w, struct writer_stream *s, const struct writer_packet *p,
		       struct spoor_error *e)
{
	static const uint8_t zeros[8];
	struct spoor_packet h = {
		.magic = SPOOR_PACKET_MAGIC,
		.stream_id = s->part->stream_id,
		.stream_instance_id = s->instance,
		.ts_begin = packet_begin(s, p->ts_begin),
		.ts_end = p->ts_end,
		.content_size = (sizeof(h) + p->bytes) * 8,
		.packet_size = packet_size(p) * 8,
		.seq = s->seq,
		.discarded = s->discarded + s->lost,
		.cpu = p->cpu,
		.segment = s->segment->number,
	};
	int r = w->o.store ? 0 : be_open(w, s, e);

	w->failed |= r < 0;
	if (r < 0)
		return r;
	memcpy(h.uuid, s->part->uuid, sizeof(h.uuid));
	w->iov[0] = (struct iovec){ &h, sizeof(h) };
	w->iov[p->n + 1] = (struct iovec){ (void *)zeros, padding(p) };
	w->iov[p->n + 2] = (struct iovec){ (void *)p->sources, p->n_sources * sizeof(*p->sources) };
	r = w->o.store ? store_packet(w->o.store, s, w->iov, p->n + 3) :
			 spoor_write_at(s->fd, s->file_size, w->iov, p->n + 3);
	if (r < 0 && !w->o.store)
		cut_torn(w, s);
	if (r == -EDQUOT)
		w->quota_until = spoor_now_monotonic() + QUOTA_PAUSE;
	if (r == -ENOBUFS)
		return r;
	w->failed |= r < 0;
	if (r < 0)
		return cannot_write(w, r, e);
	account(s, packet_size(p), p);
	return 0;
}

static void lose_events(const struct spoor_writer *w, struct writer_stream *s, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++) {
		size_t at = 0;

		while (at + sizeof(struct spoor_event_header) <= iov[i].iov_len) {
			const struct spoor_event_header *h = (const void *)((const char *)iov[i].iov_base + at);

			if (spoor_event_size(h) < sizeof(*h))
				break;
			at += spoor_event_size(h);
			s->lost++;
			if (w->lost)
				w->lost(w->lost_ctx, h);
		}
	}
}

struct writer_stream *spoor_cpu_stream(const struct spoor_writer *w, unsigned cpu, unsigned level)
{
	if (!w->kernel || cpu >= w->o.n_cpus || level >= SPOOR_MAX_LEVELS)
		return NULL;
	return &w->kernel->streams[cpu * SPOOR_MAX_LEVELS + level];
}

static struct writer_stream *lane_stream(const struct spoor_writer *w, unsigned lane)
{
	return w->ust && lane < w->ust->n_streams ? &w->ust->streams[lane] : NULL;
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

static int check(struct spoor_writer *w, struct writer_stream *s, const struct iovec *spans, int n_spans,
		 const struct writer_packet *p, struct spoor_error *e)
{
	char name[32];

	for (int i = 0; i < n_spans; i++)
		if (spans[i].iov_len % 4)
			return spoor_fail(e, EINVAL, "%s: a span of %zu bytes does not hold whole events", w->path,
					  spans[i].iov_len);
	if (p->ts_begin >= s->last_ts && p->ts_end >= p->ts_begin)
		return 0;
	lose_events(w, s, spans, n_spans);
	spoor_stream_name(s, name, sizeof(name));
	return spoor_fail(e, EINVAL, "%s: events of %s are out of order", w->path, name);
}

/* It may have told of more before it was taken over. */
static void note_discarded(struct writer_stream *s, uint64_t discarded)
{
	if (s->discarded < s->before + discarded)
		s->discarded = s->before + discarded;
}

/* One packet, or several if there are more spans than one can have. p: its times, and what its header says. */
static int write_events(struct spoor_writer *w, struct writer_stream *s, const struct iovec *spans, int n_spans,
			struct writer_packet *p, uint64_t discarded, struct spoor_error *e)
{
	uint64_t ts_end = p->ts_end;
	int taken, r;

	r = check(w, s, spans, n_spans, p, e);
	if (r < 0)
		return r;
	note_discarded(s, discarded);
	while (n_spans > 0) {
		taken = gather(w, spans, n_spans, &p->n, &p->bytes);
		if (!p->n)
			return 0;
		p->ts_end = ts_end;
		if (taken < n_spans && spans[taken].iov_len)
			p->ts_end = ((const struct spoor_event_header *)spans[taken].iov_base)->ts;
		r = spoor_segments_make_room(w, packet_size(p) + room_of_definitions(w), e);
		if (r > 0)
			r = spoor_stream_write(w, s, p, e);
		else if (r == 0) /* max_size holds only the segments that are being written */
			lose_events(w, s, spans, taken);
		if (r < 0) {
			lose_events(w, s, spans, n_spans);
			return r;
		}
		p->ts_begin = p->ts_end;
		spans += taken;
		n_spans -= taken;
	}
	return 0;
}

int spoor_writer_packet(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans,
			uint64_t ts_begin, uint64_t ts_end, uint64_t discarded, struct spoor_error *e)
{
	struct writer_packet p = { .ts_begin = ts_begin, .ts_end = ts_end, .cpu = cpu };
	struct writer_stream *s = spoor_cpu_stream(w, cpu, level);

	if (!s)
		return spoor_fail(e, EINVAL, "%s: no stream for CPU %u, level %u", w->path, cpu, level);
	return write_events(w, s, spans, n_spans, &p, discarded, e);
}

/* No events, but what became of some; where the last ones were. */
static int write_counts(struct spoor_writer *w, struct writer_stream *s, struct writer_packet *p, uint64_t discarded,
			struct spoor_error *e)
{
	int r;

	note_discarded(s, discarded);
	if (!s->last_ts)
		return 0;
	p->ts_begin = p->ts_end = s->last_ts;
	r = spoor_segments_make_room(w, packet_size(p) + room_of_definitions(w), e);
	return r > 0 ? spoor_stream_write(w, s, p, e) : r;
}

int spoor_writer_lane_packet(struct spoor_writer *w, unsigned lane, const struct spoor_lane_packet *l,
			     struct spoor_error *e)
{
	struct writer_packet p = {
		.ts_begin = l->ts_begin,
		.ts_end = l->ts_end,
		.cpu = l->vtid,
		.sources = l->sources,
		.n_sources = l->n_sources,
	};
	struct writer_stream *s = lane_stream(w, lane);

	if (!s || l->n_spans > SPOOR_MAX_SPANS || l->n_sources > SPOOR_MAX_SOURCES)
		return spoor_fail(e, EINVAL, "%s: no lane %u, or more than it takes at once", w->path, lane);
	return l->n_spans ? write_events(w, s, l->spans, l->n_spans, &p, l->discarded, e) :
			    write_counts(w, s, &p, l->discarded, e);
}

uint64_t spoor_writer_lane_packets(const struct spoor_writer *w, unsigned lane)
{
	const struct writer_stream *s = lane_stream(w, lane);

	return s ? s->seq : 0;
}

uint64_t spoor_writer_lane_end(const struct spoor_writer *w, unsigned lane)
{
	const struct writer_stream *s = lane_stream(w, lane);

	return s ? s->last_ts : 0;
}

void spoor_writer_on_loss(struct spoor_writer *w, void (*lost)(void *ctx, const struct spoor_event_header *event),
			  void *ctx)
{
	w->lost = lost;
	w->lost_ctx = ctx;
}

void spoor_writer_lose(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans)
{
	struct writer_stream *s = spoor_cpu_stream(w, cpu, level);

	if (s)
		lose_events(w, s, spans, n_spans);
}

static void switch_stream(struct writer_stream *s)
{
	if (s->segment == s->part->current)
		return;
	spoor_stream_leave(s);
	s->segment = s->part->current;
}

int spoor_writer_switch_stream(struct spoor_writer *w, unsigned cpu, unsigned level)
{
	struct writer_stream *s = spoor_cpu_stream(w, cpu, level);

	if (!s)
		return -EINVAL;
	switch_stream(s);
	return 0;
}

void spoor_writer_switch_lanes(struct spoor_writer *w)
{
	for (unsigned i = 0; w->ust && i < w->ust->n_streams; i++)
		switch_stream(&w->ust->streams[i]);
}

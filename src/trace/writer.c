/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Streams and packets. A packet is one writev of its header and the caller's spans: there wholly or not at all. */
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

/* ---- open, close ---- */

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

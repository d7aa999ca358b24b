/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets of one stream file, and their events one after another. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

/* A file that is followed is mapped with so much room to grow, and again once that is not enough. */
#define ROOM_TO_GROW (1UL << 30)
/*
 * A process has 65,530 mappings at most (vm.max_map_count), and definitions stay as long as the trace is open: of what
 * is small, which costs no more so, and of the rest once there are many, they are read into memory.
 */
#define SMALL (64 << 10)
#define MANY 30000

static int read_in(struct spoor_cursor *c, int fd, size_t size)
{
	uint8_t *to = malloc(size);
	size_t len = 0;
	ssize_t n;

	if (!to)
		return -ENOMEM;
	while (len < size && (n = read(fd, to + len, size - len))) {
		if (n < 0 && errno != EINTR) {
			int err = errno;

			free(to);
			return -err;
		}
		len += n < 0 ? 0 : n;
	}
	c->map = to;
	c->len = c->mapped = len;
	c->read = 1;
	return 0;
}

static int map_in(struct spoor_cursor *c, int fd, size_t size, int following)
{
	void *map;

	c->mapped = size;
	if (following) /* what lies beyond the end of the file is not touched until the file has grown */
		c->mapped += ROOM_TO_GROW;
	map = mmap(NULL, c->mapped, PROT_READ, following ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, c->mapped, MADV_SEQUENTIAL);
	c->map = map;
	c->len = size;
	return 0;
}

static bool is_to_be_read(const struct spoor_trace *t, size_t size, uint32_t instance)
{
	return !t->following && (size <= SMALL || (instance >= SPOOR_INSTANCE_DEFS(0) && t->defs_mapped >= MANY));
}

int spoor_cursor_open(struct spoor_trace *t, struct spoor_cursor *c, const char *path,
		      const struct spoor_segment *segment, uint32_t instance)
{
	/* A FIFO put in a stream's place must not block us. */
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	int r;

	*c = (struct spoor_cursor){
		.path = path, .segment = segment, .instance = instance, .next_packet = SIZE_MAX
	};
	if (fd < 0 || fstat(fd, &st) < 0) {
		int err = errno;

		if (err != ENOENT || !spoor_trace_was_dropped(t, segment))
			spoor_trace_note(t, path, 0, strerror(err));
		return -err;
	}
	if (!S_ISREG(st.st_mode)) {
		spoor_trace_note(t, path, 0, "not a regular file");
		return -EINVAL;
	}
	if (!st.st_size && !t->following)
		return 0;
	r = is_to_be_read(t, st.st_size, instance) ? read_in(c, fd, st.st_size) :
						     map_in(c, fd, st.st_size, t->following);
	t->defs_mapped += instance >= SPOOR_INSTANCE_DEFS(0) && !r && !c->read;
	if (r < 0) {
		spoor_trace_note(t, path, 0, strerror(-r));
		return r;
	}
	c->next_packet = 0;
	return 0;
}

void spoor_cursor_close(struct spoor_cursor *c)
{
	if (c->map && c->read)
		free((void *)c->map);
	else if (c->map)
		munmap((void *)c->map, c->mapped);
	*c = (struct spoor_cursor){ .next_packet = SIZE_MAX };
}

/* Events are done with by now, so their mapping may move; definitions are pointed to, and stay where they are. */
static void make_room(struct spoor_trace *t, struct spoor_cursor *c, size_t size)
{
	int how = c == &c->segment->defs ? 0 : MREMAP_MAYMOVE;
	void *map = mremap((void *)c->map, c->mapped, size + ROOM_TO_GROW, how);

	if (map == MAP_FAILED) {
		spoor_trace_note(t, c->path, c->mapped, "it cannot be read on while it is followed: no room to map it");
		return;
	}
	c->map = map;
	c->mapped = size + ROOM_TO_GROW;
}

void spoor_cursor_grow(struct spoor_trace *t, struct spoor_cursor *c)
{
	struct stat st;

	if (!c->map || stat(c->path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	/* A relay that goes on cuts what of a packet there is first. */
	if (st.st_size < (off_t)c->len && (size_t)st.st_size < c->next_packet)
		return;
	if ((size_t)st.st_size > c->mapped)
		make_room(t, c, (size_t)st.st_size);
	c->len = (size_t)st.st_size < c->mapped ? (size_t)st.st_size : c->mapped;
}

const char *spoor_packet_check(const struct spoor_packet *p, uint64_t left)
{
	if (left < sizeof(p->magic) || p->magic != SPOOR_PACKET_MAGIC)
		return "no packet begins here";
	if (left < sizeof(*p))
		return "the file ends in a packet's header";
	if (p->packet_size % 64 || p->content_size % 32)
		return "a packet's size is not a multiple of 64 bits, or that of its events not one of 32";
	if (p->content_size < sizeof(*p) * 8 || p->content_size > p->packet_size)
		return "a packet's sizes contradict each other";
	return NULL;
}

/* The parts have uuids of their own; which one the recording has, any packet tells. */
static const char *check_uuid(struct spoor_trace *t, const struct spoor_packet *p)
{
	uint8_t uuid[16];

	if (p->stream_id > SPOOR_STREAM_UST)
		return "a packet of a class of streams that is not known";
	spoor_part_uuid(p->uuid, p->stream_id, uuid);
	if (t->has_uuid && memcmp(uuid, t->uuid, sizeof(uuid)))
		return "a packet of another trace";
	return NULL;
}

/* The packet at `at`, which is whole. What was overwritten in all programs stands second behind the events. */
static void note_overwritten(struct spoor_trace *t, const struct spoor_cursor *c, size_t at,
			     const struct spoor_packet *p)
{
	static const uint8_t none[16];
	struct spoor_packet_source s[2];

	if (p->stream_id != SPOOR_STREAM_UST || p->packet_size / 8 - spoor_packet_behind(p) < sizeof(s))
		return;
	memcpy(s, c->map + at + spoor_packet_behind(p), sizeof(s));
	if (s[1].serial == SPOOR_SOURCE_OVERWRITTEN && !memcmp(s[1].arena, none, sizeof(none)) &&
	    s[1].position > t->info.overwritten)
		t->info.overwritten = s[1].position;
}

/* Moves to the packet at next_packet. Returns 0 if there is none. */
static int enter_packet(struct spoor_trace *t, struct spoor_cursor *c)
{
	size_t at = c->next_packet, left;
	struct spoor_packet p = {};
	const char *bad;

	if (at >= c->len)
		return 0;
	left = c->len - at;
	memcpy(&p, c->map + at, left < sizeof(p) ? left : sizeof(p));
	bad = spoor_packet_check(&p, left);
	if (!bad)
		bad = check_uuid(t, &p);
	if (!bad && p.stream_instance_id != c->instance)
		bad = "a packet of another stream";
	/* What is being written grows: a packet that is not whole yet is no damage. */
	if (t->info.live && (left < sizeof(p) || (!bad && p.packet_size / 8 > left))) {
		if (!t->following)
			c->next_packet = SIZE_MAX;
		return 0;
	}
	if (bad) {
		if (spoor_trace_note(t, c->path, at, bad) && left < sizeof(p))
			t->info.torn_bytes += left;
		c->next_packet = SIZE_MAX;
	}
	if (c->next_packet == SIZE_MAX)
		return 0;
	if (!t->has_uuid) {
		spoor_part_uuid(p.uuid, p.stream_id, t->uuid);
		t->has_uuid = 1;
	}
	c->torn = p.packet_size / 8 > left;
	if (c->torn && spoor_trace_note(t, c->path, at, "the file ends in this packet"))
		t->info.torn_bytes += left;
	c->pos = at + sizeof(p);
	c->end = at + (p.content_size / 8 < left ? p.content_size / 8 : left);
	c->next_packet = c->torn ? SIZE_MAX : at + p.packet_size / 8;
	c->ts_begin = p.ts_begin;
	c->ts_end = p.ts_end;
	c->cpu = p.stream_id == SPOOR_STREAM_UST ? SPOOR_CPU_UNKNOWN : p.cpu;
	c->stream_id = p.stream_id;
	c->discarded = p.discarded;
	if (!c->torn)
		note_overwritten(t, c, at, &p);
	return 1;
}

/* The rest of a damaged packet is lost, but where the next one begins is known. */
static void leave_packet(struct spoor_trace *t, struct spoor_cursor *c, const char *reason)
{
	if (!c->torn)
		spoor_trace_note(t, c->path, c->pos, reason);
	c->pos = c->end;
}

/* Its class may have been defined after we looked: definitions are written before the events. */
static int is_of_later(const struct spoor_trace *t, const struct spoor_cursor *c, const struct spoor_event_header *h)
{
	return t->info.live && c->stream_id == SPOOR_STREAM_UST && h->id >= SPOOR_EV_USER && c != &c->segment->defs &&
	       spoor_event_size(h) >= sizeof(*h) && !spoor_class_of(c->segment, h->id);
}

const struct spoor_event_header *spoor_cursor_next(struct spoor_trace *t, struct spoor_cursor *c)
{
	for (;;) {
		const struct spoor_event_header *h = (const void *)(c->map + c->pos);
		const char *bad;

		if (__builtin_expect(c->end - c->pos < sizeof(*h), 0)) {
			if (c->end != c->pos)
				leave_packet(t, c, "a packet ends in an event's header");
			if (!enter_packet(t, c))
				return NULL;
			continue;
		}
		bad = spoor_event_check(t, c, h, c->end - c->pos);
		if (__builtin_expect(bad != NULL, 0) && is_of_later(t, c, h)) {
			if (!t->following) { /* what was not there when the trace was opened is not seen */
				c->pos = c->end;
				c->next_packet = SIZE_MAX;
				continue;
			}
			spoor_segment_load_more((struct spoor_segment *)c->segment);
			bad = spoor_event_check(t, c, h, c->end - c->pos);
		}
		if (__builtin_expect(bad != NULL, 0)) {
			leave_packet(t, c, bad);
			continue;
		}
		c->pos += spoor_event_size(h);
		c->last_ts = h->ts;
		return h;
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets and events of one stream file. Everything that a user of an event may trust is checked here, once:
 * the event lies within its packet and the file, its time between the packet's begin and end, it has at least the fixed
 * part of its class, the times of a stream never go backwards, and the fields of Spoor's own events (strings with their
 * NUL, frames, data) fill it but for the padding.
 * Arguments of system calls are checked by spoor_call_decode().
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

int spoor_cursor_open(struct spoor_trace *t, struct spoor_cursor *c, const char *path, uint32_t instance)
{
	/* A FIFO put in a stream's place must not block us. */
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	void *map;

	*c = (struct spoor_cursor){ .path = path, .instance = instance, .next_packet = SIZE_MAX };
	if (fd < 0 || fstat(fd, &st) < 0) {
		spoor_trace_note(t, path, 0, strerror(errno));
		return -errno;
	}
	if (!S_ISREG(st.st_mode)) {
		spoor_trace_note(t, path, 0, "not a regular file");
		return -EINVAL;
	}
	if (st.st_size == 0)
		return 0;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		spoor_trace_note(t, path, 0, strerror(errno));
		return -errno;
	}
	madvise(map, st.st_size, MADV_SEQUENTIAL);
	c->map = map;
	c->len = st.st_size;
	c->next_packet = 0;
	return 0;
}

void spoor_cursor_close(struct spoor_cursor *c)
{
	if (c->map)
		munmap((void *)c->map, c->len);
	*c = (struct spoor_cursor){ .next_packet = SIZE_MAX };
}

const char *spoor_packet_check(const struct spoor_packet *p, uint64_t left)
{
	if (left < sizeof(p->magic) || p->magic != SPOOR_PACKET_MAGIC)
		return "no packet begins here";
	if (left < sizeof(*p))
		return "the file ends in a packet's header";
	if (p->packet_size % 64 || p->content_size % 64)
		return "a packet's size is not a multiple of 64 bits";
	if (p->content_size < sizeof(*p) * 8 || p->content_size > p->packet_size)
		return "a packet's sizes contradict each other";
	return NULL;
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
	if (!bad && t->has_uuid && memcmp(p.uuid, t->uuid, sizeof(p.uuid)))
		bad = "a packet of another trace";
	if (!bad && p.stream_instance_id != c->instance)
		bad = "a packet of another stream";
	/* What is being written grows: a packet that is not whole yet is no damage. */
	if (t->info.live && (left < sizeof(p) || (!bad && p.packet_size / 8 > left)))
		bad = NULL, c->next_packet = SIZE_MAX;
	if (bad) {
		if (spoor_trace_note(t, c->path, at, bad) && left < sizeof(p))
			t->info.torn_bytes += left;
		c->next_packet = SIZE_MAX;
	}
	if (c->next_packet == SIZE_MAX)
		return 0;
	if (!t->has_uuid) {
		memcpy(t->uuid, p.uuid, sizeof(p.uuid));
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
	c->cpu = p.cpu;
	c->discarded = p.discarded;
	return 1;
}

/* Offset behind the string that begins at offset; 0: it has no end. */
static size_t behind_string(const struct spoor_event_header *h, size_t offset)
{
	const char *nul = memchr((const char *)h + offset, 0, h->size8 * 8 - offset);

	return nul ? nul + 1 - (const char *)h : 0;
}

static size_t behind_stack(const struct spoor_stack *s)
{
	return sizeof(*s) + s->n * sizeof(s->frames[0]);
}

static size_t behind_pending(const struct spoor_pending *p)
{
	return p->nr < SPOOR_SYSCALL_MAX ? sizeof(*p) + p->len : 0;
}

static int has_build_id(const struct spoor_object *o)
{
	return o->build_id_len <= sizeof(o->build_id);
}

/* How long the event's fields say that it is, without its padding; 0: they make no sense. */
static size_t own_length(const struct spoor_event_header *h, const struct spoor_schema_event *ev)
{
	switch (h->id) {
	case SPOOR_EV_STACK:
		return behind_stack((const void *)h);
	case SPOOR_EV_OBJECT:
		return has_build_id((const void *)h) ? behind_string(h, sizeof(struct spoor_object)) : 0;
	case SPOOR_EV_FILE:
		return behind_string(h, sizeof(struct spoor_file));
	case SPOOR_EV_SOCKET:
		return behind_string(h, sizeof(struct spoor_socket));
	case SPOOR_EV_CONFIG:
		return behind_string(h, sizeof(struct spoor_config));
	case SPOOR_EV_COUNTER:
		return behind_string(h, sizeof(struct spoor_counter));
	case SPOOR_EV_THREAD:
		return ((const struct spoor_thread *)h)->comm[15] ? 0 : sizeof(struct spoor_thread);
	case SPOOR_EV_PENDING:
		return behind_pending((const void *)h);
	default:
		return ev->min_size;
	}
}

/* h->size8 * 8 bytes are readable. Other readers of CTF go by the fields alone: they must agree with the size. */
static const char *check_own(const struct spoor_trace *t, const struct spoor_event_header *h)
{
	const struct spoor_schema_event *ev = spoor_schema_event(h->id);
	size_t size = h->size8 * 8, length;

	if (!ev)
		return NULL; /* of a newer Spoor: users skip what they do not know */
	if (size < ev->min_size)
		return "an event is shorter than its class";
	length = own_length(h, ev);
	if (!length)
		return "an event has an impossible value, or a string without an end";
	if (length > size)
		return "an event's variable part is longer than the event";
	return size - length < 8 || t->changed[h->id] ? NULL : "an event is longer than its fields";
}

static const char *check_event(const struct spoor_trace *t, const struct spoor_cursor *c,
			       const struct spoor_event_header *h)
{
	if (h->size8 < 2)
		return "an event has no size";
	if (h->size8 * 8 > c->end - c->pos)
		return "an event is longer than its packet";
	/* Believed, one damaged time would make all that follows it, in all segments, come too late. */
	if (h->ts < c->ts_begin || h->ts > c->ts_end)
		return "an event's time is not within its packet's";
	if (h->ts < c->last_ts)
		return "time goes backwards";
	if (h->id >= SPOOR_SYSCALL_MAX)
		return check_own(t, h);
	return h->size8 < sizeof(struct spoor_syscall) / 8 ? "an event is shorter than its class" : NULL;
}

/* The rest of a damaged packet is lost, but where the next one begins is known. */
static void leave_packet(struct spoor_trace *t, struct spoor_cursor *c, const char *reason)
{
	if (!c->torn)
		spoor_trace_note(t, c->path, c->pos, reason);
	c->pos = c->end;
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
		bad = check_event(t, c, h);
		if (__builtin_expect(bad != NULL, 0)) {
			leave_packet(t, c, bad);
			continue;
		}
		c->pos += h->size8 * 8;
		c->last_ts = h->ts;
		return h;
	}
}

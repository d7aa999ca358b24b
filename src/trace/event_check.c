/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that a user of an event may trust is checked here, once: the event lies within its packet and the file,
 * its time between the packet's begin and end, it has at least the fixed part of its class, the times of a stream never
 * go backwards, and the fields of Spoor's own events and of user events (strings with their NUL, frames, data,
 * sequences) fill it but for the padding.
 * Arguments of system calls are checked by spoor_call_decode().
 */
#include <string.h>

#include "trace/reader_internal.h"
#include "trace/syscalls.h"

/* Offset behind the string that begins at offset; 0: it has no end. */
static size_t behind_string(const struct spoor_event_header *h, size_t offset)
{
	const char *nul = memchr((const char *)h + offset, 0, spoor_event_size(h) - offset);

	return nul ? nul + 1 - (const char *)h : 0;
}

static size_t behind_stack(const struct spoor_stack *s)
{
	return sizeof(*s) + s->n * sizeof(s->frames[0]);
}

/* It is another id: of itself it would say nothing. */
static size_t behind_alias(const struct spoor_stack_alias *a)
{
	return a->id != a->stack ? sizeof(*a) : 0;
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
	case SPOOR_EV_STACK_ALIAS:
		return behind_alias((const void *)h);
	case SPOOR_EV_OBJECT:
		return has_build_id((const void *)h) ? behind_string(h, sizeof(struct spoor_object)) : 0;
	case SPOOR_EV_PLACE:
		return behind_string(h, sizeof(struct spoor_place));
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
	case SPOOR_EV_PROGRAM:
		return ((const struct spoor_program *)h)->comm[15] ? 0 : sizeof(struct spoor_program);
	case SPOOR_EV_CLASS:
		return sizeof(struct spoor_class) + ((const struct spoor_class *)h)->len;
	case SPOOR_EV_PENDING:
		return behind_pending((const void *)h);
	default:
		return ev->min_size;
	}
}

/* All of its size is readable. Other readers of CTF go by the fields alone: they must agree with the size. */
static const char *check_own(const struct spoor_trace *t, const struct spoor_event_header *h)
{
	const struct spoor_schema_event *ev = spoor_schema_event(h->id);
	size_t size = spoor_event_size(h), length;

	if (!ev)
		return NULL; /* of a newer Spoor: users skip what they do not know */
	if (size < ev->min_size)
		return "an event is shorter than its class";
	length = own_length(h, ev);
	if (!length)
		return "an event has an impossible value, or a string without an end";
	if (length > size)
		return "an event's variable part is longer than the event";
	return size - length < 4 || t->changed[h->id] ? NULL : "an event is longer than its fields";
}

static const char *check_user(const struct spoor_cursor *c, const struct spoor_event_header *h)
{
	const struct spoor_event_class *class = spoor_class_of(c->segment, h->id);
	size_t size = spoor_event_size(h), length;

	if (!class)
		return "an event's class is not defined";
	length = spoor_class_length(class, h);
	if (!length)
		return "an event is shorter than its fields, or a string in it has no end";
	return size - length < 4 ? NULL : "an event is longer than its fields";
}

const char *spoor_event_check(const struct spoor_trace *t, const struct spoor_cursor *c,
			      const struct spoor_event_header *h, size_t left)
{
	if (spoor_event_size(h) < sizeof(*h))
		return "an event has no size";
	if (spoor_event_size(h) > left)
		return "an event is longer than its packet";
	/* Believed, one damaged time would make all that follows it, in all segments, come too late. */
	if (h->ts < c->ts_begin || h->ts > c->ts_end)
		return "an event's time is not within its packet's";
	if (h->ts < c->last_ts)
		return "time goes backwards";
	if (h->id >= SPOOR_EV_USER && c->stream_id == SPOOR_STREAM_UST)
		return check_user(c, h);
	if (h->id >= SPOOR_SYSCALL_MAX)
		return check_own(t, h);
	return spoor_event_size(h) < (t->changed[h->id] ? SPOOR_SYSCALL_FIXED : spoor_syscall_fixed(h->id)) ?
		       "an event is shorter than its class" :
		       NULL;
}

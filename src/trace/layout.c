/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is what the trace calls `openat` laid out like what this Spoor calls so? A trace tells its layouts in its metadata;
 * the reader knows its own by its tables. They are compared class by class when a trace is opened (a millisecond), so
 * that a trace of a Spoor with another table of calls is never misread: what differs is told and not taken apart.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

#define CLASS_BEGIN "event {\n"
#define CLASS_END "\n};\n"

struct class {
	const char *text; /* without CLASS_END */
	size_t len;
};

/* The next event class of the text; *from moves behind it. Returns its id, or -ENOENT. */
static long next_class(const char **from, struct class *ret)
{
	const char *begin = strstr(*from, CLASS_BEGIN), *end, *id;

	end = begin ? strstr(begin, CLASS_END) : NULL;
	if (!end)
		return -ENOENT;
	*from = end;
	ret->text = begin;
	ret->len = end - begin;
	id = memmem(begin, ret->len, "\tid = ", 6);
	return id ? strtol(id + 6, NULL, 10) & LONG_MAX : LONG_MAX;
}

static int is_ours(unsigned id, const struct class *c)
{
	_cleanup_(spoor_freep) char *text = NULL;
	size_t len;
	unsigned stream = memmem(c->text, c->len, "\tstream_id = 1;", 15) ? SPOOR_STREAM_UST : SPOOR_STREAM_KERNEL;

	if (spoor_schema_class(id, stream, &text, &len) < 0)
		return 0;
	return len >= c->len + strlen(CLASS_END) && !memcmp(text, c->text, c->len) &&
	       !strncmp(text + c->len, CLASS_END, strlen(CLASS_END));
}

static void compare(struct spoor_trace *t, const char *path, const char *text)
{
	const char *at = text;
	struct class c;

	for (long id = next_class(&at, &c); id >= 0; id = next_class(&at, &c)) {
		char reason[96];

		/* Ids that are not ours are of a newer Spoor, and passed over as unknown. */
		if (id >= SPOOR_EV_MAX || t->changed[id] || is_ours(id, &c))
			continue;
		t->changed[id] = 1;
		snprintf(reason, sizeof(reason), "event %ld is laid out otherwise than this Spoor knows it", id);
		spoor_trace_note(t, path, c.text - text, reason);
	}
}

/* All segments of a part say the same of what is not user events. 0: this one is gone, and another is to be asked. */
static int check_part(struct spoor_trace *t, const struct spoor_segment *s)
{
	_cleanup_(spoor_freep) char *path = NULL, *text = NULL;
	int r;

	if (asprintf(&path, "%s/metadata", s->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = spoor_read_text(path, 16 << 20, &text);
	if (r == -ENOENT && spoor_trace_was_dropped(t, s))
		return 0;
	if (r < 0)
		spoor_trace_note(t, path, 0, strerror(-r));
	else
		compare(t, path, text);
	return 1;
}

int spoor_trace_check_layout(struct spoor_trace *t)
{
	unsigned checked = UINT_MAX;

	for (unsigned i = 0; i < t->n_segments; i++) {
		const struct spoor_segment *s = t->segments[i];
		int r = s->part == checked ? 0 : check_part(t, s);

		if (r < 0)
			return r;
		if (r)
			checked = s->part;
	}
	return 0;
}

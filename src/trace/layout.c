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

#define CLASS_BEGIN "\nevent {\n"
#define CLASS_END "\n};\n"

struct class
{
	const char *text;
	size_t len;
};

/* The next event class of the text, after from. Returns its id, or -ENOENT. */
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
	return id ? strtol(id + 6, NULL, 10) : LONG_MAX;
}

static void index_own(const char *text, struct class *own)
{
	struct class c;

	for (long id = next_class(&text, &c); id >= 0; id = next_class(&text, &c))
		if (id < SPOOR_EV_MAX)
			own[id] = c;
}

static int same_text(const struct class *a, const struct class *b)
{
	return a->len == b->len && !memcmp(a->text, b->text, a->len);
}

static void compare(struct spoor_trace *t, const char *path, const char *theirs, const struct class *own)
{
	const char *begin = theirs;
	struct class c;

	for (long id = next_class(&theirs, &c); id >= 0; id = next_class(&theirs, &c)) {
		char reason[96];

		/* Ids that are not ours are of a newer Spoor, and passed over as unknown. */
		if (id >= SPOOR_EV_MAX || (own[id].text && same_text(&c, &own[id])))
			continue;
		t->changed[id] = 1;
		snprintf(reason, sizeof(reason), "event %ld is laid out otherwise than this Spoor knows it", id);
		spoor_trace_note(t, path, c.text - begin, reason);
	}
}

int spoor_trace_check_layout(struct spoor_trace *t)
{
	static const uint8_t none[16];
	_cleanup_(spoor_freep) char *path = NULL, *theirs = NULL, *text = NULL;
	_cleanup_(spoor_freep) struct class *own = NULL;
	size_t len;
	int r;

	if (asprintf(&path, "%s/metadata", t->segments[0]->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = spoor_read_text(path, 16 << 20, &theirs);
	if (r < 0) {
		spoor_trace_note(t, path, 0, strerror(-r));
		return 0;
	}
	r = spoor_schema_metadata(&(struct spoor_metadata){ none, none, 0, "", "", "" }, &text, &len);
	if (r < 0)
		return r;
	own = calloc(SPOOR_EV_MAX, sizeof(*own));
	if (!own)
		return -ENOMEM;
	index_own(text, own);
	compare(t, path, theirs, own);
	return 0;
}

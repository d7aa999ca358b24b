/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/digest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

#define MOST_BYTES (256u << 20)
#define MOST_SEGMENTS 1000000
#define ROUND(bytes) (((bytes) + 7) & ~7UL) /* of a record's data */

struct record {
	uint32_t type, len;
};

/* ---- making ---- */

int spoor_digest_add(struct spoor_digest_text *d, uint32_t type, const void *data, size_t len)
{
	size_t padded = ROUND(len), need = d->len + sizeof(struct record) + padded;
	struct record r = { type, padded };

	if (need > MOST_BYTES)
		return -E2BIG;
	if (!d->bytes || need > d->room) {
		size_t room = need * 2;
		uint8_t *grown = realloc(d->bytes, room);

		if (!grown)
			return -ENOMEM;
		d->bytes = grown;
		d->room = room;
	}
	memcpy(d->bytes + d->len, &r, sizeof(r));
	memset(d->bytes + d->len + sizeof(r), 0, padded);
	if (len)
		memcpy(d->bytes + d->len + sizeof(r), data, len);
	d->len = need;
	return 0;
}

static int add_manifest(struct spoor_digest_text *d, const char *path)
{
	_cleanup_(spoor_freep) char *file = NULL, *text = NULL;
	int r;

	if (asprintf(&file, "%s/manifest", path) < 0)
		return file = NULL, -ENOMEM;
	r = spoor_read_text(file, MOST_BYTES / 2, &text);
	return r < 0 ? r : spoor_digest_add(d, SPOOR_DIGEST_MANIFEST, text, strlen(text));
}

static int add_stream(struct spoor_digest_text *d, const struct writer_stream *s)
{
	struct spoor_digest_stream at = {
		.instance = s->instance, .seq = s->seq, .discarded = s->before, .last_ts = s->last_ts
	};

	return s->seq ? spoor_digest_add(d, SPOOR_DIGEST_STREAM, &at, sizeof(at)) : 0;
}

int spoor_digest_add_parts(struct spoor_digest_text *d, const struct spoor_writer *w)
{
	const struct spoor_digest_ids ids = { w->last_stack, w->least_object };
	const struct spoor_source_list *l = &w->sources;
	const struct writer_part *p = w->ust;
	int r = spoor_digest_add(d, SPOOR_DIGEST_IDS, &ids, sizeof(ids));

	for (unsigned i = 0; i < w->n_closed && r >= 0; i++) {
		const struct writer_segment *c = &p->closed[i];
		struct spoor_digest_segment s = { c->number, 0, c->bytes, c->stream_bytes, c->ts_begin, c->ts_end };

		r = spoor_digest_add(d, SPOOR_DIGEST_SEGMENT, &s, sizeof(s));
	}
	for (unsigned i = 0; i < p->n_streams && r >= 0; i++)
		r = add_stream(d, &p->streams[i]);
	for (unsigned i = 0; i < 2 && r >= 0; i++)
		r = add_stream(d, &p->defs[i]);
	for (unsigned i = 0; i < w->n_classes && r >= 0; i++)
		r = spoor_digest_add(d, SPOOR_DIGEST_CLASS, w->classes[i], spoor_event_size(w->classes[i]));
	return r < 0 ? r : spoor_digest_add(d, SPOOR_DIGEST_SOURCES, l->all, l->n * sizeof(*l->all));
}

/*
 * The checkpoint moves on by whole windows: none of the packets that an older one knows is asked for then, and what is
 * kept of packets does not grow with each start.
 */
static void keep_checkpoint(struct spoor_writer *w)
{
	if (!w->checkpoint_len || w->since >= w->window)
		spoor_checkpoint_save(w);
}

int spoor_digest_make(const char *path, const uint8_t boot_id[16], uint64_t window, void **ret, size_t *ret_len,
		      struct spoor_error *e)
{
	_cleanup_(spoor_writer_freep) struct spoor_writer *w = NULL;
	_cleanup_(spoor_digest_text_done) struct spoor_digest_text d = {};
	int r = spoor_writer_look(path, boot_id, window, &w, e);

	if (r < 0)
		return r;
	keep_checkpoint(w);
	r = add_manifest(&d, path);
	if (r >= 0)
		r = spoor_digest_add_parts(&d, w);
	if (r >= 0)
		r = spoor_digest_add(&d, SPOOR_DIGEST_END, NULL, 0);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot tell what is in it: %s", path, strerror(-r));
	*ret = TAKE_PTR(d.bytes);
	*ret_len = d.len;
	return 0;
}

/* ---- reading ---- */

int spoor_digest_next(const void *digest, size_t len, size_t *at, uint32_t *ret_type, const void **ret, size_t *ret_len)
{
	struct record r;

	if (*at > len || len - *at < sizeof(r))
		return -EBADMSG; /* a whole one ends with END */
	memcpy(&r, (const uint8_t *)digest + *at, sizeof(r));
	if (r.len % 8 || r.len > len - *at - sizeof(r))
		return -EBADMSG;
	if (r.type == SPOOR_DIGEST_END)
		return *at + sizeof(r) == len && !r.len ? 0 : -EBADMSG;
	*ret_type = r.type;
	*ret = (const uint8_t *)digest + *at + sizeof(r);
	*ret_len = r.len;
	*at += sizeof(r) + r.len;
	return 1;
}

int spoor_digest_sources(const void *digest, size_t len, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p)
{
	const struct spoor_packet_source *sources;
	size_t at = 0, bytes;
	uint32_t type;
	int r;

	while ((r = spoor_digest_next(digest, len, &at, &type, (const void **)&sources, &bytes)) > 0) {
		if (type != SPOOR_DIGEST_SOURCES)
			continue;
		for (size_t i = 0; i < bytes / sizeof(*sources); i++) {
			struct spoor_packet_source one = sources[i];

			r = each(&one, p);
			if (r)
				return r;
		}
	}
	return r;
}

/* ---- going on by it ---- */

static int take_manifest(struct spoor_writer *w, const char *text, size_t len)
{
	_cleanup_(spoor_freep) char *copy = strndup(text, len);

	return copy ? spoor_resume_manifest(w, copy) : -ENOMEM;
}

int spoor_digest_identity(struct spoor_writer *w, struct spoor_error *e)
{
	const struct spoor_store *store = w->o.store;
	const void *data;
	size_t at = 0, len;
	uint32_t type;
	int r = spoor_digest_next(store->digest, store->digest_len, &at, &type, &data, &len);

	if (r > 0)
		r = type == SPOOR_DIGEST_MANIFEST ? take_manifest(w, data, len) : -EBADMSG;
	else if (!r)
		r = -EBADMSG;
	if (r >= 0 && strcmp(w->host_dir, store->host))
		r = -EBADMSG;
	if (r == -ESTALE)
		return spoor_fail(e, ESTALE, "%s: was recorded before the machine was started again", w->path);
	return r < 0 ? spoor_fail(e, -r, "%s: cannot go on with it: what the relay says of it makes no sense",
				  w->path) :
		       0;
}

static int take_segment(struct spoor_writer *w, const struct spoor_digest_segment *s)
{
	struct writer_segment *all;

	if (s->number <= w->n_begun || s->number > MOST_SEGMENTS || s->bytes > INT64_MAX / 2 ||
	    s->stream_bytes > s->bytes)
		return -EBADMSG;
	all = reallocarray(w->ust->closed, w->n_closed + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	w->ust->closed = all;
	all[w->n_closed++] = (struct writer_segment){ .number = s->number,
						      .fd = -1,
						      .bytes = s->bytes,
						      .stream_bytes = s->stream_bytes,
						      .ts_begin = s->ts_begin,
						      .ts_end = s->ts_end };
	w->n_begun = s->number;
	w->closed_bytes += s->bytes;
	return 0;
}

static int take_stream(struct spoor_writer *w, const struct spoor_digest_stream *at)
{
	struct writer_stream *s;

	if (at->instance >= w->ust->n_streams && at->instance != SPOOR_INSTANCE_DEFS(0) &&
	    at->instance != SPOOR_INSTANCE_DEFS(1))
		return -EBADMSG;
	s = at->instance < w->ust->n_streams ? &w->ust->streams[at->instance] : &w->ust->defs[at->instance & 1];
	s->seq = at->seq;
	s->before = s->discarded = at->discarded;
	s->last_ts = at->last_ts;
	return 0;
}

static int take_class(struct spoor_writer *w, const void *data, size_t len)
{
	_cleanup_(spoor_freep) struct spoor_event_class *c = NULL;
	const struct spoor_class *def = data;
	int r;

	if (len < sizeof(*def) || ROUND(spoor_event_size(def)) != len || sizeof(*def) + def->len > len)
		return -EBADMSG;
	r = spoor_class_decode(def, &c);
	if (r < 0)
		return r;
	return c->id != SPOOR_EV_USER + w->n_classes ? -EBADMSG : spoor_class_restore(w, c, def->h.ts);
}

static int take_record(struct spoor_writer *w, uint32_t type, const void *data, size_t len)
{
	struct spoor_digest_segment segment;
	struct spoor_digest_stream stream;
	struct spoor_digest_ids ids;

	switch (type) {
	case SPOOR_DIGEST_SEGMENT:
		if (len != sizeof(segment))
			return -EBADMSG;
		memcpy(&segment, data, len);
		return take_segment(w, &segment);
	case SPOOR_DIGEST_STREAM:
		if (len != sizeof(stream))
			return -EBADMSG;
		memcpy(&stream, data, len);
		return take_stream(w, &stream);
	case SPOOR_DIGEST_CLASS:
		return take_class(w, data, len);
	case SPOOR_DIGEST_IDS:
		if (len != sizeof(ids))
			return -EBADMSG;
		memcpy(&ids, data, len);
		if (ids.least_object >= SPOOR_MAX_OBJECTS)
			return -EBADMSG;
		w->last_stack = ids.last_stack;
		w->least_object = ids.least_object;
		return 0;
	}
	return 0;
}

int spoor_digest_take(struct spoor_writer *w, const void *digest, size_t digest_len)
{
	const void *data;
	size_t at = 0, len;
	uint32_t type;
	int r;

	while ((r = spoor_digest_next(digest, digest_len, &at, &type, &data, &len)) > 0) {
		r = take_record(w, type, data, len);
		if (r < 0)
			break;
	}
	return r;
}

int spoor_digest_parts(struct spoor_writer *w, struct spoor_error *e)
{
	int r = spoor_digest_take(w, w->o.store->digest, w->o.store->digest_len);

	return r < 0 ? spoor_fail(e, -r, "%s: cannot go on with it: what the relay says of it makes no sense",
				  w->path) :
		       0;
}

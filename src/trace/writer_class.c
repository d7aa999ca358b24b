/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Classes of user events, as they become known. Each stands in the metadata of every segment from then on (its text
 * only grows, so that a reader which takes one segment's for all of them takes the longest), and in its definitions.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "trace/writer_internal.h"

/* Segments that have the same text share it; this one is to have another. */
static int replace_metadata(const struct writer_part *p, struct writer_segment *s, const char *text, size_t len)
{
	_cleanup_(spoor_closep) int fd = openat(s->fd, "metadata.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct iovec iov[] = { { p->metadata, p->metadata_len }, { (void *)text, len } };
	int r = fd < 0 ? -errno : spoor_write_at(fd, 0, iov, 2);

	if (r >= 0 && renameat(s->fd, "metadata.new", s->fd, "metadata") < 0)
		r = -errno;
	if (r < 0)
		unlinkat(s->fd, "metadata.new", 0);
	else
		s->bytes += p->metadata_len + len;
	return r;
}

static int extend_here(const struct writer_part *p, struct writer_segment *s, const char *text, size_t len)
{
	_cleanup_(spoor_closep) int fd = openat(s->fd, "metadata", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink != 1)
		return replace_metadata(p, s, text, len);
	r = spoor_write_at(fd, p->metadata_len, &(struct iovec){ (void *)text, len }, 1);
	if (r >= 0)
		s->bytes += len;
	return r;
}

static int extend_metadata(struct spoor_store *store, const struct writer_part *p, struct writer_segment *s,
			   const char *text, size_t len)
{
	int r;

	if (!store)
		return extend_here(p, s, text, len);
	r = store->ops->metadata(store, p->stream_id, s->number, p->metadata_len, text, len);
	if (r >= 0)
		s->bytes += len;
	return r;
}

/* As it was before extend_metadata(), which succeeded. If this fails, too, it has a class that no event is of. */
static void shorten_metadata(struct spoor_store *store, const struct writer_part *p, struct writer_segment *s,
			     size_t len)
{
	_cleanup_(spoor_closep) int fd = -1;

	if (store) {
		if (store->ops->metadata(store, p->stream_id, s->number, p->metadata_len, NULL, 0) >= 0)
			s->bytes -= len;
		return;
	}
	fd = openat(s->fd, "metadata", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && ftruncate(fd, (off_t)p->metadata_len) == 0)
		s->bytes -= len;
}

/* In memory and in all open segments, or nowhere. */
static int add_text(struct spoor_store *store, struct writer_part *p, const char *text, size_t len)
{
	char *all = realloc(p->metadata, p->metadata_len + len);
	int r = 0;

	if (!all)
		return -ENOMEM;
	p->metadata = all;
	if (p->previous)
		r = extend_metadata(store, p, p->previous, text, len);
	if (r < 0)
		return r;
	r = extend_metadata(store, p, p->current, text, len);
	if (r < 0) {
		if (p->previous)
			shorten_metadata(store, p, p->previous, len);
		return r;
	}
	memcpy(all + p->metadata_len, text, len);
	p->metadata_len += len;
	return 0;
}

static int make_room(struct spoor_writer *w)
{
	struct spoor_class **classes;

	if (w->n_classes & (w->n_classes - 1))
		return 0;
	classes = reallocarray(w->classes, w->n_classes ? w->n_classes * 2 : 1, sizeof(*classes));
	if (!classes)
		return -ENOMEM;
	w->classes = classes;
	return 0;
}

int spoor_class_restore(struct spoor_writer *w, const struct spoor_event_class *c, uint64_t ts)
{
	_cleanup_(spoor_freep) struct spoor_class *def = NULL;
	_cleanup_(spoor_freep) char *text = NULL, *all = NULL;
	struct writer_part *p = w->ust;
	size_t len;
	int r;

	r = spoor_class_encode(c, &def);
	if (r >= 0)
		r = spoor_class_metadata(c, &text, &len);
	if (r >= 0)
		r = make_room(w);
	if (r < 0)
		return r;
	all = realloc(p->metadata, p->metadata_len + len);
	if (!all)
		return -ENOMEM;
	memcpy(all + p->metadata_len, text, len);
	p->metadata = TAKE_PTR(all);
	p->metadata_len += len;
	def->h.ts = ts;
	w->classes[w->n_classes++] = TAKE_PTR(def);
	return 0;
}

const struct spoor_class *spoor_writer_known_class(const struct spoor_writer *w, unsigned i)
{
	return i < w->n_classes ? w->classes[i] : NULL;
}

static int add_class(struct spoor_writer *w, struct spoor_event_class *c, uint64_t ts, struct spoor_error *e)
{
	_cleanup_(spoor_freep) struct spoor_class *def = NULL;
	_cleanup_(spoor_freep) char *text = NULL;
	size_t len;
	int r;

	r = spoor_class_encode(c, &def);
	if (r >= 0)
		r = spoor_class_metadata(c, &text, &len);
	if (r >= 0)
		r = make_room(w);
	if (r >= 0) /* without room below max_size, too: as for definitions */
		r = spoor_segments_make_room(w, len + spoor_event_size(def), e);
	if (r >= 0)
		r = add_text(w->o.store, w->ust, text, len);
	if (r < 0)
		return r;
	def->h.ts = ts;
	w->classes[w->n_classes++] = def;
	return spoor_part_define(w, w->ust, (const void *)TAKE_PTR(def));
}

int spoor_writer_class(struct spoor_writer *w, const struct spoor_event_class *c, uint64_t ts, uint16_t *ret_id,
		       struct spoor_error *e)
{
	struct spoor_event_class new = *c;
	int r;

	if (!w->ust)
		return spoor_fail(e, EINVAL, "%s: has no part for user events", w->path);
	if (SPOOR_EV_USER + w->n_classes >= SPOOR_EV_USER_MAX)
		return spoor_fail(e, E2BIG, "%s: more than %d kinds of user events", w->path,
				  SPOOR_EV_USER_MAX - SPOOR_EV_USER);
	new.id = SPOOR_EV_USER + w->n_classes;
	r = add_class(w, &new, ts, e);
	if (r < 0) {
		w->failed |= r != -EINVAL && r != -E2BIG;
		return spoor_fail(e, -r, "%s: cannot take in the class of %s: %s", w->path, c->name ?: "an event",
				  strerror(-r));
	}
	*ret_id = new.id;
	return 0;
}

int spoor_classes_repeat(struct spoor_writer *w, struct writer_segment *s)
{
	const struct writer_segment *before = w->ust->current;
	int r = 0;

	for (unsigned i = 0; i < w->n_classes && r >= 0; i++) {
		if (before && w->classes[i]->h.ts < before->ts_end)
			w->classes[i]->h.ts = before->ts_end;
		r = spoor_segment_define(s, (const void *)w->classes[i]);
	}
	return r;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of objects, from the moment that they are entered. */
#include "collect/session/objects_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"

/* ---- entries ---- */

void spoor_objects_free_entry(struct spoor_object_entry *o)
{
	if (!o)
		return;
	if (o->has_rows)
		spoor_rows_free(&o->rows);
	free(o->path);
	free(o->place);
	free(o->reached);
	free(o);
}

struct spoor_object_entry *spoor_objects_entry(uint32_t id, const char *path, size_t len)
{
	struct spoor_object_entry *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->id = id;
	o->path = strndup(path, len);
	if (!o->path) {
		free(o);
		return NULL;
	}
	return o;
}

/* ---- finding ---- */

const struct spoor_object_entry *spoor_objects_get(struct spoor_objects *s, uint32_t id)
{
	const struct spoor_object_entry *o = NULL;

	pthread_mutex_lock(&s->lock);
	if (id < SPOOR_KERNEL_OBJECTS && s->entries[id] && s->entries[id]->loaded)
		o = s->entries[id];
	pthread_mutex_unlock(&s->lock);
	return o;
}

/* With a text behind what is fixed. NULL: no memory. */
static void *new_definition(unsigned id, size_t fixed, const char *text)
{
	size_t len = strlen(text) + 1, size = SPOOR_EVENT_ROUND(fixed + len);
	struct spoor_event_header *h = calloc(1, size);

	if (!h)
		return NULL;
	h->id = id;
	h->size4 = SPOOR_SIZE4(size);
	h->ts = spoor_now_monotonic();
	memcpy((char *)h + fixed, text, len);
	return h;
}

struct spoor_object *spoor_objects_definition(struct spoor_objects *s, uint32_t id)
{
	const struct spoor_object_entry *o = spoor_objects_get(s, id);
	struct spoor_object *def = o ? new_definition(SPOOR_EV_OBJECT, sizeof(*def), o->path) : NULL;

	if (!def)
		return NULL;
	def->id = id;
	def->flags = o->flags;
	def->dev = o->key.dev;
	def->ino = o->key.ino;
	def->size = o->key.size;
	def->mtime = o->key.mtime;
	def->hash_lo = o->identity.hash[0];
	def->hash_hi = o->identity.hash[1];
	def->build_id_len = o->identity.build_id_len;
	memcpy(def->build_id, o->identity.build_id, sizeof(def->build_id));
	return def;
}

struct spoor_place *spoor_objects_place(struct spoor_objects *s, uint32_t id)
{
	const struct spoor_object_entry *o = spoor_objects_get(s, id);
	struct spoor_place *place = NULL;

	if (o && o->reached)
		place = new_definition(SPOOR_EV_PLACE, sizeof(*place), o->reached);
	if (place)
		place->object = id;
	return place;
}

uint32_t spoor_objects_find(struct spoor_objects *s, uint64_t ino, uint64_t dev)
{
	uint32_t id = SPOOR_OBJECT_NONE;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = SPOOR_OBJECT_VDSO + 1; i < SPOOR_KERNEL_OBJECTS && !id; i++)
		if (s->entries[i] && s->entries[i]->key.ino == ino && s->entries[i]->key.dev == dev)
			id = i;
	pthread_mutex_unlock(&s->lock);
	return id;
}

void spoor_objects_counts(struct spoor_objects *s, struct spoor_objects_counts *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->counts;
	pthread_mutex_unlock(&s->lock);
}

/* ---- beginning and end ---- */

static void spoor_objects_freep(struct spoor_objects **s)
{
	spoor_objects_free(*s);
}

void spoor_objects_init(struct spoor_objects *s)
{
	s->last = &s->first;
	s->unwound_last = &s->unwound;
	s->done_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
}

int spoor_objects_new(const struct spoor_objects_options *o, struct spoor_objects **ret, struct spoor_error *e)
{
	_cleanup_(spoor_objects_freep) struct spoor_objects *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->o = *o;
	spoor_objects_init(s);
	s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = spoor_rowd_start(o->cache_dir, &s->rowd, e);
	if (r)
		return r;
	r = spoor_layouts_new(&s->layouts);
	if (r)
		return r;
	r = spoor_row_store_new(o->kernel, o->max_row_bytes, &s->store);
	if (r)
		return r;
	spoor_objects_load_own(s);
	r = spoor_loader_start(s, e);
	if (r)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

void spoor_objects_free(struct spoor_objects *s)
{
	if (!s)
		return;
	spoor_loader_stop(s);
	spoor_layouts_free(s->layouts);
	for (unsigned i = 0; i < SPOOR_KERNEL_OBJECTS; i++) {
		for (struct spoor_object_entry *o = s->entries[i], *older; o; o = older) {
			older = o->older;
			spoor_objects_free_entry(o);
		}
	}
	spoor_row_store_free(s->store);
	spoor_rowd_stop(s->rowd);
	close(s->done_fd);
	free(s);
}

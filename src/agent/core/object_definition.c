/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What arenas tell of objects, and what the recorder answers. */
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/core/clock.h"
#include "agent/core/maps.h"
#include "agent/core/object_table.h"
#include "agent/core/process.h"

#define FOR_CLASSES (64 << 10) /* bytes */

_Static_assert(CODE_OBJECTS <= UINT16_MAX, "their numbers are ids of definitions");

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void describe_file(const struct code_object *o, struct spoor_def_object *d, const char *path)
{
	struct stat st = { 0 };

	if (sys_failed(sys3(SYS_stat, path, &st, 0)) || st.st_ino != d->ino || o->flags & SPOOR_DEF_OBJECT_VDSO)
		return;
	d->size = (uint64_t)st.st_size;
	d->mtime = ns_of(st.st_mtim);
	d->ctime = ns_of(st.st_ctim);
}

/* The kernel adds that to the name of a file that has none any more. */
static size_t without_deleted(const char *path, uint32_t *flags)
{
	static const char deleted[] = " (deleted)";
	size_t n = strlen(path);

	if (n <= sizeof(deleted) - 1 || strcmp(path + n - (sizeof(deleted) - 1), deleted))
		return n;
	*flags |= SPOOR_DEF_OBJECT_DELETED;
	return n - (sizeof(deleted) - 1);
}

/* -E2BIG: for good. Of more objects readers take none; and classes of events need room, too. */
static int define_object(struct arena_made *made, const struct spoor_def *def)
{
	uint64_t left = made->arena->defs_size - made->defined;
	int r;

	if (made->n_objects >= SPOOR_ARENA_MAX_OBJECTS || left < FOR_CLASSES + def->size)
		return -E2BIG;
	r = arena_define(made, def);
	made->n_objects += !r;
	return r;
}

static int define(struct code_object *o, struct arena_made *made)
{
	static struct mapped m;
	static struct {
		struct spoor_def_object d;
		char path[sizeof(m.path) + 8];
	} def;
	struct spoor_def_object *d = &def.d;
	size_t n;

	memset(&def, 0, sizeof(def));
	m = (struct mapped){ 0 };
	mapped_at(o->start, &m); /* without /proc it is known by its build-id */
	*d = (struct spoor_def_object){ .start = o->start, .end = o->end, .bias = o->bias, .flags = o->flags };
	d->since = !o->map ? 0 : made->arena->clock == SPOOR_ARENA_TSC ? rdtsc() : clock_monotonic();
	d->dev = m.dev;
	d->ino = m.ino;
	describe_file(o, d, m.path);
	n = without_deleted(m.path, &d->flags);
	if (o->flags & SPOOR_DEF_OBJECT_VDSO)
		n = strlen(strcpy(m.path, "[vdso]"));
	memcpy(def.path, m.path, n);
	d->build_id_len = o->id_len;
	memcpy(d->build_id, o->id, o->id_len);
	d->def.type = SPOOR_DEF_OBJECT;
	d->def.id = (uint16_t)code_object_number(o);
	d->def.size = (uint32_t)((sizeof(*d) + n + 1 + 7) & ~7UL);
	return define_object(made, &d->def);
}

struct code_class code_anonymous[SPOOR_OUTPUTS];

static void classify(struct code_class *c, uint16_t app, uint16_t limit, uint32_t generation)
{
	c->app = app;
	c->limit = limit;
	__atomic_store_n(&c->classified, generation, __ATOMIC_RELEASE);
}

static bool define_locked(struct code_object *o, const struct slot *s)
{
	uint32_t generation = output_generation(s->output);
	struct code_class *in = &o->in[s->output - outputs];
	ElfW(Ehdr) header = { 0 };
	int r;

	if (in->defined == generation)
		return true;
	if (!o->map && !o->id_at && code_peek(&header, o->start, sizeof(header)))
		code_object_read_headers(o, o->start + header.e_phoff, header.e_phnum);
	r = define(o, &s->output->made);
	if (r == -E2BIG)
		__atomic_store_n(&in->refused, generation, __ATOMIC_RELAXED);
	if (r)
		return false;
	if (s->output->wish.dir[0]) /* without a recorder, who says more */
		classify(in, !!(o->flags & SPOOR_DEF_OBJECT_MAIN), 0, generation);
	__atomic_store_n(&in->defined, generation, __ATOMIC_RELEASE);
	return true;
}

bool code_object_define(struct code_object *o, const struct slot *s)
{
	const struct output *out = s->output;
	const struct code_class *in;
	bool r = true;

	if (!out)
		return true; /* the event goes nowhere */
	in = &o->in[out - outputs];
	if (__atomic_load_n(&in->defined, __ATOMIC_ACQUIRE) == output_generation(out))
		return true;
	if (__atomic_load_n(&in->refused, __ATOMIC_RELAXED) == output_generation(out))
		return false; /* to ask again would cost each event as much */
	if (!outputs_lock(true))
		return false;
	if (s->output == out)
		r = define_locked(o, s);
	process_unlock();
	return r;
}

void code_objects_define(const struct slot *s)
{
	uint32_t i;

	for (i = 0; i < n_code_objects; i++)
		if (!code_objects[i].map)
			define_locked(&code_objects[i], s);
}

unsigned code_objects_awaited(const struct slot *s)
{
	uint32_t i, n = 0;

	for (i = 0; s->output && i < n_code_objects; i++) {
		const struct code_object *o = &code_objects[i];

		n += !o->map && !code_class_of(o, s->output);
	}
	return n;
}

void code_object_answer(const struct code_answer *a, const struct output *out)
{
	struct code_object *o;

	if (!a->start && !a->end && !a->bias)
		classify(&code_anonymous[out - outputs], a->app, a->limit, output_generation(out));
	if (!a->object || a->object > n_code_objects)
		return;
	/* It may be gone: it may come back. */
	o = code_object_numbered(a->object);
	if (o->start != a->start || o->end != a->end || o->bias != a->bias)
		return;
	classify(&o->in[out - outputs], a->app, a->limit, output_generation(out));
	if (o->rows != CODE_ROWS_THERE) {
		bool there = a->fd >= 0 && !rows_map(a->fd, &o->table);

		__atomic_store_n(&o->rows, there ? CODE_ROWS_THERE : CODE_ROWS_NONE, __ATOMIC_RELEASE);
	}
	code_new_epoch();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/jit_place.h"
#include "analyze/object_file.h"
#include "base/cleanup.h"
#include "object/debuglink.h"
#include "trace/reader.h"

#define DEFAULT_DEBUG_ROOT "/usr/lib/debug"

struct pack {
	const struct spoor_pack_options *o;
	const char *debug_root;
	struct spoor_jit_places places;
	struct spoor_roots roots; /* of containers whose processes run still */
	struct spoor_trace *trace;
	struct spoor_packed *packed;
	struct spoor_error *e;
	const struct spoor_object *objects[SPOOR_MAX_OBJECTS]; /* by id: those that occur in stacks */
	const char *object_places[SPOOR_MAX_OBJECTS];
	struct spoor_traced_process *processes;
	size_t n, size;
	int bare; /* there are frames without an object */
};

static void pack_freep(struct pack **p)
{
	if (!*p)
		return;
	spoor_packed_close((*p)->packed);
	spoor_trace_close((*p)->trace);
	spoor_roots_done(&(*p)->roots);
	free((*p)->processes);
	free(*p);
}

static void say(struct pack *p, struct spoor_pack_item item)
{
	if (p->o->each)
		p->o->each(p->o->p, &item);
}

/* ---- what is needed ---- */

static void see_stack(struct pack *p, const struct spoor_event *ev)
{
	const struct spoor_stack *stack = (const void *)ev->h;

	for (unsigned i = 0; i < stack->n; i++) {
		uint32_t id = SPOOR_FRAME_OBJECT(stack->frames[i]);

		if (!id)
			p->bare = 1;
		if (!id || p->objects[id])
			continue;
		p->objects[id] = spoor_segment_object(ev->segment, id);
		p->object_places[id] = spoor_segment_place(ev->segment, id);
	}
}

static int see_thread(struct pack *p, const struct spoor_thread *t)
{
	struct spoor_traced_process o = spoor_traced_process(t->pid, t);

	if (p->n && !memcmp(&p->processes[p->n - 1], &o, sizeof(o)))
		return 0;
	if (p->n == p->size) {
		size_t size = p->size ? p->size * 2 : 64;
		struct spoor_traced_process *processes = reallocarray(p->processes, size, sizeof(*processes));

		if (!processes)
			return -ENOMEM;
		p->processes = processes;
		p->size = size;
	}
	p->processes[p->n++] = o;
	return 0;
}

/* Of several with one pid the last comes first. */
static int by_pid(const void *a, const void *b)
{
	const struct spoor_traced_process *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start > y->start ? -1 : x->start < y->start;
}

static int collect(struct pack *p)
{
	struct spoor_event ev;
	int r;

	while ((r = spoor_trace_next(p->trace, &ev)) == 1) {
		if (ev.h->id == SPOOR_EV_STACK)
			see_stack(p, &ev);
		else if (ev.h->id == SPOOR_EV_THREAD && see_thread(p, (const void *)ev.h) < 0)
			return -ENOMEM;
	}
	if (p->n)
		qsort(p->processes, p->n, sizeof(*p->processes), by_pid);
	return r;
}

/* ---- packing ---- */

/* Maps of code made at run time get longer as a process runs: does this one go on where that ends? */
static bool goes_on(int fd, int before)
{
	char now[4096], then[4096];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(before, then, sizeof(then), at)) > 0) {
		if (pread(fd, now, (size_t)n, at) != n || memcmp(now, then, (size_t)n))
			return false;
		at += n;
	}
	return n == 0 && pread(fd, now, 1, at) == 1;
}

static bool is_up_to_date(const struct spoor_packed_name *name, int fd, int old, const uint64_t hash[2],
			  const uint64_t *expected)
{
	if (expected)
		return !memcmp(hash, expected, 2 * sizeof(*hash));
	return name->kind != SPOOR_PACKED_JIT || !goes_on(fd, old);
}

/* Also replaces what is damaged. */
static int add(struct pack *p, const struct spoor_packed_name *name, int fd, const uint64_t *expected, const char *path)
{
	struct spoor_pack_item item = { .kind = name->kind, .path = path };
	_cleanup_(spoor_closep) int old = -1;
	uint64_t hash[2];
	int r;

	if (spoor_packed_get(p->packed, name, &old, hash) == 0 && is_up_to_date(name, fd, old, hash, expected)) {
		item.state = SPOOR_PACK_ALREADY;
		say(p, item);
		return 0;
	}
	r = spoor_packed_add(p->packed, name, fd, expected, path, &item.size, &item.stored, p->e);
	if (r == -ESTALE)
		item.state = SPOOR_PACK_CHANGED;
	if (r == 0 || r == -ESTALE)
		say(p, item);
	return r == -ESTALE ? 0 : r;
}

static int open_elf(int fd, struct spoor_elf *ret)
{
	struct spoor_image image = { .fd = fd };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	image.size = (uint64_t)st.st_size;
	return spoor_elf_open(&image, ret, NULL);
}

/* Where a file says that its debugging information is. */
static int open_linked(int fd, const char *debug_root, bool supplement)
{
	struct spoor_elf elf;
	int linked;

	if (open_elf(fd, &elf) < 0)
		return -ENOENT;
	linked = supplement ? spoor_debugaltlink_open(&elf, debug_root) :
			      spoor_debuglink_open(&elf, debug_root, NULL);
	spoor_elf_close(&elf);
	return linked;
}

static int pack_debug(struct pack *p, const struct spoor_object *object, int fd)
{
	struct spoor_packed_name name = { SPOOR_PACKED_DEBUG, { object->hash_lo, object->hash_hi }, 0 };
	_cleanup_(spoor_closep) int debug = open_linked(fd, p->debug_root, false), supplement = -1;
	int r = debug < 0 ? 0 : add(p, &name, debug, NULL, object->path);

	if (r < 0)
		return r;
	supplement = open_linked(debug < 0 ? fd : debug, p->debug_root, true);
	name.kind = SPOOR_PACKED_SUPPLEMENT;
	return supplement < 0 ? 0 : add(p, &name, supplement, NULL, object->path);
}

static int pack_object(struct pack *p, const struct spoor_object *object)
{
	struct spoor_packed_name name = { SPOOR_PACKED_OBJECT, { object->hash_lo, object->hash_hi }, 0 };
	struct spoor_pack_item item = { .kind = SPOOR_PACKED_OBJECT, .path = object->path };
	_cleanup_(spoor_closep) int fd = -1;
	int r = spoor_object_packed_open(object, p->packed, &fd);

	if (!object->hash_lo && !object->hash_hi) {
		item.state = SPOOR_PACK_UNKNOWN;
		say(p, item);
		return 0;
	}
	if (r < 0) {
		const char *place = p->object_places[object->id];
		enum spoor_object_state state =
			spoor_object_file_open(object, place, &p->roots, p->places.trace.epoch_offset, &fd);

		if (state != SPOOR_OBJECT_SAME) {
			item.state = state == SPOOR_OBJECT_CHANGED ? SPOOR_PACK_CHANGED : SPOOR_PACK_UNREADABLE;
			say(p, item);
			return 0;
		}
	}
	r = add(p, &name, fd, name.hash, object->path);
	return r < 0 ? r : pack_debug(p, object, fd);
}

static int pack_maps(struct pack *p)
{
	for (size_t i = 0; p->bare && i < p->n; i++) {
		const struct spoor_traced_process *o = &p->processes[i];
		struct spoor_packed_name name = { .kind = SPOOR_PACKED_JIT, .pid = o->pid };
		_cleanup_(spoor_closep) int fd = -1;
		char path[SPOOR_JIT_PATH];
		int r;

		if (i && o->pid == o[-1].pid)
			continue;
		fd = spoor_jit_open(&p->places, o, path);
		if (fd < 0)
			continue;
		r = add(p, &name, fd, NULL, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pack_all(struct pack *p)
{
	for (uint32_t id = 1; id < SPOOR_MAX_OBJECTS; id++) {
		int r = p->objects[id] ? pack_object(p, p->objects[id]) : 0;

		if (r < 0)
			return r;
	}
	return pack_maps(p);
}

int spoor_pack(const char *path, const struct spoor_pack_options *o, struct spoor_error *e)
{
	_cleanup_(pack_freep) struct pack *p = calloc(1, sizeof(*p));
	const struct spoor_trace_info *info;
	int r, r2;

	if (!p)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	p->o = o;
	p->e = e;
	p->debug_root = o->debug_root ?: DEFAULT_DEBUG_ROOT;
	r = spoor_trace_open(path, &p->trace, e);
	if (r < 0)
		return r;
	info = spoor_trace_info(p->trace);
	p->places = spoor_jit_places(o->jit_folder, info);
	if (info->live)
		return spoor_fail(e, EBUSY, "%s: is being written; stop the recording first", path);
	r = collect(p);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot read: %s", path, strerror(-r));
	for (size_t i = 0; i < p->n; i++)
		spoor_roots_add(&p->roots, &p->places.trace, &p->processes[i]);
	r = spoor_packed_begin(info->root, &p->packed, e);
	if (r < 0)
		return r;
	r = pack_all(p);
	r2 = spoor_packed_save(p->packed, r < 0 ? NULL : e);
	return r < 0 ? r : r2;
}

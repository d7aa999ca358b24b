/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/symbolize.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/jit_map.h"
#include "analyze/jit_place.h"
#include "analyze/object_file.h"
#include "base/cleanup.h"
#include "object/made_code.h"
#include "trace/packed.h"

#define MAX_NOTES 1000

struct object {
	const struct spoor_object *def;
	struct spoor_symbols *symbols; /* NULL: offsets only */
	bool noted;                    /* why its debugging information is not used */
};

struct jit {
	uint32_t pid;
	struct spoor_symtab symtab;
};

struct slot {
	uint64_t key;
	uint32_t pid; /* of bare addresses; else 0 */
	bool exact;
	struct spoor_frame *frame;
};

struct spoor_symbolizer {
	char *debug_root; /* NULL: the default */
	char *jit_folder;
	struct spoor_jit_places places;
	struct spoor_roots roots;
	const struct spoor_segment *roots_of; /* whose processes' these are; NULL: nobody's yet */
	struct spoor_packed *packed; /* NULL: none */
	struct object **objects;     /* by id */
	size_t n_objects;
	struct jit **jits;
	size_t n_jits;
	struct slot *slots; /* open addressing, a power of two */
	size_t size, n;
	char *notes[MAX_NOTES];
	unsigned n_notes;
};

int spoor_symbolizer_new(const char *debug_root, const char *jit_folder, struct spoor_symbolizer **ret)
{
	struct spoor_symbolizer *z = calloc(1, sizeof(*z));

	if (!z)
		return -ENOMEM;
	z->debug_root = debug_root ? strdup(debug_root) : NULL;
	z->jit_folder = strdup(jit_folder ?: "/tmp");
	z->places = spoor_jit_places(z->jit_folder, NULL);
	z->size = 1024;
	z->slots = calloc(z->size, sizeof(*z->slots));
	if (!z->slots || !z->jit_folder || (debug_root && !z->debug_root)) {
		spoor_symbolizer_free(z);
		return -ENOMEM;
	}
	*ret = z;
	return 0;
}

static void free_frame(struct spoor_frame *f)
{
	if (!f)
		return;
	free((void *)f->lines);
	free(f);
}

void spoor_symbolizer_free(struct spoor_symbolizer *z)
{
	if (!z)
		return;
	for (size_t i = 0; z->slots && i < z->size; i++)
		free_frame(z->slots[i].frame);
	for (size_t i = 0; i < z->n_objects; i++) {
		if (z->objects[i])
			spoor_symbols_free(z->objects[i]->symbols);
		free(z->objects[i]);
	}
	for (size_t i = 0; i < z->n_jits; i++) {
		spoor_symtab_release(&z->jits[i]->symtab);
		free(z->jits[i]);
	}
	for (unsigned i = 0; i < z->n_notes; i++)
		free(z->notes[i]);
	free(z->objects);
	free(z->jits);
	free(z->slots);
	spoor_roots_done(&z->roots);
	free(z->debug_root);
	free(z->jit_folder);
	free(z);
}

const char *spoor_symbolizer_note(const struct spoor_symbolizer *z, unsigned i)
{
	return i < z->n_notes ? z->notes[i] : NULL;
}

static void note(struct spoor_symbolizer *z, const struct spoor_object *object, const char *what)
{
	char *text;

	if (z->n_notes == MAX_NOTES || asprintf(&text, "%s: %s", object->path, what) < 0)
		return;
	for (unsigned i = 0; i < z->n_notes; i++) {
		if (!strcmp(z->notes[i], text)) { /* of another file that was there before or after */
			free(text);
			return;
		}
	}
	z->notes[z->n_notes++] = text;
}

void spoor_symbolizer_use_packed(struct spoor_symbolizer *z, struct spoor_packed *packed)
{
	z->packed = packed;
}

void spoor_symbolizer_use_trace(struct spoor_symbolizer *z, const struct spoor_trace_info *info)
{
	z->places = spoor_jit_places(z->jit_folder, info);
}

void spoor_symbolizer_use_now(struct spoor_symbolizer *z)
{
	z->places.trace = (struct spoor_trace_place){ .here = true, .now = true };
}

/* The packed file of this name, or -1. */
static int open_packed(struct spoor_symbolizer *z, const struct object *o, enum spoor_packed_kind kind)
{
	struct spoor_packed_name name = { kind, { o->def->hash_lo, o->def->hash_hi }, 0 };
	uint64_t hash[2];
	int fd = -1, r;

	r = kind == SPOOR_PACKED_OBJECT ? spoor_object_packed_open(o->def, z->packed, &fd) :
					  spoor_packed_get(z->packed, &name, &fd, hash);
	if (r == -EBADMSG && kind == SPOOR_PACKED_OBJECT)
		note(z, o->def, "what was packed of it is damaged or missing");
	else if (r == -EBADMSG)
		note(z, o->def, "what was packed of its debugging information is damaged or missing");
	return r < 0 ? -1 : fd;
}

/* Of the segment's processes that run still, in containers; of what is recorded now, of those that were met. */
static const struct spoor_roots *roots_of(struct spoor_symbolizer *z, const struct spoor_segment *segment)
{
	const struct spoor_thread *t;

	if (z->places.trace.now)
		return &z->roots;
	if (z->roots_of == segment || !z->places.trace.here)
		return &z->roots;
	spoor_roots_done(&z->roots);
	z->roots_of = segment;
	for (size_t i = 0; (t = spoor_segment_thread_at(segment, i)); i++) {
		struct spoor_traced_process p = spoor_traced_process(t->h.tid, t);

		if (p.start)
			spoor_roots_add(&z->roots, &z->places.trace, &p);
	}
	return &z->roots;
}

/* The descriptor of the object's file, or -1 with a note. */
static int open_file(struct spoor_symbolizer *z, const struct spoor_segment *segment, const struct object *o)
{
	const char *place = spoor_segment_place(segment, o->def->id);
	uint64_t epoch_offset = z->places.trace.epoch_offset;
	int fd = z->packed ? open_packed(z, o, SPOOR_PACKED_OBJECT) : -1;
	enum spoor_object_state state;

	if (fd >= 0)
		return fd;
	state = spoor_object_file_open(o->def, place, NULL, epoch_offset, &fd);
	if (state != SPOOR_OBJECT_SAME)
		state = spoor_object_file_open(o->def, NULL, roots_of(z, segment), epoch_offset, &fd);
	switch (state) {
	case SPOOR_OBJECT_SAME:
		return fd;
	case SPOOR_OBJECT_CHANGED:
		note(z, o->def, "changed since the recording; its frames are shown as offsets");
		break;
	case SPOOR_OBJECT_UNREADABLE:
		note(z, o->def,
		     spoor_path_is_shared_memory(o->def->path) ?
			     "is shared memory, which no trace keeps; its frames are shown as offsets" :
			     "cannot be read; its frames are shown as offsets");
		break;
	}
	return -1;
}

static void open_symbols(struct spoor_symbolizer *z, const struct spoor_segment *segment, struct object *o)
{
	_cleanup_(spoor_closep) int fd = open_file(z, segment, o);

	if (fd < 0 || spoor_symbols_open(fd, z->debug_root, &o->symbols, NULL) < 0 || !z->packed)
		return;
	spoor_symbols_give_debug(o->symbols, open_packed(z, o, SPOOR_PACKED_DEBUG),
				 open_packed(z, o, SPOOR_PACKED_SUPPLEMENT));
}

static struct object *get_object(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t id)
{
	const struct spoor_object *def;

	if (id < z->n_objects && z->objects[id])
		return z->objects[id];
	def = spoor_segment_object(segment, id);
	if (!def || id >= SPOOR_MAX_OBJECTS)
		return NULL;
	if (id >= z->n_objects) {
		size_t n = id + 64;
		struct object **objects = reallocarray(z->objects, n, sizeof(*objects));

		if (!objects)
			return NULL;
		memset(objects + z->n_objects, 0, (n - z->n_objects) * sizeof(*objects));
		z->objects = objects;
		z->n_objects = n;
	}
	z->objects[id] = calloc(1, sizeof(*z->objects[id]));
	if (!z->objects[id])
		return NULL;
	z->objects[id]->def = def;
	open_symbols(z, segment, z->objects[id]);
	return z->objects[id];
}

static int open_jit(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid)
{
	struct spoor_traced_process owner = spoor_traced_process(pid, spoor_segment_thread(segment, pid, UINT64_MAX));
	struct spoor_packed_name name = { .kind = SPOOR_PACKED_JIT, .pid = pid };
	char path[SPOOR_JIT_PATH];
	uint64_t hash[2];
	int fd;

	if (z->packed && spoor_packed_get(z->packed, &name, &fd, hash) == 0)
		return fd;
	return spoor_jit_open(&z->places, &owner, path);
}

/* Only maps that exist are kept: a trace may name any number of processes. */
static struct jit *get_jit(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct spoor_symtab symtab = {};
	struct jit **jits, *jit;

	for (size_t i = 0; i < z->n_jits; i++)
		if (z->jits[i]->pid == pid)
			return z->jits[i];
	fd = open_jit(z, segment, pid);
	if (fd < 0 || spoor_jit_map_load(fd, &symtab) < 0)
		return NULL;
	jits = reallocarray(z->jits, z->n_jits + 1, sizeof(*jits));
	if (jits)
		z->jits = jits;
	jit = jits ? calloc(1, sizeof(*jit)) : NULL;
	if (!jit) {
		spoor_symtab_release(&symtab);
		return NULL;
	}
	*jit = (struct jit){ pid, symtab };
	return z->jits[z->n_jits++] = jit;
}

static bool is_trampoline(const char *function)
{
	static const char *const names[] = { "__restore_rt", "runtime.sigreturn", "runtime.sigreturn__sigaction" };

	for (size_t i = 0; function && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(function, names[i]))
			return true;
	return false;
}

/* A handler returns to the first byte of the trampoline, which nothing calls: one byte earlier lies something else. */
static int resolve_trampoline(const struct object *o, const struct spoor_frame *f, struct spoor_source_line *lines)
{
	int n = spoor_symbols_resolve(o->symbols, f->offset, lines, SPOOR_MAX_INLINED);

	return n > 0 && is_trampoline(lines[n - 1].function) ? n : 0;
}

static void note_unused_debug(struct spoor_symbolizer *z, struct object *o)
{
	bool other = spoor_symbols_debug_is_other(o->symbols), large = spoor_symbols_debug_is_too_large(o->symbols);

	if (o->noted || !(other || large))
		return;
	o->noted = true;
	if (other)
		note(z, o->def, "the debugging file with its build-id is of other code, and not used");
	if (large)
		note(z, o->def, "its debugging information would become too large in memory, and is not used");
}

/*
 * A frame is looked up one byte before its address: a return address may be the first byte of the next function, and
 * the innermost frame's address is that after the system call instruction. One that a signal interrupted is looked up
 * at its address (exact).
 */
static int resolve(struct spoor_symbolizer *z, const struct spoor_segment *segment, struct object *o,
		   struct spoor_frame *f, uint32_t pid, bool exact, struct spoor_source_line *lines)
{
	unsigned back = !exact && f->offset;
	uint64_t vaddr = f->offset - back;
	struct spoor_symbol *symbol;
	struct jit *jit;
	int n;

	if (o && !o->symbols)
		return 0;
	if (o) {
		n = resolve_trampoline(o, f, lines);
		if (n > 0)
			return n;
		n = spoor_symbols_resolve(o->symbols, vaddr, lines, SPOOR_MAX_INLINED);
		note_unused_debug(z, o);
		if (n > 0 && lines[n - 1].function)
			lines[n - 1].function_offset += back;
		return n > 0 ? n : 0;
	}
	jit = f->object ? NULL : get_jit(z, segment, pid);
	symbol = jit ? spoor_symtab_find(&jit->symtab, vaddr) : NULL;
	if (!symbol)
		return 0;
	lines[0] = (struct spoor_source_line){ .function = spoor_symbol_shown(symbol),
					       .function_offset = f->offset - symbol->addr };
	return lines[0].function != NULL;
}

static struct spoor_frame *make_frame(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid,
				      uint64_t frame, bool exact)
{
	struct spoor_source_line lines[SPOOR_MAX_INLINED];
	struct spoor_frame *f = calloc(1, sizeof(*f));
	struct object *o;
	int n;

	if (!f)
		return NULL;
	if (z->places.trace.now)
		spoor_roots_add(&z->roots, &z->places.trace, &(struct spoor_traced_process){ .pid = pid });
	f->object = SPOOR_FRAME_OBJECT(frame);
	f->offset = SPOOR_FRAME_OFFSET(frame);
	f->interrupted = exact;
	o = f->object ? get_object(z, segment, f->object) : NULL;
	if (o)
		f->path = o->def->path;
	n = resolve(z, segment, o, f, pid, exact, lines);
	if (n == 0)
		return f;
	f->lines = malloc((size_t)n * sizeof(*lines));
	if (!f->lines) {
		free(f);
		return NULL;
	}
	memcpy((void *)f->lines, lines, (size_t)n * sizeof(*lines));
	f->n = (uint8_t)n;
	return f;
}

static struct slot *find_slot(struct slot *slots, size_t size, uint64_t key, uint32_t pid, bool exact)
{
	size_t i = (size_t)((key ^ (uint64_t)pid << 40 ^ exact) * 0x9E3779B97F4A7C15ULL >> 20);

	for (;; i++) {
		struct slot *s = &slots[i & (size - 1)];

		if (!s->frame || (s->key == key && s->pid == pid && s->exact == exact))
			return s;
	}
}

static int grow(struct spoor_symbolizer *z)
{
	size_t size = z->size * 2;
	struct slot *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < z->size; i++)
		if (z->slots[i].frame)
			*find_slot(slots, size, z->slots[i].key, z->slots[i].pid, z->slots[i].exact) = z->slots[i];
	free(z->slots);
	z->slots = slots;
	z->size = size;
	return 0;
}

static const struct spoor_frame *get_frame(struct spoor_symbolizer *z, const struct spoor_segment *segment,
					   uint32_t pid, uint64_t frame, bool exact)
{
	uint32_t owner = SPOOR_FRAME_OBJECT(frame) ? 0 : pid;
	struct slot *slot = find_slot(z->slots, z->size, frame, owner, exact);

	if (slot->frame)
		return slot->frame;
	if (z->n * 2 >= z->size) {
		if (grow(z) < 0)
			return NULL;
		slot = find_slot(z->slots, z->size, frame, owner, exact);
	}
	slot->frame = make_frame(z, segment, pid, frame, exact);
	if (!slot->frame)
		return NULL;
	slot->key = frame;
	slot->pid = owner;
	slot->exact = exact;
	z->n++;
	return slot->frame;
}

const struct spoor_frame *spoor_symbolize(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid,
					  const struct spoor_stack *stack, unsigned i)
{
	uint64_t frame = stack->frames[i];

	return get_frame(z, segment, pid, frame & ~SPOOR_FRAME_INTERRUPTED, (frame & SPOOR_FRAME_INTERRUPTED) != 0);
}

bool spoor_stack_is_anonymous(const struct spoor_stack *stack)
{
	for (unsigned i = 0; i < stack->n; i++)
		if (!SPOOR_FRAME_OBJECT(stack->frames[i]))
			return true;
	return false;
}

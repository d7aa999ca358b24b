/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "agent/core/clock.h"
#include "agent/core/maps.h"
#include "agent/core/objects.h"
#include "agent/core/process.h"

#define PAGE 4096UL
#define MOST_NOTES 4096

static struct code_object objects[CODE_OBJECTS];
static uint32_t n_objects;
uint32_t code_epoch = 1;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static bool find_loaded(uintptr_t pc, struct code_object *ret)
{
	struct dl_find_object found;

	if (!_dl_find_object || _dl_find_object((void *)pc, &found))
		return false;
	ret->start = (uintptr_t)found.dlfo_map_start;
	ret->end = (uintptr_t)found.dlfo_map_end;
	ret->map = found.dlfo_link_map;
	return true;
}
#else
static bool find_loaded(uintptr_t pc, struct code_object *ret)
{
	(void)pc;
	(void)ret;
	return false;
}
#endif

/* Memory that may not be there. */
static bool peek(void *to, uintptr_t from, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)from, n };

	return sys6(SYS_process_vm_readv, sys_pid(), (long)&here, 1, (long)&there, 1, 0) == (long)n;
}

static void new_epoch(void)
{
	__atomic_fetch_add(&code_epoch, 1, __ATOMIC_RELEASE);
}

/* ---- who it is ---- */

static bool is_within(const struct code_object *o, uintptr_t at, size_t n)
{
	return at >= o->start && at < o->end && n <= o->end - at;
}

/* Looks for the build-id among notes. */
static void read_notes(struct code_object *o, uintptr_t at, size_t size, size_t align)
{
	ElfW(Nhdr) n = { 0 };

	align = align == 8 ? 8 : 4;
	size = size < MOST_NOTES ? size : MOST_NOTES;
	while (size >= sizeof(n) && is_within(o, at, sizeof(n)) && peek(&n, at, sizeof(n))) {
		size_t name = (n.n_namesz + align - 1) & ~(align - 1);
		size_t whole = sizeof(n) + name + ((n.n_descsz + align - 1) & ~(align - 1));

		if (n.n_namesz > size || n.n_descsz > size || whole > size)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && n.n_descsz && n.n_descsz <= sizeof(o->id)) {
			o->id_at = at + sizeof(n) + name;
			o->id_len = (uint8_t)n.n_descsz;
			if (!is_within(o, o->id_at, o->id_len) || !peek(o->id, o->id_at, o->id_len))
				o->id_at = o->id_len = 0;
			return;
		}
		at += whole;
		size -= whole;
	}
}

static void read_headers(struct code_object *o, uintptr_t at, unsigned n)
{
	ElfW(Phdr) ph = { 0 };

	for (; n && !o->id_at && is_within(o, at, sizeof(ph)) && peek(&ph, at, sizeof(ph)); n--, at += sizeof(ph))
		if (ph.p_type == PT_NOTE)
			read_notes(o, o->bias + ph.p_vaddr, ph.p_memsz, ph.p_align);
}

/* ---- what is there from the begin ---- */

static void enter(const struct code_object *o)
{
	if (n_objects == CODE_OBJECTS)
		return;
	objects[n_objects] = *o;
	__atomic_store_n(&n_objects, n_objects + 1, __ATOMIC_RELEASE);
	new_epoch();
}

static void read_ranges(const struct dl_phdr_info *info, struct code_object *o)
{
	int i;

	o->start = UINTPTR_MAX;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		o->start = at < o->start ? at : o->start;
		o->end = at + ph->p_memsz > o->end ? at + ph->p_memsz : o->end;
	}
	o->start &= ~(PAGE - 1);
	o->end = (o->end + PAGE - 1) & ~(PAGE - 1);
}

static int see(struct dl_phdr_info *info, size_t size, void *data)
{
	const bool *alone = data;
	struct code_object o = { .bias = info->dlpi_addr };
	bool first = !n_objects;

	(void)size;
	read_ranges(info, &o);
	if (o.start >= o.end)
		return 0;
	if (first)
		o.flags |= SPOOR_DEF_OBJECT_MAIN;
	if (getauxval(AT_SYSINFO_EHDR) - o.start < o.end - o.start)
		o.flags |= SPOOR_DEF_OBJECT_VDSO;
	/* Others may have come by dlopen already: they are found when they are met. */
	if (*alone || first || o.flags & SPOOR_DEF_OBJECT_VDSO)
		enter(&o);
	return 0;
}

void code_objects_start(bool alone)
{
	if (!n_objects)
		dl_iterate_phdr(see, &alone);
}

/* ---- what comes later ---- */

bool code_object_is_there(const struct code_object *o, uintptr_t pc, bool held)
{
	struct code_object now = { 0 };
	uint8_t id[sizeof(o->id)] = { 0 };

	if (!o->map)
		return true;
	if (!find_loaded(pc, &now) || now.map != o->map || now.start != o->start || now.end != o->end)
		return false;
	if (!o->id_at)
		return true;
	if (held)
		return !memcmp((const void *)o->id_at, o->id, o->id_len);
	return peek(id, o->id_at, o->id_len) && !memcmp(id, o->id, o->id_len);
}

static struct code_object *find(uintptr_t pc, bool held)
{
	uint32_t i;

	for (i = __atomic_load_n(&n_objects, __ATOMIC_ACQUIRE); i--;) {
		struct code_object *o = &objects[i];

		if (pc - o->start >= o->end - o->start || __atomic_load_n(&o->gone, __ATOMIC_ACQUIRE))
			continue;
		if (code_object_is_there(o, pc, held))
			return o;
		__atomic_store_n(&o->gone, true, __ATOMIC_RELEASE);
		new_epoch();
	}
	return NULL;
}

/* The same file at the same place again, as programs do that load a plugin for each use of it. */
static struct code_object *come_back(const struct code_object *o)
{
	uint32_t i, k;

	for (i = 0; o->id_len && i < n_objects; i++) {
		struct code_object *old = &objects[i];

		if (!old->gone || old->start != o->start || old->end != o->end || old->bias != o->bias ||
		    old->id_at != o->id_at || old->id_len != o->id_len || memcmp(old->id, o->id, o->id_len))
			continue;
		old->map = o->map;
		for (k = 0; k < SPOOR_OUTPUTS; k++)
			old->in[k].defined = 0; /* another may have been there meanwhile */
		__atomic_store_n(&old->gone, false, __ATOMIC_RELEASE);
		new_epoch();
		return old;
	}
	return NULL;
}

static struct code_object *add(uintptr_t pc)
{
	struct code_object o = { 0 }, *old;
	ElfW(Ehdr) header = { 0 };

	if (!find_loaded(pc, &o) || pc < o.start || pc >= o.end)
		return NULL;
	if (!peek(&o.bias, (uintptr_t)o.map + offsetof(struct link_map, l_addr), sizeof(o.bias)))
		return NULL;
	if (peek(&header, o.start, sizeof(header)) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
	    header.e_phentsize == sizeof(ElfW(Phdr)))
		read_headers(&o, o.start + header.e_phoff, header.e_phnum);
	old = come_back(&o);
	if (old)
		return old;
	if (n_objects == CODE_OBJECTS)
		return NULL;
	enter(&o);
	return &objects[n_objects - 1];
}

struct code_object *code_object_of(uintptr_t pc, bool held)
{
	struct code_object *o = find(pc, held), probe;

	if (o || !find_loaded(pc, &probe) || !outputs_lock(true))
		return o;
	o = find(pc, held);
	if (!o)
		o = add(pc);
	process_unlock();
	return o;
}

/* ---- definitions ---- */

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

static int define(struct code_object *o, struct spoor_arena *a)
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
	d->since = !o->map ? 0 : a->clock == SPOOR_ARENA_TSC ? rdtsc() : clock_monotonic();
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
	d->def.size = (uint32_t)((sizeof(*d) + n + 1 + 7) & ~7UL);
	return arena_define(a, &d->def);
}

static uint32_t generation_of(const struct output *out)
{
	return slots[out->first_slot].generation;
}

/* Without a recorder, who says more. */
static void classify_alone(struct code_object *o, const struct output *out, uint32_t generation)
{
	o->in[out - outputs].app = !!(o->flags & SPOOR_DEF_OBJECT_MAIN);
	o->in[out - outputs].limit = 0;
	__atomic_store_n(&o->in[out - outputs].classified, generation, __ATOMIC_RELEASE);
}

static bool define_locked(struct code_object *o, const struct slot *s)
{
	uint32_t generation = generation_of(s->output), *defined = &o->in[s->output - outputs].defined;
	ElfW(Ehdr) header = { 0 };

	if (*defined == generation)
		return true;
	if (!o->map && !o->id_at && peek(&header, o->start, sizeof(header)))
		read_headers(o, o->start + header.e_phoff, header.e_phnum);
	if (define(o, s->arena))
		return false;
	if (s->output->wish.dir[0])
		classify_alone(o, s->output, generation);
	__atomic_store_n(defined, generation, __ATOMIC_RELEASE);
	return true;
}

bool code_object_define(struct code_object *o, const struct slot *s)
{
	const struct output *out = s->output;
	bool r = true;

	if (!out)
		return true; /* the event goes nowhere */
	if (__atomic_load_n(&o->in[out - outputs].defined, __ATOMIC_ACQUIRE) == generation_of(out))
		return true;
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

	for (i = 0; i < n_objects; i++)
		if (!objects[i].map)
			define_locked(&objects[i], s);
}

unsigned code_objects_awaited(const struct slot *s)
{
	uint32_t i, n = 0;

	for (i = 0; s->output && i < n_objects; i++)
		n += !objects[i].map && objects[i].in[s->output - outputs].classified != generation_of(s->output);
	return n;
}

/* ---- what the recorder knows of them ---- */

unsigned code_object_number(const struct code_object *o)
{
	return (unsigned)(o - objects) + 1;
}

struct code_object *code_object_numbered(unsigned n)
{
	return &objects[n - 1];
}

void code_object_answer(const struct code_answer *a, const struct output *out)
{
	uint32_t i;

	for (i = n_objects; i--;) {
		struct code_object *o = &objects[i];

		if (o->gone || o->start != a->start || o->end != a->end || o->bias != a->bias)
			continue;
		o->in[out - outputs].app = a->app;
		o->in[out - outputs].limit = a->limit;
		__atomic_store_n(&o->in[out - outputs].classified, generation_of(out), __ATOMIC_RELEASE);
		if (o->rows == CODE_ROWS_AWAITED) {
			bool there = a->fd >= 0 && !rows_map(a->fd, &o->table);

			__atomic_store_n(&o->rows, there ? CODE_ROWS_THERE : CODE_ROWS_NONE, __ATOMIC_RELEASE);
		}
		new_epoch();
		return;
	}
}

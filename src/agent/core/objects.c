/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "agent/core/object_table.h"
#include "agent/core/process.h"

#define PAGE 4096UL
#define MOST_NOTES 4096
#define LOOKS 512 /* bytes, by which what has no build-id is known: ELF header, first program headers */

struct code_object code_objects[CODE_OBJECTS];
uint32_t n_code_objects;
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

bool code_peek(void *to, uintptr_t from, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)from, n };

	return sys6(SYS_process_vm_readv, sys_pid(), (long)&here, 1, (long)&there, 1, 0) == (long)n;
}

void code_new_epoch(void)
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
	while (size >= sizeof(n) && is_within(o, at, sizeof(n)) && code_peek(&n, at, sizeof(n))) {
		size_t name = (n.n_namesz + align - 1) & ~(align - 1);
		size_t whole = sizeof(n) + name + ((n.n_descsz + align - 1) & ~(align - 1));

		if (n.n_namesz > size || n.n_descsz > size || whole > size)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && n.n_descsz && n.n_descsz <= sizeof(o->id)) {
			o->id_at = at + sizeof(n) + name;
			o->id_len = (uint8_t)n.n_descsz;
			if (!is_within(o, o->id_at, o->id_len) || !code_peek(o->id, o->id_at, o->id_len))
				o->id_at = o->id_len = 0;
			return;
		}
		at += whole;
		size -= whole;
	}
}

void code_object_read_headers(struct code_object *o, uintptr_t at, unsigned n)
{
	ElfW(Phdr) ph = { 0 };

	for (; n && !o->id_at && is_within(o, at, sizeof(ph)) && code_peek(&ph, at, sizeof(ph)); n--, at += sizeof(ph))
		if (ph.p_type == PT_NOTE)
			read_notes(o, o->bias + ph.p_vaddr, ph.p_memsz, ph.p_align);
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* Where n bytes can be read: held, they are there; else in the copy that is made. NULL: they are not there. */
static const void *bytes_at(uintptr_t at, size_t n, void *copy, bool held)
{
	return held ? (const void *)at : code_peek(copy, at, n) ? copy : NULL;
}

/* To its NUL. 0: it cannot be read. */
static uint64_t hash_of_name(uintptr_t at, bool held)
{
	uint64_t hash = 1;
	char copy[128] = "";
	size_t i, n, left;

	for (left = PATH_MAX; left; left -= n < left ? n : left, at += n) {
		const char *c;

		n = sizeof(copy) - at % sizeof(copy); /* not beyond a page */
		c = bytes_at(at, n, copy, held);
		if (!c)
			return 0;
		for (i = 0; i < n; i++) {
			if (!c[i])
				return hash;
			hash = mixed(hash, (unsigned char)c[i]);
		}
	}
	return hash;
}

/* Link maps, addresses and sizes recur; and objects of one source are laid out alike, so that headers do, too. */
static uint64_t looks_of(const struct code_object *o, bool held)
{
	uint64_t copy[LOOKS / sizeof(uint64_t)] = { 0 }, hash;
	uintptr_t name_at = (uintptr_t)o->map + offsetof(struct link_map, l_name);
	const uintptr_t *name = bytes_at(name_at, sizeof(*name), copy, held);
	const uint64_t *words;
	size_t i;

	hash = name ? hash_of_name(*name, held) : 0;
	words = hash ? bytes_at(o->start, LOOKS, copy, held) : NULL;
	if (!words)
		return 0;
	for (i = 0; i < LOOKS / sizeof(*words); i++)
		hash = mixed(hash, words[i]);
	return hash | 1;
}

/* ---- what is there from the begin ---- */

/* What arenas say of those that lay there before is not so from now on. */
static void cover(const struct code_object *by)
{
	uint32_t i;

	for (i = 0; i < n_code_objects; i++) {
		struct code_object *o = &code_objects[i];

		if (o != by && o->start < by->end && by->start < o->end)
			o->covered = true;
	}
}

static void enter(const struct code_object *o)
{
	if (n_code_objects == CODE_OBJECTS)
		return;
	code_objects[n_code_objects] = *o;
	cover(&code_objects[n_code_objects]);
	__atomic_store_n(&n_code_objects, n_code_objects + 1, __ATOMIC_RELEASE);
	code_new_epoch();
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
	bool first = !n_code_objects;

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
	if (!n_code_objects)
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
		return !o->looks || looks_of(o, held) == o->looks;
	if (held)
		return !memcmp((const void *)o->id_at, o->id, o->id_len);
	return code_peek(id, o->id_at, o->id_len) && !memcmp(id, o->id, o->id_len);
}

static struct code_object *find(uintptr_t pc, bool held)
{
	uint32_t i;

	for (i = __atomic_load_n(&n_code_objects, __ATOMIC_ACQUIRE); i--;) {
		struct code_object *o = &code_objects[i];

		if (pc - o->start >= o->end - o->start || __atomic_load_n(&o->gone, __ATOMIC_ACQUIRE))
			continue;
		if (code_object_is_there(o, pc, held))
			return o;
		__atomic_store_n(&o->gone, true, __ATOMIC_RELEASE);
		code_new_epoch();
	}
	return NULL;
}

/* The same file at the same place again, as programs do that load a plugin for each use of it. */
static struct code_object *come_back(const struct code_object *o)
{
	uint32_t i, k;

	for (i = 0; (o->id_len || o->looks) && i < n_code_objects; i++) {
		struct code_object *old = &code_objects[i];

		if (!old->gone || old->start != o->start || old->end != o->end || old->bias != o->bias ||
		    old->id_at != o->id_at || old->id_len != o->id_len || memcmp(old->id, o->id, o->id_len) ||
		    old->looks != o->looks)
			continue;
		old->map = o->map;
		for (k = 0; old->covered && k < SPOOR_OUTPUTS; k++)
			old->in[k].defined = 0;
		old->covered = false;
		cover(old);
		__atomic_store_n(&old->gone, false, __ATOMIC_RELEASE);
		code_new_epoch();
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
	if (!code_peek(&o.bias, (uintptr_t)o.map + offsetof(struct link_map, l_addr), sizeof(o.bias)))
		return NULL;
	if (code_peek(&header, o.start, sizeof(header)) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
	    header.e_phentsize == sizeof(ElfW(Phdr)))
		code_object_read_headers(&o, o.start + header.e_phoff, header.e_phnum);
	if (!o.id_at)
		o.looks = looks_of(&o, false);
	old = come_back(&o);
	if (old)
		return old;
	if (n_code_objects == CODE_OBJECTS)
		return NULL;
	enter(&o);
	return &code_objects[n_code_objects - 1];
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

unsigned code_object_number(const struct code_object *o)
{
	return (unsigned)(o - code_objects) + 1;
}

struct code_object *code_object_numbered(unsigned n)
{
	return &code_objects[n - 1];
}

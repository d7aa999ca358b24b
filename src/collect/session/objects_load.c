/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How objects are loaded: which file one is of, its rows, and that walks learn of it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "collect/session/objects_internal.h"
#include "object/executable.h"
#include "object/made_code.h"
#include "object/mapped_file.h"
#include "object/regular_file.h"

/* ---- opening an object's file ---- */

struct candidate {
	struct spoor_objects *s;
	const struct spoor_object_key *key;
};

/* As walks will meet it: of that file no other's rows are taken, whatever numbers its file system shows. */
static int has_key(void *ctx, int fd, bool by_name)
{
	const struct candidate *c = ctx;
	struct spoor_object_key key;
	int r = spoor_kernel_key_of(c->s->o.kernel, fd, &key);

	return r ? r : key.ino == c->key->ino && key.dev == c->key->dev && key.size == c->key->size &&
			       key.mtime == c->key->mtime && (!by_name || key.ctime == c->key->ctime);
}

static struct spoor_mapped_file file_of(const struct spoor_object_entry *o, struct candidate *ctx)
{
	return (struct spoor_mapped_file){
		.pid = o->pid,
		.tid = o->tid,
		.start = o->start,
		.end = o->end,
		.path = o->path,
		.place = o->place,
		.dev = o->key.dev,
		.mounts = o->mounts,
		.ino = o->key.ino,
		.size = o->key.size,
		.mtime = o->key.mtime,
		.ctime = o->key.ctime,
		.is_it = has_key,
		.ctx = ctx,
	};
}

static bool is_main(const struct spoor_object_entry *o, int fd)
{
	struct statx exe; /* as it is known: its file system may not answer */
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", o->pid);
	if (o->pid && !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &exe) &&
	    exe.stx_ino == o->key.ino && exe.stx_size == o->key.size)
		return true;
	return spoor_object_is_executable(fd);
}

/* ---- loading (the loader's thread; preload before it starts) ---- */

static void classify(struct spoor_objects *s, struct spoor_object_entry *o, bool program)
{
	const char *name = o->made ? SPOOR_ANONYMOUS : o->path;

	if (spoor_app_match(s->o.app, name, program))
		o->flags |= SPOOR_OBJECT_APP;
	o->limit = spoor_scope_limit(s->o.custom, name, program);
}

static void note(struct spoor_objects *s, uint32_t id)
{
	_cleanup_(spoor_freep) struct spoor_object *def = s->o.ledger ? spoor_objects_definition(s, id) : NULL;

	pthread_mutex_lock(&s->lock);
	if (def)
		spoor_ledger_note(s->o.ledger, def);
	pthread_mutex_unlock(&s->lock);
}

static enum spoor_object_state state_of(const struct spoor_object_entry *o)
{
	if (o->failed)
		return SPOOR_OBJECT_FAILED;
	if (o->made)
		return SPOOR_OBJECT_MADE;
	return o->has_rows ? SPOOR_OBJECT_READY : SPOOR_OBJECT_NO_ROWS;
}

/* Makes the entry final and known to the kernel's walks. */
static void publish(struct spoor_objects *s, struct spoor_object_entry *o)
{
	int r;

	pthread_mutex_lock(&s->lock);
	o->loaded = true;
	s->counts.forbidden += o->forbidden;
	if (o->failed)
		s->counts.failed++;
	else if (!o->has_rows)
		s->counts.no_rows += !o->made && o->id != SPOOR_OBJECT_NONE;
	else
		s->counts.loaded++;
	pthread_mutex_unlock(&s->lock);
	note(s, o->id);
	r = spoor_row_store_publish(s->store, o->id, &o->identity, &o->rows, state_of(o), o->flags & SPOOR_OBJECT_APP,
				    o->limit);
	pthread_mutex_lock(&s->lock);
	s->counts.last_new_ns = spoor_now_monotonic();
	s->counts.row_bytes = spoor_row_store_bytes(s->store);
	s->counts.no_memory += r < 0;
	pthread_mutex_unlock(&s->lock);
}

static void load_rows(struct spoor_objects *s, struct spoor_object_entry *o, int fd)
{
	int r;

	o->made = spoor_file_is_made_code(fd);
	if (o->made)
		return;
	r = spoor_rowd_get(s->rowd, fd, &o->identity, &o->rows, NULL);
	o->has_rows = !r;
	if (r) {
		o->flags |= SPOOR_OBJECT_NO_CFI;
		spoor_object_identify(fd, &o->identity, NULL);
	}
}

static int load(struct spoor_objects *s, struct spoor_object_entry *o)
{
	struct candidate c = { s, &o->key };
	struct spoor_mapped_file m = file_of(o, &c);
	_cleanup_(spoor_closep) int fd = spoor_mapped_file_open(&m);

	if (fd < 0) {
		o->flags |= SPOOR_OBJECT_GONE;
		o->made = spoor_path_is_shared_memory(o->path); /* no file that anybody could have kept */
		o->failed = !o->made;
		o->forbidden = o->failed && fd == -EACCES;
		if (o->made)
			classify(s, o, false);
		return o->made ? 0 : fd;
	}
	o->reached = spoor_mapped_file_elsewhere(&m);
	load_rows(s, o, fd);
	classify(s, o, is_main(o, fd));
	return 0;
}

/* From here on it is found, and told of once it is loaded. */
static void enter(struct spoor_objects *s, struct spoor_object_entry *o)
{
	pthread_mutex_lock(&s->lock);
	s->entries[o->id] = o;
	pthread_mutex_unlock(&s->lock);
}

/*
 * A file that was gone has come back: another process has it mapped and leads to it. Who looks at the old entry may go
 * on doing so.
 */
static void replace(struct spoor_objects *s, struct spoor_object_entry *old, struct spoor_object_entry *o)
{
	pthread_mutex_lock(&s->lock);
	s->counts.failed--;
	s->counts.forbidden -= old->forbidden;
	o->older = old;
	o->loaded = true; /* it is: in between there would be none */
	s->entries[o->id] = o;
	s->returned[s->n_returned++] = o->id;
	pthread_mutex_unlock(&s->lock);
}

void spoor_objects_load(struct spoor_objects *s, const struct spoor_ctl_object *c)
{
	struct spoor_object_entry *o, *old;

	if (c->id >= SPOOR_KERNEL_OBJECTS)
		return;
	old = s->entries[c->id];
	if (old && !old->failed)
		return;
	o = spoor_objects_entry(c->id, c->text + c->place_len, c->path_len);
	if (!o)
		return;
	o->place = strndup(c->text, c->place_len);
	o->mounts = c->mounts;
	o->pid = c->pid;
	o->tid = c->h.tid;
	o->key = c->key;
	o->start = c->start;
	o->end = c->end;
	if (!old)
		enter(s, o);
	if (load(s, o) && old) {
		spoor_objects_free_entry(o);
		return;
	}
	if (old)
		replace(s, old, o);
	publish(s, o);
}

size_t spoor_objects_returned(struct spoor_objects *s, uint32_t *ret_ids, size_t most)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	for (n = 0; n < most && s->n_returned; n++)
		ret_ids[n] = s->returned[--s->n_returned];
	pthread_mutex_unlock(&s->lock);
	return n;
}

static int key_of(struct spoor_objects *s, int fd, struct spoor_object_key *ret)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	if (spoor_kernel_key_of(s->o.kernel, fd, ret))
		*ret = (struct spoor_object_key){ .ino = st.st_ino,
						  .size = st.st_size,
						  .dev = spoor_kernel_dev(st.st_dev),
						  .mtime = spoor_ns(st.st_mtim),
						  .ctime = spoor_ns(st.st_ctim) };
	return 0;
}

/* fd: taken over. */
static int preload(struct spoor_objects *s, int fd, const char *name, uint32_t pid, bool program, uint32_t *ret_id)
{
	_cleanup_(spoor_closep) int own = fd;
	struct spoor_object_entry *o;
	struct spoor_object_key key;
	uint32_t id = SPOOR_OBJECT_NONE;
	int r;

	r = fd < 0 ? -ENOENT : key_of(s, fd, &key);
	if (!r)
		r = spoor_kernel_add_object(s->o.kernel, &key, &id);
	if (ret_id)
		*ret_id = id;
	if (r)
		return r;
	o = spoor_objects_entry(id, name, strlen(name));
	if (!o)
		return -ENOMEM;
	o->pid = o->tid = pid;
	o->key = key;
	enter(s, o);
	load_rows(s, o, own);
	classify(s, o, program || is_main(o, own));
	publish(s, o);
	return 0;
}

int spoor_objects_preload(struct spoor_objects *s, const char *path, bool program)
{
	return preload(s, spoor_open_regular(path), path, 0, program, NULL);
}

int spoor_objects_preload_mapping(struct spoor_objects *s, uint32_t tid, uint64_t start, uint64_t end, uint64_t ino,
				  const char *name, uint32_t *ret_id)
{
	struct spoor_mapped_file by_name = { .pid = tid, .path = name, .ino = ino };
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, tid, start, end);
	fd = spoor_open_regular(path);
	if (fd < 0 && fd != -ETIMEDOUT) /* then its name would only keep another thread waiting */
		fd = spoor_mapped_file_open(&by_name);
	return preload(s, fd, name, tid, false, ret_id);
}

/* The vDSO is the same in every process of this kernel, ours too. */
static void load_vdso(struct spoor_objects *s)
{
	const unsigned char *image = (void *)getauxval(AT_SYSINFO_EHDR);
	struct spoor_object_entry *o = spoor_objects_entry(SPOOR_OBJECT_VDSO, "[vdso]", 6);
	size_t size = 2 * sysconf(_SC_PAGESIZE);

	if (!o)
		return;
	enter(s, o);
	o->flags = SPOOR_OBJECT_IS_VDSO;
	if (image) {
		o->key.size = size;
		spoor_object_identify_mem(image, size, &o->identity);
		o->has_rows = !spoor_rows_compile(image, size, &o->rows, NULL);
	}
	classify(s, o, false);
	publish(s, o);
}

/* Code that a program makes as it runs: of any process, and without rows. */
static void load_anonymous(struct spoor_objects *s)
{
	struct spoor_object_entry *o = spoor_objects_entry(SPOOR_OBJECT_NONE, SPOOR_ANONYMOUS, strlen(SPOOR_ANONYMOUS));

	if (!o)
		return;
	enter(s, o);
	classify(s, o, false);
	publish(s, o);
}

void spoor_objects_load_own(struct spoor_objects *s)
{
	load_vdso(s);
	load_anonymous(s);
}

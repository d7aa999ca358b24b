/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/stack_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "object/identity.h"
#include "object/mapped_file.h"
#include "trace/record.h"

#define LEAST_ID 32768 /* below are the kernel side's */

struct known {
	struct spoor_def_object *def; /* as the first program that had it said */
	struct spoor_object *object;  /* the trace's definition */
	uint32_t segment;             /* that it was defined in last */
};

struct spoor_stack_objects {
	struct spoor_writer *w;
	struct known *all; /* of ids first_id, first_id - 1, ... */
	size_t n, room;
	uint32_t first_id, segment;
};

int spoor_stack_objects_new(struct spoor_writer *w, struct spoor_stack_objects **ret)
{
	struct spoor_stack_objects *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->w = w;
	s->first_id = SPOOR_MAX_OBJECTS - 1;
	s->segment = 1;
	*ret = s;
	return 0;
}

void spoor_stack_objects_free(struct spoor_stack_objects *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->all[i].def);
		free(s->all[i].object);
	}
	free(s->all);
	free(s);
}

void spoor_stack_objects_segment(struct spoor_stack_objects *s)
{
	s->segment++;
}

void spoor_stack_objects_resume(struct spoor_stack_objects *s, uint32_t least)
{
	if (least)
		s->first_id = least - 1;
}

/* ---- which file it is ---- */

/* As the program sees it while it runs, which may be in another mount namespace; then as we do. */
static int open_file(const struct spoor_def_object *d, uint32_t pid)
{
	struct spoor_mapped_file m = {
		.pid = pid, .path = d->path, .ino = d->ino, .size = d->size, .mtime = d->mtime, .ctime = d->ctime
	};

	return d->path[0] == '/' ? spoor_mapped_file_open(&m) : -ENOENT;
}

static void identify_vdso(struct spoor_object_identity *ret)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (image)
		spoor_object_identify_mem(image, 2 * sysconf(_SC_PAGESIZE), ret);
}

/* Returns the flags that this gives. What is no ELF file is none of our business, whatever a program says. */
static uint32_t identify(const struct spoor_def_object *d, uint32_t pid, struct spoor_object_identity *ret)
{
	_cleanup_(spoor_closep) int fd = -1;

	if (d->flags & SPOOR_DEF_OBJECT_VDSO) {
		identify_vdso(ret);
		return SPOOR_OBJECT_IS_VDSO;
	}
	fd = open_file(d, pid);
	if (fd < 0 || spoor_object_identify(fd, ret, NULL) || !ret->is_elf) {
		*ret = (struct spoor_object_identity){};
		return SPOOR_OBJECT_GONE;
	}
	return 0;
}

/* ---- definitions ---- */

static struct spoor_object *make(const struct spoor_def_object *d, uint32_t id, uint32_t pid)
{
	struct spoor_object_identity identity = {};
	uint32_t flags = identify(d, pid, &identity);
	size_t len = strlen(d->path) + 1, size = SPOOR_EVENT_ROUND(sizeof(struct spoor_object) + len);
	struct spoor_object *o = calloc(1, size);

	if (!o)
		return NULL;
	o->h.id = SPOOR_EV_OBJECT;
	o->h.size4 = SPOOR_SIZE4(size);
	o->id = id;
	o->flags = flags | (d->flags & SPOOR_DEF_OBJECT_MAIN ? SPOOR_OBJECT_APP : 0) |
		   (d->flags & SPOOR_DEF_OBJECT_DELETED ? SPOOR_OBJECT_DELETED : 0);
	o->dev = d->dev;
	o->ino = d->ino;
	o->size = identity.size ? identity.size : d->size;
	o->mtime = d->mtime;
	o->hash_lo = identity.hash[0];
	o->hash_hi = identity.hash[1];
	o->build_id_len = identity.build_id_len ? identity.build_id_len : d->build_id_len;
	memcpy(o->build_id, identity.build_id_len ? identity.build_id : d->build_id, sizeof(o->build_id));
	memcpy(o->path, d->path, len);
	return o;
}

/* Wherever it is mapped. */
static bool same(const struct spoor_def_object *a, const struct spoor_def_object *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime == b->mtime &&
	       a->ctime == b->ctime && a->flags == b->flags && a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len) && !strcmp(a->path, b->path);
}

static size_t find(const struct spoor_stack_objects *s, const struct spoor_def_object *d)
{
	size_t i;

	for (i = 0; i < s->n && !same(s->all[i].def, d); i++)
		;
	return i;
}

static int add(struct spoor_stack_objects *s, const struct spoor_def_object *d, uint32_t pid)
{
	struct known k = { .def = malloc(d->def.size) };

	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 32;
		void *grown = reallocarray(s->all, room, sizeof(*s->all));

		if (grown) {
			s->all = grown;
			s->room = room;
		}
	}
	k.object = make(d, s->first_id - s->n, pid);
	if (!k.def || !k.object || s->n == s->room) {
		free(k.def);
		free(k.object);
		return -ENOMEM;
	}
	memcpy(k.def, d, d->def.size);
	s->all[s->n++] = k;
	return 0;
}

uint32_t spoor_stack_objects_id(struct spoor_stack_objects *s, const struct spoor_code_object *o, uint32_t pid,
				uint64_t ns)
{
	size_t i = o->id ? s->first_id - o->id : find(s, o->def);

	if (i == s->n && (s->first_id - s->n < LEAST_ID || add(s, o->def, pid)))
		return 0;
	if (s->all[i].segment == s->segment)
		return s->first_id - i;
	s->all[i].object->h.ts = ns;
	if (s->w && spoor_writer_define_user(s->w, (const void *)s->all[i].object))
		return 0;
	s->all[i].segment = s->segment;
	return s->first_id - i;
}

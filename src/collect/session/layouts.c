/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/layouts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"

#define NUMBERED_SLOTS 4096
#define READ_SLOTS 64
#define AGAIN_NS (50 * 1000000ULL) /* read again so soon, if an object was unknown */

struct spoor_layouts {
	struct spoor_layout *numbered[NUMBERED_SLOTS]; /* by number, the newest of a slot */
	struct spoor_layout *read[READ_SLOTS];         /* by pid */
};

static void free_layout(struct spoor_layout *l)
{
	if (l)
		free(l->ranges);
	free(l);
}

int spoor_layouts_new(struct spoor_layouts **ret)
{
	struct spoor_layouts *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*ret = l;
	return 0;
}

void spoor_layouts_free(struct spoor_layouts *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < NUMBERED_SLOTS; i++)
		free_layout(l->numbered[i]);
	for (unsigned i = 0; i < READ_SLOTS; i++)
		free_layout(l->read[i]);
	free(l);
}

/* ---- as the kernel described them ---- */

/* In its slot, with nothing in it. */
static struct spoor_layout *begin(struct spoor_layout **slot, const struct spoor_ctl_layout *c)
{
	struct spoor_layout *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->number = c->layout;
	l->pid = c->pid;
	free_layout(*slot);
	*slot = l;
	return l;
}

void spoor_layouts_keep(struct spoor_layouts *all, const struct spoor_ctl_layout *c)
{
	struct spoor_layout **slot = &all->numbered[c->layout % NUMBERED_SLOTS];
	struct spoor_layout *l = c->first ? *slot : begin(slot, c);
	void *grown;

	/* Two threads may describe it at once: the parts of one of them are taken. */
	if (!l || l->number != c->layout || l->whole || l->n != c->first)
		return;
	grown = reallocarray(l->ranges, l->n + c->n + 1, sizeof(*l->ranges));
	if (!grown)
		return;
	l->ranges = grown;
	memcpy(l->ranges + l->n, c->ranges, c->n * sizeof(*l->ranges));
	l->n += c->n;
	l->whole = c->last;
}

const struct spoor_layout *spoor_layouts_get(const struct spoor_layouts *all, uint64_t number)
{
	const struct spoor_layout *l = all->numbered[number % NUMBERED_SLOTS];

	return number && l && l->number == number && l->whole ? l : NULL;
}

/* ---- as /proc tells them ---- */

/* The id of a mapped file; one that nobody has met yet is loaded. */
static uint32_t object_of(struct spoor_objects *objects, uint32_t tid, const struct spoor_layout_range *g, uint64_t ino,
			  uint64_t dev, const char *name)
{
	uint32_t id = spoor_objects_find(objects, ino, dev);

	if (id)
		return id;
	/* An overlay's file may be known by its layer's. */
	spoor_objects_preload_mapping(objects, tid, g->start, g->end, ino, name, &id);
	return id ? id : SPOOR_KERNEL_OBJECTS; /* its announcement may be under way: an id to wait for */
}

static int add_range(struct spoor_layout *l, const struct spoor_layout_range *g)
{
	void *grown = l->ranges;

	if ((l->n & (l->n - 1)) == 0)
		grown = reallocarray(l->ranges, l->n ? l->n * 2 : 1, sizeof(*g));
	if (!grown)
		return -ENOMEM;
	l->ranges = grown;
	l->ranges[l->n++] = *g;
	l->unknown |= g->object == SPOOR_KERNEL_OBJECTS;
	return 0;
}

/* One line of /proc/PID/maps. 1: an executable mapping. */
static int parse_line(char *line, struct spoor_layout_range *ret, uint64_t *ret_ino, uint64_t *ret_dev,
		      const char **ret_name)
{
	unsigned maj, min;
	unsigned long ino;
	char perms[8];
	int at = 0;

	*ret = (struct spoor_layout_range){};
	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %lu %n", &ret->start, &ret->end, perms, &ret->offset, &maj, &min,
		   &ino, &at) != 7 ||
	    perms[2] != 'x')
		return 0;
	line[strcspn(line, "\n")] = 0;
	spoor_cut_deleted(line);
	*ret_ino = ino;
	*ret_dev = (uint64_t)maj << 20 | min;
	*ret_name = line + at;
	return 1;
}

static struct spoor_layout *read_maps(struct spoor_objects *objects, uint32_t tid)
{
	struct spoor_layout *l = calloc(1, sizeof(*l));
	struct spoor_layout_range g;
	char path[64], line[4400];
	uint64_t ino, dev;
	const char *name;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", tid);
	f = fopen(path, "re");
	if (!f || !l) {
		if (f)
			fclose(f);
		free(l);
		return NULL;
	}
	l->read_at = spoor_now_monotonic();
	while (fgets(line, sizeof(line), f)) {
		if (!parse_line(line, &g, &ino, &dev, &name))
			continue;
		if (!strcmp(name, "[vdso]"))
			g.object = SPOOR_OBJECT_VDSO;
		else if (ino)
			g.object = object_of(objects, tid, &g, ino, dev, name);
		if (add_range(l, &g))
			break;
	}
	fclose(f);
	if (l->n)
		return l;
	free_layout(l); /* a leader that has ended shows none, though its threads have them */
	return NULL;
}

/*
 * A process may have thousands of threads, and two mappings for each. What was read after the kernel noted a sleeping
 * thread's registers holds for it too: it sleeps in what was mapped then.
 */
static bool holds_for(const struct spoor_layout *l, const struct spoor_ctl_raw *raw)
{
	if (!l || l->pid != raw->pid || !raw->remote || l->read_at <= raw->h.ts)
		return false;
	return !l->unknown || spoor_now_monotonic() - l->read_at < AGAIN_NS;
}

const struct spoor_layout *spoor_layouts_read(struct spoor_layouts *all, struct spoor_objects *objects,
					      const struct spoor_ctl_raw *raw)
{
	struct spoor_layout **slot = &all->read[raw->pid % READ_SLOTS];

	if (holds_for(*slot, raw))
		return *slot;
	free_layout(*slot);
	*slot = read_maps(objects, raw->h.tid);
	if (!*slot)
		*slot = read_maps(objects, raw->pid);
	if (*slot)
		(*slot)->pid = raw->pid;
	return *slot;
}

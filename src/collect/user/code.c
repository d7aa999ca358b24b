/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/code.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PATH (2 * PATH_MAX) /* a trace's definition has to hold it */

static bool makes_sense(const struct spoor_def_object *d, size_t size)
{
	size_t room = size > sizeof(*d) ? size - sizeof(*d) : 0;

	return room && d->start < d->end && !(d->end >> 47) && d->build_id_len <= sizeof(d->build_id) &&
	       memchr(d->path, 0, room < MOST_PATH ? room : MOST_PATH);
}

static int make_room(struct spoor_code *c)
{
	size_t room = c->room ? c->room * 2 : 32;
	void *grown;

	if (c->n < c->room)
		return 0;
	grown = reallocarray(c->all, room, sizeof(*c->all));
	if (!grown)
		return -ENOMEM;
	c->all = grown;
	c->room = room;
	return 0;
}

int spoor_code_take(struct spoor_code *c, const void *def, size_t size)
{
	struct spoor_def_object *d;

	if (!makes_sense(def, size))
		return -EBADMSG;
	if (c->n >= SPOOR_ARENA_MAX_OBJECTS)
		return -E2BIG;
	d = malloc(size);
	if (!d || make_room(c)) {
		free(d);
		return -ENOMEM;
	}
	memcpy(d, def, size);
	if (c->n && d->since < c->all[c->n - 1].since)
		d->since = c->all[c->n - 1].since;
	c->all[c->n++] = (struct spoor_code_object){
		.start = d->start, .end = d->end, .bias = d->bias, .since = d->since, .def = d
	};
	return 0;
}

void spoor_code_done(struct spoor_code *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->all[i].def);
	free(c->all);
	*c = (struct spoor_code){};
}

size_t spoor_code_at(const struct spoor_code *c, uint64_t stamp)
{
	size_t n = c->n;

	while (n && c->all[n - 1].since > stamp)
		n--;
	return n;
}

struct spoor_code_object *spoor_code_find(const struct spoor_code *c, size_t n, uint64_t address)
{
	while (n--)
		if (address - c->all[n].start < c->all[n].end - c->all[n].start)
			return &c->all[n];
	return NULL;
}

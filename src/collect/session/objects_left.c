/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects of a recording whose process is no more: what the ledger has of them. Nobody loads any more: what is
 * announced still is known by its path, and raw stacks are defined as lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/session/objects_internal.h"

static void enter(struct spoor_objects *s, struct spoor_object_entry *o)
{
	o->older = s->entries[o->id];
	o->loaded = true;
	s->entries[o->id] = o;
}

static void take(void *ctx, const struct spoor_object *def)
{
	struct spoor_object_entry *o;

	if (def->id >= SPOOR_KERNEL_OBJECTS)
		return;
	o = spoor_objects_entry(def->id, def->path, strlen(def->path));
	if (!o)
		return;
	o->key = (struct spoor_object_key){
		.ino = def->ino, .size = def->size, .mtime = def->mtime, .dev = def->dev
	};
	o->flags = def->flags;
	o->identity.hash[0] = def->hash_lo;
	o->identity.hash[1] = def->hash_hi;
	o->identity.build_id_len = def->build_id_len;
	memcpy(o->identity.build_id, def->build_id, sizeof(o->identity.build_id));
	enter(ctx, o);
}

void spoor_objects_announced_left(struct spoor_objects *s, const struct spoor_ctl_object *c)
{
	struct spoor_object_entry *o;

	if (c->id >= SPOOR_KERNEL_OBJECTS || s->entries[c->id])
		return;
	o = spoor_objects_entry(c->id, c->text + c->place_len, c->path_len);
	if (!o)
		return;
	o->key = c->key;
	o->failed = true;
	o->flags = SPOOR_OBJECT_GONE;
	enter(s, o);
}

int spoor_objects_left(const struct spoor_ledger *l, struct spoor_objects **ret)
{
	struct spoor_objects *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	spoor_objects_init(s);
	spoor_ledger_each(l, take, s);
	*ret = s;
	return 0;
}

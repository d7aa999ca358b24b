/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arenas that the keeper held for us: of programs that live, which come themselves, and of those that have ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"
#include "collect/user/threads.h"

struct hub_orphan {
	struct hub_orphan *next;
	struct spoor_kept kept;
	int fd;
};

static void note(void *ctx, const struct spoor_kept *k, int fd)
{
	struct spoor_hub *h = ctx;
	struct hub_orphan *o = calloc(1, sizeof(*o));

	if (!o) {
		close(fd);
		return;
	}
	*o = (struct hub_orphan){ h->orphans, *k, fd };
	h->orphans = o;
}

void spoor_hub_keep(struct spoor_hub *h, const char *path)
{
	h->keeper = spoor_keeper_open(path);
	if (h->keeper >= 0)
		spoor_keeper_get(h->keeper, note, h);
}

static bool has_come(struct spoor_hub *h, const uint8_t *uuid)
{
	for (struct hub_program *p = h->first; p; p = p->next)
		for (unsigned k = 0; k < p->n_members; k++)
			for (size_t i = 0; i < p->members[k].n_arenas; i++)
				if (!memcmp(p->members[k].arenas[i]->arena->head.uuid, uuid, 16))
					return true;
	return false;
}

/* Something to do for the next look? Takes o over as a program that is gone. */
static bool settle(struct spoor_hub *h, struct hub_orphan *o)
{
	if (has_come(h, o->kept.uuid))
		return true;
	if (spoor_process_runs(o->kept.pid, o->kept.start_time))
		return false;
	spoor_program_adopt(h, &o->kept, o->fd);
	return true;
}

void spoor_orphans_look(struct spoor_hub *h)
{
	for (struct hub_orphan **at = &h->orphans, *o; (o = *at);) {
		if (!settle(h, o)) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		close(o->fd);
		free(o);
	}
}

void spoor_orphans_free(struct spoor_hub *h)
{
	while (h->orphans) {
		struct hub_orphan *o = h->orphans;

		h->orphans = o->next;
		close(o->fd);
		free(o);
	}
	if (h->keeper >= 0)
		close(h->keeper);
	h->keeper = -1;
}

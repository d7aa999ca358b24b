/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The executable mappings of processes, for unwinding raw stacks: those that the kernel described, by number, and
 * those that /proc tells of. Used from the loader's thread.
 */
#include "collect/session/raw.h"

struct spoor_layouts;

int spoor_layouts_new(struct spoor_layouts **ret);
void spoor_layouts_free(struct spoor_layouts *l);

/* A layout that the kernel described, or a part of it. */
void spoor_layouts_keep(struct spoor_layouts *l, const struct spoor_ctl_layout *c);
/* It again, or NULL: unknown, or so many have come since that it was forgotten. */
const struct spoor_layout *spoor_layouts_get(const struct spoor_layouts *l, uint64_t number);

/*
 * The mappings of raw's process as they are now. Files that nobody has met yet are loaded into `objects`. NULL: the
 * process has gone. Valid until the next call.
 */
const struct spoor_layout *spoor_layouts_read(struct spoor_layouts *l, struct spoor_objects *objects,
					      const struct spoor_ctl_raw *raw);

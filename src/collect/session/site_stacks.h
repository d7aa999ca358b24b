/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The stacks under whose ids calls are counted by site: taken from the kernel's rings and from the loader, kept as
 * definitions in memory. Used from one thread.
 */
#include "collect/kernel/kernel.h"
#include "collect/session/objects.h"
#include "trace/reader.h"

struct spoor_site_stacks;

int spoor_site_stacks_new(struct spoor_kernel *k, struct spoor_objects *objects, struct spoor_site_stacks **ret);
void spoor_site_stacks_free(struct spoor_site_stacks *s);
/* Takes what is there. */
void spoor_site_stacks_drain(struct spoor_site_stacks *s);
/*
 * The id under which a call counts whose stack is `stack`: stacks that were handed out raw are many for one site. 0:
 * not known yet; with `now` it is then its own, for ever.
 */
uint32_t spoor_site_stacks_id(struct spoor_site_stacks *s, uint32_t stack, bool now);
/* All definitions so far: grows with each drain. */
const struct spoor_segment *spoor_site_stacks_segment(const struct spoor_site_stacks *s);
/* Stacks for which there was no room, in the rings or in memory. */
uint64_t spoor_site_stacks_lost(const struct spoor_site_stacks *s);

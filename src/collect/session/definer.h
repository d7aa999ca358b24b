/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Definitions on their way from the kernel side and the loader into the trace: each segment is told of the objects that
 * its stacks are of, and told again what an event of it refers to. Used from one thread.
 */
#include <stdbool.h>

#include "collect/session/objects.h"
#include "trace/writer.h"

struct spoor_definer;

/* remember: stacks and files are kept for segments to come. What is given outlives it. Returns 0 or -ENOMEM. */
int spoor_definer_new(struct spoor_objects *objects, struct spoor_writer *w, bool remember, struct spoor_definer **ret);
void spoor_definer_free(struct spoor_definer *d);

/* Once a segment, and as soon as the object is loaded. */
void spoor_definer_object(struct spoor_definer *d, uint32_t id);
/* With the objects of its frames. */
void spoor_definer_stack(struct spoor_definer *d, const struct spoor_stack *s);
/* A spoor_file, spoor_socket or spoor_socket4. */
void spoor_definer_file(struct spoor_definer *d, const struct spoor_event_header *h);
/* What the loader has done: stacks that it unwound, files that are there after all. */
void spoor_definer_unwound(struct spoor_definer *d);
/* An event refers to definitions of an older segment. newest: it is of this one, and of the one before none asks. */
void spoor_definer_again(struct spoor_definer *d, const struct spoor_ctl_need *need, bool newest);
/* The next segment has begun: it has no definition yet. */
void spoor_definer_segment(struct spoor_definer *d);
/* What every call in flight refers to has been, or is in the rings to be, defined again in this segment. */
void spoor_definer_repeated(struct spoor_definer *d);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The notes of objects that have sites (spoor/site.h). */
#include <spoor/site.h>

/* Where the entries are that a note tells of. -EINVAL: not such a note, or of another version. */
int note_read(const void *note, struct spoor_site **ret_begin, struct spoor_site **ret_end);

/* fn for the note of each object that has one. */
void notes_each(void (*fn)(const void *note));

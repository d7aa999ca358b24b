/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The notes of objects that have sites (spoor/site.h). */
#include "agent/ust/state.h"
#include <spoor/site.h>

/* Where the entries are that a note tells of. -EINVAL: not such a note, or of another version. */
int note_read(const void *note, struct spoor_site **ret_begin, struct spoor_site **ret_end);

/* The copy of the library that the note tells of (state.h); NULL: not such a note, or of another version. */
struct spoor_agent_state *note_agent(const void *note);

/* fn for each note of Spoor's, of sites and of copies of the library. */
void notes_each(void (*fn)(const void *note));

/* Is the program written in Go? Its linker says so by a note. */
bool note_program_is_go(void);

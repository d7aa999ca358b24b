/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What became of the programs that traced themselves: the last that the trace says of each one's buffer. */
#include "trace/reader.h"

struct spoor_programs {
	struct spoor_program *list; /* copies, in the order of their first definitions */
	size_t n, room;
	uint32_t *index; /* by arena: number + 1; open addressing */
	size_t size;
};

/* Takes note of ev if it is of a program. 0 or -ENOMEM. */
int spoor_programs_see(struct spoor_programs *p, const struct spoor_event *ev);
void spoor_programs_done(struct spoor_programs *p);
/* "begun", "runs", "ended", "crashed", "damaged" */
const char *spoor_program_state_name(unsigned state);

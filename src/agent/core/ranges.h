/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The addresses of arenas that have ended. A thread that is in the midst of an event goes on writing there, so they
 * become memory that costs nothing, and are the next arena's once nobody can be in them any more: a program whose
 * sessions come and go does not grow. All under the process's lock.
 */
#include "agent/core/sys.h"

/* At least `size` bytes, of which *ret_size are reserved. NULL: there are none. */
char *range_take(uint64_t size, uint64_t *ret_size);

/* An arena's memory there is given up; who still writes there writes for nobody. */
void range_blank(char *begin, uint64_t size);

/* An arena stood there, whose slots have been given back. Its memory is given up. */
void range_retire(char *begin, uint64_t size, unsigned first_slot, unsigned n_slots);

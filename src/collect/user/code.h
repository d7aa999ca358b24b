/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Which objects a program's addresses are of, as its arena defines them: checked, not believed. Not thread-safe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/arena.h"

struct spoor_code_object {
	uint64_t start, end, bias, since;
	uint32_t id; /* in the trace; 0: it was not asked for yet */
	struct spoor_def_object *def; /* its path ends with a NUL */
};

/* All of an arena. */
struct spoor_code {
	struct spoor_code_object *all; /* in the order of their definitions, which is that of `since` */
	size_t n, room;
};

/* One record of type SPOOR_DEF_OBJECT, copied. -EBADMSG: it makes no sense; -E2BIG: too many; -ENOMEM. */
int spoor_code_take(struct spoor_code *c, const void *def, size_t size);
void spoor_code_done(struct spoor_code *c);

/* How many of them were there when the stamp was taken: what an address means is the same for the same number. */
size_t spoor_code_at(const struct spoor_code *c, uint64_t stamp);
/* Of the first n the last one that has the address; NULL: none. */
struct spoor_code_object *spoor_code_find(const struct spoor_code *c, size_t n, uint64_t address);

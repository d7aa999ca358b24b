/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *find(const struct spoor_program *list, uint32_t *index, size_t size, const uint8_t *arena)
{
	uint64_t words[2];

	memcpy(words, arena, sizeof(words));
	for (size_t i = ((words[0] ^ words[1] << 1) * 0x9E3779B97F4A7C15ULL) >> 24;; i++) {
		uint32_t *slot = &index[i & (size - 1)];

		if (!*slot || !memcmp(list[*slot - 1].arena, arena, 16))
			return slot;
	}
}

static int grow(struct spoor_programs *p)
{
	size_t size = p->size ? p->size * 2 : 64;
	uint32_t *index = calloc(size, sizeof(*index));
	struct spoor_program *list = reallocarray(p->list, size / 2, sizeof(*list));

	if (list)
		p->list = list;
	if (!index || !list) {
		free(index);
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->n; i++)
		*find(p->list, index, size, p->list[i].arena) = (uint32_t)i + 1;
	free(p->index);
	p->index = index;
	p->size = size;
	p->room = size / 2;
	return 0;
}

int spoor_programs_see(struct spoor_programs *p, const struct spoor_event *ev)
{
	const struct spoor_program *program = (const void *)ev->h;
	char comm[sizeof(program->comm)];
	struct spoor_program *before;
	uint32_t *slot;

	if (ev->h->id != SPOOR_EV_PROGRAM)
		return 0;
	if (p->n == p->room && grow(p) < 0)
		return -ENOMEM;
	slot = find(p->list, p->index, p->size, program->arena);
	if (!*slot) {
		*slot = (uint32_t)++p->n;
		p->list[*slot - 1] = (struct spoor_program){};
	}
	before = &p->list[*slot - 1];
	memcpy(comm, before->comm, sizeof(comm));
	*before = *program;
	if (!program->comm[0]) /* who met it last could not read that */
		memcpy(before->comm, comm, sizeof(comm));
	return 0;
}

void spoor_programs_done(struct spoor_programs *p)
{
	free(p->list);
	free(p->index);
	*p = (struct spoor_programs){};
}

const char *spoor_program_state_name(unsigned state)
{
	static const char *const names[] = {
		[SPOOR_PROGRAM_BEGUN] = "begun",
		[SPOOR_PROGRAM_RUNS] = "runs",
		[SPOOR_PROGRAM_ENDED] = "ended",
		[SPOOR_PROGRAM_CRASHED] = "crashed",
		[SPOOR_PROGRAM_DAMAGED] = "damaged",
		[SPOOR_PROGRAM_UNSEEN] = "without exit()",
	};

	return state < sizeof(names) / sizeof(*names) && names[state] ? names[state] : "unknown";
}

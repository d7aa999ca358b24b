/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/tally.h"

void spoor_tally_stack(struct spoor_tally *t, const struct spoor_segment *segment, uint32_t id, uint64_t n)
{
	const struct spoor_stack *stack;

	if (!id) {
		t->no_stack += n;
		return;
	}
	stack = spoor_segment_stack(segment, id);
	if (!stack) {
		t->walks[SPOOR_WALK_LOST] += n;
		return;
	}
	t->walks[stack->status < SPOOR_WALK_STATUS_MAX ? stack->status : SPOOR_WALK_LOST] += n;
	if (!stack->n && (stack->status == SPOOR_WALK_COMPLETE || stack->status == SPOOR_WALK_GUESSED))
		t->empty += n;
	if (stack->status != SPOOR_WALK_LOST) /* that one nobody walked */
		t->ways[stack->way == SPOOR_WAY_USER] += n;
}

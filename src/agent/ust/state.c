/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/ust/class.h"
#include "agent/ust/exported.h"
#include "agent/ust/state.h"

struct spoor_agent_state spoor_agent_state = {
	.version = SPOOR_AGENT_STATE_VERSION,
	.slots = slots,
	.n_slots = SPOOR_SLOTS,
	.slot_size = sizeof(struct slot),
	.slot_channel = offsetof(struct slot, channel),
	.class_slots = offsetof(struct class, slots),
	.calls = &own_calls,
};
_Static_assert(offsetof(struct spoor_arena_channel, name) == 0, "");

__asm__(".pushsection .note.spoor,\"a\",@note\n"
	"	.balign 4\n"
	"	.long 6, 16, 2\n"
	"	.asciz \"Spoor\"\n"
	"	.balign 4\n"
	"	.long 1\n"
	"	.long spoor_agent_state - .\n"
	"	.long 0, 0\n"
	".popsection\n");

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What the library says of itself to whoever looks at the process from outside (`spoor ust list PID`), with or without
 * a recorder. It is found by a note as sites are (spoor/site.h), in the library's file or a static program's:
 *
 *   .note.spoor:  namesz 6, descsz 16, type 2, "Spoor\0", pad to 4;
 *                 u32 version, i32 to the struct spoor_agent_state (from its own address), u32 0, u32 0
 */
#include <linux/types.h>

#define SPOOR_NOTE_AGENT 2
#define SPOOR_AGENT_NOTE_VERSION 1
#define SPOOR_AGENT_STATE_VERSION 3

enum spoor_agent_way {
	SPOOR_AGENT_UNKNOWN = 0, /* not tried yet: there are no sites */
	SPOOR_AGENT_PATCHED = 1, /* code is written */
	SPOOR_AGENT_MEM = 2,     /* the same, through /proc/self/mem alone: a policy refuses any other way, or may */
	SPOOR_AGENT_REFUSED = 3, /* code cannot be written: sites that ask a flag are switched by that, others never */
};

/*
 * In which channels a tracepoint's events are: its `agent` points to what the library knows of its class, where
 * class_slots bytes on stand 32 bits; bit i stands for slot i, where slot_channel bytes on is a pointer to the channel,
 * which begins with its name. NULL wherever there is nothing.
 *
 * A process may have several copies of the library: one preloaded, others linked into objects. One serves, it finds the
 * others' marks as it is found from outside; `calls` is where they go on with what they are called for (exported.h).
 */
struct spoor_agent_calls;
struct spoor_agent_state {
	__u32 version;
	__u32 way; /* enum spoor_agent_way */
	const void *slots;
	__u32 n_slots, slot_size, slot_channel, class_slots; /* slot_size: bytes of each */
	const struct spoor_agent_calls *calls;
	__u32 serves; /* 0: another copy does, or none has begun */
	__u32 reserved;
};
_Static_assert(sizeof(struct spoor_agent_state) == 48, "");
extern struct spoor_agent_state spoor_agent_state __attribute__((visibility("hidden")));

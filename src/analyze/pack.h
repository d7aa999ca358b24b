/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Putting into a trace what its reading needs of this machine, so that it opens on another one. */
#include "trace/packed.h"

enum spoor_pack_state {
	SPOOR_PACK_PACKED,
	SPOOR_PACK_ALREADY,    /* it was in, whole */
	SPOOR_PACK_CHANGED,    /* another file is at its path now */
	SPOOR_PACK_UNREADABLE, /* no such file, or not for us */
	SPOOR_PACK_UNKNOWN,    /* its content was not seen while recording, so nothing can prove a file to be it */
};

struct spoor_pack_item {
	enum spoor_packed_kind kind;
	enum spoor_pack_state state;
	const char *path;      /* of the object; of the map */
	uint64_t size, stored; /* bytes as they are, and in the trace; only of what was packed now */
};

struct spoor_pack_options {
	const char *debug_root, *jit_folder; /* NULL: /usr/lib/debug, /tmp */
	void (*each)(void *p, const struct spoor_pack_item *item);
	void *p;
};

/*
 * Packs the objects that occur in the trace's stacks, their debugging files, and maps of just-in-time code if there is
 * such. May be repeated. -EBUSY: the trace is being written, or packed. What was packed before a failure stays.
 */
int spoor_pack(const char *path, const struct spoor_pack_options *o, struct spoor_error *e);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The file of a recorded object, if it is still the one that was recorded. */
#include "analyze/process_root.h"

enum spoor_object_state {
	SPOOR_OBJECT_SAME,       /* proven by content, or by size, modification time and inode */
	SPOOR_OBJECT_CHANGED,    /* another file is at its path now */
	SPOOR_OBJECT_UNREADABLE, /* no such file, or not for us */
};

/*
 * Opens what object->path names, for us, or what its place does (spoor_segment_place(); NULL: none), or in one of these
 * roots (NULL: none). *ret_fd is open only for SPOOR_OBJECT_SAME; the caller closes it.
 * The vDSO is this machine's own, if it has the recorded build-id.
 * epoch_offset: of its trace; of a file that was changed in any way since it was defined there the content tells. 0: of
 * none.
 */
enum spoor_object_state spoor_object_file_open(const struct spoor_object *object, const char *place,
					       const struct spoor_roots *roots, uint64_t epoch_offset, int *ret_fd);

struct spoor_packed;
/*
 * What was packed of it into the trace: 0, -ENOENT (not packed), -EBADMSG (damaged: its content is not what was
 * recorded), or another error. The caller closes *ret_fd.
 */
int spoor_object_packed_open(const struct spoor_object *object, struct spoor_packed *packed, int *ret_fd);

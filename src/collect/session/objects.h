/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The objects of a recording: files whose code was met in a walk. A loader thread opens them, has their rows compiled
 * (or taken from the cache), publishes the rows to the kernel, and unwinds the raw stacks that came before they
 * were there. The recording's own thread never waits for it.
 *
 * Functions are called from the recording's thread unless said otherwise.
 */
#include <stdbool.h>
#include <stddef.h>

#include "collect/kernel/control.h"
#include "collect/kernel/row_store.h"
#include "collect/session/ledger.h"
#include "collect/session/scope.h"
#include "object/identity.h"
#include "unwind/rows.h"

struct spoor_objects;

struct spoor_objects_options {
	struct spoor_kernel *kernel;
	const struct spoor_scope *app; /* outlives the objects */
	const struct spoor_scope *custom;
	const char *cache_dir; /* NULL: no cache on disk */
	uint64_t max_row_bytes;
	struct spoor_ledger *ledger; /* their definitions are noted there, too; NULL: nowhere; outlives the objects */
};

/* Everything known of one object; what pointers point at lives as long as the objects. */
struct spoor_object_entry {
	uint32_t id;
	uint32_t pid, tid; /* a process that maps it, and a thread of it */
	struct spoor_object_key key;
	uint64_t start, end; /* the mapping it was met in */
	char *path;
	char *place;   /* in its file system; NULL: not known */
	uint32_t mounts; /* the mount namespace */
	char *reached; /* by which path its file is reached that is not at `path` for us; NULL: it is, or by none */
	bool loaded;    /* the rest is final */
	uint32_t flags; /* enum spoor_object_flag */
	unsigned limit;
	bool failed, forbidden; /* it could not be opened; for want of permission */
	bool made; /* code made at run time: to walks as if it were in anonymous memory */
	struct spoor_object_identity identity;
	bool has_rows;
	struct spoor_rows rows;
	struct spoor_object_entry *older; /* when its file could not be opened */
};

int spoor_objects_new(const struct spoor_objects_options *o, struct spoor_objects **ret, struct spoor_error *e);
/*
 * What is left of them in a process that was forked from theirs, when that is no more: definitions, for a consumer;
 * nothing is loaded.
 */
int spoor_objects_left(const struct spoor_ledger *l, struct spoor_objects **ret);
/* Waits for the loader's work in hand, not for its queue. */
void spoor_objects_free(struct spoor_objects *s);

/*
 * A file that the kernel announced (again, if it could not be opened), a layout, a raw stack: handed to the loader. The
 * record is copied.
 */
int spoor_objects_announce(struct spoor_objects *s, const struct spoor_ctl_object *o);
int spoor_objects_layout(struct spoor_objects *s, const struct spoor_ctl_layout *l);
int spoor_objects_raw(struct spoor_objects *s, const struct spoor_ctl_raw *r);

/*
 * Loads the rows of a file now: before the kernel side is attached, or on the loader's thread. program: it is what the
 * command runs, not a library. Returns 0 or -errno: not fatal, it will be met in a walk.
 */
int spoor_objects_preload(struct spoor_objects *s, const char *path, bool program);
/*
 * The same of what a thread has mapped there; without the right to open the mapping, by its name. Unless ret_id is
 * NULL, *ret_id is the file's id, also if it had one (-EEXIST), or SPOOR_OBJECT_NONE.
 */
int spoor_objects_preload_mapping(struct spoor_objects *s, uint32_t tid, uint64_t start, uint64_t end, uint64_t ino,
				  const char *name, uint32_t *ret_id);

/*
 * Ids whose entry has been replaced since the last call, because the file that was gone is there after all: at most
 * `most` into ret_ids. Returns how many.
 */
size_t spoor_objects_returned(struct spoor_objects *s, uint32_t *ret_ids, size_t most);

/* The entry of an id once it is loaded, else NULL. Any thread. */
const struct spoor_object_entry *spoor_objects_get(struct spoor_objects *s, uint32_t id);

/* The definition of a loaded object as an event; free() it. NULL: there is none of that id yet, or no memory. */
struct spoor_object *spoor_objects_definition(struct spoor_objects *s, uint32_t id);
/* The same of where its file is reached; NULL also if that is its path. */
struct spoor_place *spoor_objects_place(struct spoor_objects *s, uint32_t id);
/* The id of a mapped file as /proc/PID/maps has it (dev: major << 20 | minor), or SPOOR_OBJECT_NONE. Any thread. */
uint32_t spoor_objects_find(struct spoor_objects *s, uint64_t ino, uint64_t dev);

/*
 * Stacks unwound since the last call, as ready-made spoor_stack events: calls `done` for each. Returns how many.
 * fd becomes readable when there are some.
 */
size_t spoor_objects_unwound(struct spoor_objects *s, void (*done)(void *ctx, const struct spoor_stack *st), void *ctx);
int spoor_objects_fd(const struct spoor_objects *s);
/* Objects and stacks not worked off yet. */
size_t spoor_objects_waiting(struct spoor_objects *s);

struct spoor_objects_counts {
	uint64_t loaded, failed, no_rows; /* objects */
	uint64_t forbidden;               /* of the failed: those that may not be read */
	uint64_t no_memory;               /* of the loaded: their rows found no room in the kernel */
	uint64_t row_bytes;
	uint64_t walks[SPOOR_WALK_STATUS_MAX]; /* raw stacks unwound, by status */
	uint64_t overflow;                     /* raw stacks given up: too many waiting */
	uint64_t waiting;                      /* raw stacks not unwound yet */
	uint64_t last_new_ns;                  /* when the last object became known to the kernel, CLOCK_MONOTONIC */
};
void spoor_objects_counts(struct spoor_objects *s, struct spoor_objects_counts *ret);

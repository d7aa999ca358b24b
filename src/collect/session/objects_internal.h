/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The objects' parts: objects.c (what is known of each), objects_load.c (how one is loaded), loader.c (the thread, and
 * what it has to do), objects_left.c (without it).
 */
#include <pthread.h>

#include "collect/session/layouts.h"
#include "collect/session/objects.h"

enum work_kind { WORK_OBJECT, WORK_LAYOUT, WORK_RAW };

struct work {
	struct work *next;
	enum work_kind kind;
	uint64_t since; /* a raw stack: when it had to wait first, ns */
	size_t bytes;
	union {
		struct spoor_ctl_object *object;
		struct spoor_ctl_layout *layout;
		struct spoor_ctl_raw *raw;
	};
};

struct spoor_objects {
	struct spoor_objects_options o;
	struct spoor_rowd *rowd;
	struct spoor_row_store *store;
	pthread_t thread;
	bool running, stop;
	int done_fd;
	struct spoor_layouts *layouts; /* the loader's, as is: */
	uint64_t hurried_since, hurried_ns; /* CPU time that it had at once in the second that began then */

	pthread_mutex_t lock; /* all below */
	pthread_cond_t wake;
	struct work *first, **last;
	size_t n_waiting, bytes_waiting;
	struct spoor_object_entry *entries[SPOOR_KERNEL_OBJECTS];
	uint32_t returned[SPOOR_KERNEL_OBJECTS]; /* ids of files that were gone: each comes back once */
	size_t n_returned;
	struct unwound {
		struct unwound *next;
		struct spoor_stack stack; /* and its frames */
	} * unwound, **unwound_last;
	struct spoor_objects_counts counts;
};

/* objects.c */
void spoor_objects_init(struct spoor_objects *s);
struct spoor_object_entry *spoor_objects_entry(uint32_t id, const char *path, size_t len);
void spoor_objects_free_entry(struct spoor_object_entry *o);

/* objects_load.c: code that is of no file that anybody announces: the vDSO, and what programs make as they run. */
void spoor_objects_load_own(struct spoor_objects *s);
/* Loads what the kernel has announced. On the loader's thread. */
void spoor_objects_load(struct spoor_objects *s, const struct spoor_ctl_object *c);

/* objects_left.c: there is no loader. */
void spoor_objects_announced_left(struct spoor_objects *s, const struct spoor_ctl_object *c);

/* loader.c */
int spoor_loader_start(struct spoor_objects *s, struct spoor_error *e);
/* Waits for the work in hand; what is left in the queue, and what it has unwound, is freed. */
void spoor_loader_stop(struct spoor_objects *s);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What programs call by name, and which copy of the library does it. A process may have several: the preloaded one,
 * and others that were linked into the program and its libraries from the archive. Sites and their tracepoints are
 * there once, so one copy serves them all, the first one that begins; what the others are called for it does.
 *
 *     program's archive          preloaded library         archive of a dlopen()ed library
 *     serves 0 --- calls ------> serves 1 <------- calls --- serves 0
 */
#include <stdbool.h>
#include <stdint.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

/* Copies of different versions call each other: it only ever grows at its end. */
struct spoor_agent_calls {
	void (*object_in)(const void *note);
	void (*object_out)(const void *note);
	int (*probe_register)(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
			      void *data);
	int (*probe_unregister)(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
				void *data);
	void (*probe_synchronize)(void);
	int (*marker_register)(const char *name, const char *format, marker_probe_func *probe, void *data);
	int (*marker_unregister)(const char *name, marker_probe_func *probe, void *data);
	void (*thread_init)(void);
};
extern const struct spoor_agent_calls own_calls __attribute__((visibility("hidden")));

/* Whether it is this copy that serves. The first one that asks does. */
bool agent_serves(void);

/* The object that this copy is in stays when dlclose() is called: others' sites lead to it. Once libc has begun. */
void agent_stay(void);

/* start.c's part of own_calls */
void agent_object_in(const void *note);
void agent_object_out(const void *note);

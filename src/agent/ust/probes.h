/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Callbacks of tracepoints and markers, under RCU (rcu.h). */
#include "agent/ust/class.h"
#include <spoor/marker.h>
#include <spoor/tracepoint.h>

/* spoor_ops' */
const struct spoor_probe *probes_begin(struct spoor_tracepoint *tp);
void probes_end(void);

/* Whether any is registered; gives a new class those that were registered for its name. Under the process's lock. */
bool probes_any(void);
void probes_attach(struct class *c);

/* What programs register by spoor/tracepoint.h and spoor/marker.h. */
int probe_register(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void), void *data);
int probe_unregister(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void), void *data);
int probe_register_marker(const char *name, const char *format, marker_probe_func *probe, void *data);
int probe_unregister_marker(const char *name, marker_probe_func *probe, void *data);
void probe_synchronize(void);

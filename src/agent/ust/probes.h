/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Callbacks of tracepoints and markers, under RCU (liburcu's bulletproof flavour: threads need not register). */
#include "agent/ust/class.h"

/* spoor_ops' */
const struct spoor_probe *probes_begin(struct spoor_tracepoint *tp);
void probes_end(void);

/* Whether any is registered; gives a new class those that were registered for its name. Under the process's lock. */
bool probes_any(void);
void probes_attach(struct class *c);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Definitions that events in the rings refer to and that stand in an older segment. A consumer that was there
 * remembers them; one that goes on in the place of another finds them on disk.
 */
#include "collect/kernel/kernel.h"
#include "collect/session/consumer.h"
#include "trace/writer.h"

/* After taking over, before the first drain. What is not found in a third of a second stays undefined. */
int spoor_recall(const struct spoor_kernel *k, struct spoor_writer *w, struct spoor_consumer *c);

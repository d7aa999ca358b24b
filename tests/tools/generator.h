/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What the generators of traces have in common. GENERATOR is the program's name, PADDING what stands behind events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/writer.h"

static struct spoor_writer *writer;
static uint64_t now = 1000000000, seed = 88172645463325252;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, GENERATOR ": %s\n", what);
	exit(1);
}

/* xorshift64: Marsaglia 2003. */
static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* Ends an event of len bytes: pads, sets its size. */
static void seal(void *event, size_t len)
{
	struct spoor_event_header *h = event;
	size_t padded = SPOOR_EVENT_ROUND(len);

	memset((char *)event + len, PADDING, padded - len);
	h->size4 = padded / 4;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Whose a trace at a relay is: kept in the trace (a file ".relay", which readers pass over), so that another relay
 * process knows it. Text: a word and its value a line.
 */
#include <stdint.h>

struct relay_owner {
	uint8_t token[16];       /* the secret of those who may write to it */
	uint8_t incarnation[16]; /* the sender at present */
	char peer[65];           /* its certificate's SHA-256; "-": none was asked for */
	uint32_t parts;
	uint64_t window; /* bytes that a sender can have had on the way */
};

/* -ENOENT: it has none, it is no trace of a relay. -EBADMSG. */
int relay_owner_read(int dir_fd, struct relay_owner *ret);
int relay_owner_write(int dir_fd, const struct relay_owner *o);

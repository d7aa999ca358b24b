/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Commands to a recording that runs: `spoor record --set mode=app --set budget=3 DIR`. The recording listens on an
 * abstract Unix socket named after its directory's device and inode, so nothing stays behind whatever happens to it;
 * the peer must be of the same user, or root. One message: commands, each with a NUL; one reply: "ok", or why none of
 * them is done.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Listens for the recording in `dir`. Returns the socket or -errno. */
int spoor_remote_listen(const char *dir, struct spoor_error *e);

/*
 * Takes one message from a listening socket: calls apply(ctx, text, check, e), which returns 0 or -errno with the
 * reason, for each of its commands with check true, and if all may be, for each with check false. Text is
 * NUL-terminated, from a peer that may say anything. Waits for no more than a moment.
 */
void spoor_remote_serve(int fd, int (*apply)(void *ctx, const char *text, bool check, struct spoor_error *e),
			void *ctx);

/* The other side: sends n commands to the recording in `dir`. 0, -ENOENT (nobody records there), or its refusal. */
int spoor_remote_send(const char *dir, const char *const *texts, size_t n, struct spoor_error *e);

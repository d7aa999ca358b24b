/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A hub for a command and its descendants alone: its socket is in a directory of its own. */
#include "collect/user/hub.h"

struct spoor_private_hub {
	char dir[100], socket[108]; /* as long as a socket's path may be */
	int watcher; /* a socket to the process that removes dir if we are killed; -errno: there is none */
	struct spoor_hub *hub;
};

/* cache_dir: of unwind rows, NULL: none. warn gets a line that a person should know; may be NULL. */
int spoor_private_open(struct spoor_private_hub *p, const char *cache_dir, void (*warn)(void *ctx, const char *text),
		       void *ctx, struct spoor_error *e);
/*
 * For what is executed from now on: where the recorder is, and the library. -ENOENT: there is no library; -ELIBBAD: the
 * command (a path) would not bear it. It is not preloaded then, and the rest is so.
 */
int spoor_private_environment(const struct spoor_private_hub *p, const char *command, struct spoor_error *e);
/*
 * Who outlives the command, such as a daemon, was forked by it: what it has written until now is recorded, and it hears
 * of the session's end, which is next. It may not have come yet. meanwhile (NULL: nothing) is called while we wait.
 */
void spoor_private_call_heirs(struct spoor_private_hub *p, const struct spoor_ust_session *s,
			      void (*meanwhile)(void *ctx), void *ctx);
/* Once no session is left: who begins before the socket is closed is not wanted, and who has just begun hears it. */
void spoor_private_dismiss(struct spoor_private_hub *p);
void spoor_private_close(struct spoor_private_hub *p);

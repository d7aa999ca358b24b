/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The command of `-- CMD`: found, forked, and let go when all else is ready. */
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

bool spoor_command_runnable(const char *path);
/* As execvp(3) looks for it; its path goes to ret, PATH_MAX bytes. */
int spoor_command_find(const char *name, char *ret, struct spoor_error *e);

/* A command that waits for its go: forked, not yet executing. */
struct spoor_command {
	pid_t pid;        /* 0: there is none, or whoever waits for its end has seen that */
	int go_fd;        /* write end: one byte lets it run; -1: it runs */
	int status_fd;    /* read end: an errno if execve failed, end of file if it worked */
	const char *path; /* of fork's caller, who keeps it */
};

int spoor_command_fork(char **argv, const char *path, struct spoor_command *ret, struct spoor_error *e);
/*
 * Lets it execve. Returns 0, or -errno of the execve; -EINTR: somebody pressed Ctrl-C before, and does not want it to
 * begin. It waits on then, to be dropped.
 */
int spoor_command_go(struct spoor_command *c, struct spoor_error *e);
/* One that still waits ends, and with it its copies of our descriptors: helpers end at the end of their sockets. */
void spoor_command_drop(struct spoor_command *c);
/*
 * Ctrl-C on a terminal goes to the command too: where it ends of it, its end is what is told. serve() is called every
 * 10 ms until the command's pid is 0, or it seems to go on: after 0.2 s in which it had no signal left to hear.
 */
void spoor_command_await(const struct spoor_command *c, void (*serve)(void *ctx), void *ctx);

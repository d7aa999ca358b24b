/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/server.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>

int spoor_server_signals(struct spoor_error *e)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? spoor_fail(e, errno, "cannot wait for signals (signalfd): %s", strerror(errno)) : fd;
}

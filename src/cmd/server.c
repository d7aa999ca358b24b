/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/server.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int spoor_server_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

static struct sigaction sigchld_before;
static sigset_t mask_before;

void spoor_signals_begin(void)
{
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &sigchld_before);
	sigprocmask(SIG_SETMASK, NULL, &mask_before);
}

static void on_failed_write(int sig)
{
}

/* A handler does that to us alone: execve gives what is executed back what it would have had. */
void spoor_signals_survive(int of_write)
{
	struct sigaction now, handle = { .sa_handler = on_failed_write, .sa_flags = SA_RESTART };

	if (!sigaction(of_write, NULL, &now) && now.sa_handler == SIG_DFL)
		sigaction(of_write, &handle, NULL);
}

static bool is_ending(int sig)
{
	struct sigaction now;

	return sig == SIGINT || sig == SIGTERM ||
	       (sig == SIGHUP && !sigaction(SIGHUP, NULL, &now) && now.sa_handler != SIG_IGN);
}

bool spoor_signals_told_to_end(void)
{
	sigset_t set;

	if (sigpending(&set))
		return false;
	for (int sig = 1; sig < NSIG; sig++)
		if (is_ending(sig) && sigismember(&set, sig))
			return true;
	return false;
}

static int watch(int also, int other, struct spoor_error *e)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (int sig = 1; sig < NSIG; sig++)
		if (is_ending(sig) || sig == also || sig == other)
			sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? spoor_fail(e, errno, "cannot wait for signals (signalfd): %s", strerror(errno)) : fd;
}

int spoor_signals_watch(int other, struct spoor_error *e)
{
	return watch(SIGCHLD, other, e);
}

int spoor_signals_serve(struct spoor_error *e)
{
	signal(SIGPIPE, SIG_IGN);
	return watch(0, 0, e);
}

void spoor_signals_restore(void)
{
	sigaction(SIGCHLD, &sigchld_before, NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

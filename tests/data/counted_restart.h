/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The way of `counted` in which calls are interrupted and go on. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counted_calls.h"

static volatile sig_atomic_t depth;

/* The first sleeps until the second comes, which sleeps shortly. */
static void handler(int sig)
{
	struct timespec ts = { depth ? 0 : 60, 3000000 };

	depth++;
	nanosleep(&ts, NULL);
	depth--;
}

/* What /proc knows of the parent, from its begin. */
static void look(int fd, char *ret, size_t size)
{
	struct iovec iov = { ret, size - 1 };
	ssize_t n = preadv(fd, &iov, 1, 0);

	if (n <= 0) /* it has gone */
		_exit(1);
	ret[n] = 0;
}

/* In one of these states; a state in which it sleeps counts only within that call. */
static void wait_until(const int *fds, const char *states, int nr)
{
	char stat[512], call[128], *state;

	for (;; sched_yield()) {
		look(fds[0], stat, sizeof(stat));
		look(fds[1], call, sizeof(call));
		state = strrchr(stat, ')');
		if (state && strchr(states, state[2]) && (nr < 0 || (call[0] != 'r' && atoi(call) == nr)))
			return;
	}
}

static int open_of(pid_t pid, const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	return open(path, O_RDONLY);
}

static void interrupt(int n, int out)
{
	int fds[2] = { open_of(getppid(), "stat"), open_of(getppid(), "syscall") };

	for (int i = 0; i < n; i++) {
		wait_until(fds, "S", SYS_read);
		kill(getppid(), i & 1 ? SIGUSR1 : SIGUSR2);
		wait_until(fds, "S", SYS_clock_nanosleep);
		kill(getppid(), i & 1 ? SIGUSR2 : SIGUSR1); /* into the other's handler */
	}
	wait_until(fds, "S", SYS_read);
	if (write(out, "x", 1) != 1)
		_exit(1);
	wait_until(fds, "S", SYS_poll);
	kill(getppid(), SIGSTOP);
	wait_until(fds, "Tt", -1); /* t: somebody traces it */
	kill(getppid(), SIGCONT);
	wait_until(fds, "S", SYS_restart_syscall);
	_exit(write(out, "x", 1) != 1);
}

static void restart(int n, int p)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct pollfd in = { .events = POLLIN };
	int fds[2];
	char byte;
	pid_t child;

	if (pipe(fds))
		exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	child = fork();
	if (!child)
		interrupt(n, fds[1]);
	if (read(fds[0], &byte, 1) != 1)
		exit(1);
	in.fd = fds[0];
	if (poll(&in, 1, 60000) != 1)
		exit(1);
	waitpid(child, NULL, 0);
	call(p);
}

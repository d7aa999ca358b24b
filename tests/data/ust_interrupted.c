/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_interrupted FROM TO BY [fork]: for each BYth number of instructions from FROM to TO a child records an event, and
 * gets a signal after so many, the next one after so many of that one's handler, and so on, as many as there are.
 * Handlers record an event each. Prints what is to be recorded as tests/e2e/tracing.py reads it, and how deep they
 * stood.
 *
 * fork: there is one signal for each, whose handler forks; what that makes goes on where the signal came, records an
 * event, and ends.
 */
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(interrupted, step, TP_PROTO(long n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(long, n, n), spoor_string(s, s)))

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

#define FORKED 1000000 /* numbers of what those record that handlers fork */

/* ---- the child ---- */

static long next, depth, deepest;

static void event(void)
{
	spoor_trace(interrupted, step, __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED), "seventeen letters");
}

static void on_signal(int sig)
{
	(void)sig;
	if (++depth > deepest)
		deepest = depth;
	event();
	depth--;
}

static void end_forked(int sig)
{
	(void)sig;
	next = FORKED;
	event();
	_exit(0);
}

static void fork_there(int sig)
{
	int status;
	pid_t pid = fork();

	(void)sig;
	check(pid >= 0, "fork");
	if (!pid)
		signal(SIGTRAP, end_forked); /* at the next trap() */
	else
		check(waitpid(pid, &status, 0) == pid && !status, "who was forked");
}

static void trap(void)
{
	__asm__ volatile("int3" ::: "memory");
}

static void child(long rounds, int forks)
{
	struct sigaction a = { .sa_handler = forks ? fork_there : on_signal };
	int sig;

	for (sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		check(!sigaction(sig, &a, NULL), "sigaction");
	event();
	while (rounds--) {
		trap();
		event();
		trap();
	}
	printf("recorded interrupted:step 0 %ld\ndeepest %ld\n", next, deepest);
	exit(0);
}

/* ---- who interrupts it ---- */

static pid_t pid;
static int ended; /* it has come to a trap */

/* sig: what it gets first, unless it blocks that: then later. */
static void go(enum __ptrace_request how, int sig)
{
	siginfo_t info;
	int status;

	do {
		check(!ptrace(how, pid, 0, sig) && waitpid(pid, &status, 0) == pid, "continue");
		if (!WIFSTOPPED(status))
			exit(!WIFEXITED(status) || WEXITSTATUS(status));
		sig = WSTOPSIG(status);
	} while (sig != SIGTRAP);
	check(!ptrace(PTRACE_GETSIGINFO, pid, 0, &info), "how it stopped");
	ended = info.si_code == SI_KERNEL;
}

/* Each within the handler of the one before, unless that has returned. */
static void interrupt_it(long steps, int last)
{
	int sig;
	long i;

	ended = 0;
	for (sig = SIGRTMIN; sig <= last; sig++) {
		for (i = 0; i < steps && !ended; i++)
			go(PTRACE_SINGLESTEP, 0);
		if (!ended)
			go(PTRACE_SINGLESTEP, sig);
	}
	while (!ended)
		go(PTRACE_CONT, 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 && !strcmp(argv[argc - 1], "fork") ? argv[argc - 1] : NULL;
	int n = how ? argc - 1 : argc, last = how ? SIGRTMIN : SIGRTMAX, status;
	long from = n == 4 ? atol(argv[1]) : 0, to = n == 4 ? atol(argv[2]) : 0, by = n == 4 ? atol(argv[3]) : 0;

	if (n == 2)
		child(atol(argv[1]), !!how);
	check(from > 0 && to >= from && by > 0, "usage");
	pid = fork();
	if (!pid) {
		char rounds[20];

		snprintf(rounds, sizeof(rounds), "%ld", (to - from) / by + 1);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl("/proc/self/exe", argv[0], rounds, how, NULL);
		_exit(127);
	}
	check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "exec");
	check(!ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL), "options");
	for (; from <= to; from += by) {
		go(PTRACE_CONT, 0);
		interrupt_it(from, last);
	}
	for (;;)
		go(PTRACE_CONT, 0); /* exits with it */
}

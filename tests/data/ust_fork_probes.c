/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_fork_probes: makes children in many ways while a thread is in a probe, and another one waits for that. Each child
 * has probes of its own come and go. Says "WAY ended", or "hangs".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(held, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
SPOOR_TRACEPOINT(child, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define PATIENCE_MS 5000

static bool entered, leave;
static int calls;

static bool is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag, bool to)
{
	__atomic_store_n(flag, to, __ATOMIC_RELEASE);
}

static void hold(void *data, int n)
{
	(void)data;
	(void)n;
	set(&entered, true);
	while (!is_set(&leave))
		usleep(1000);
}

static void count(void *data, int n)
{
	(void)data;
	calls += n;
}

static void *enter(void *arg)
{
	spoor_trace(held, step, 1);
	return arg;
}

static void *step(void *arg)
{
	spoor_trace(child, step, 1);
	return arg;
}

static void in_child(bool thread)
{
	pthread_t other;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing else ends one that hangs */
	if (register_trace_child_step(count, NULL))
		_exit(1);
	step(NULL);
	if (thread && (pthread_create(&other, NULL, step, NULL) || pthread_join(other, NULL)))
		_exit(2);
	if (unregister_trace_child_step(count, NULL))
		_exit(3);
	tracepoint_synchronize_unregister();
	_exit(calls == 1 + thread ? 0 : 4);
}

static pid_t by_fork(void)
{
	pid_t p = fork();

	if (!p)
		in_child(true);
	return p;
}

static pid_t by_fork_twice(void)
{
	pid_t p = fork();
	int status;

	if (p)
		return p;
	p = by_fork();
	waitpid(p, &status, 0);
	_exit(status != 0);
}

static pid_t by_fork_with_signals_blocked(void)
{
	sigset_t all, old;
	pid_t p;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	p = by_fork();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p;
}

static pid_t by_clone(void)
{
	pid_t p = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!p)
		in_child(false);
	return p;
}

static pid_t made;

static void fork_here(void *data, int n)
{
	(void)data;
	(void)n;
	made = fork();
}

static void *in_probe(void *arg)
{
	spoor_trace(child, step, 1);
	if (!made) {
		unregister_trace_child_step(fork_here, NULL);
		in_child(true);
	}
	return arg;
}

static void watch(const char *way, pid_t p)
{
	int ms, status;

	for (ms = 0; ms < PATIENCE_MS; ms++) {
		if (waitpid(p, &status, WNOHANG) == p) {
			printf("%s %s\n", way, status ? "failed" : "ended");
			return;
		}
		usleep(1000);
	}
	printf("%s hangs\n", way);
	kill(p, SIGKILL);
	waitpid(p, &status, 0);
}

/* Has all signals blocked and liburcu's lock until the probe is left. */
static void *wait_for_it(void *arg)
{
	tracepoint_synchronize_unregister();
	return arg;
}

int main(void)
{
	pthread_t reader, waiter;

	setvbuf(stdout, NULL, _IOLBF, 0);
	register_trace_child_step(fork_here, NULL);
	register_trace_held_step(hold, NULL);
	pthread_create(&reader, NULL, enter, NULL);
	while (!is_set(&entered))
		usleep(1000);
	in_probe(NULL);
	watch("probe", made);
	/* Not unregister_: it would wait for the reader. */
	pthread_create(&waiter, NULL, wait_for_it, NULL);
	usleep(50000);
	in_probe(NULL);
	watch("probe waited for", made);
	set(&leave, true);
	pthread_join(reader, NULL);
	pthread_join(waiter, NULL);
	unregister_trace_child_step(fork_here, NULL);

	set(&leave, false);
	set(&entered, false);
	pthread_create(&reader, NULL, enter, NULL);
	while (!is_set(&entered))
		usleep(1000);
	watch("fork", by_fork());
	watch("fork twice", by_fork_twice());
	watch("signals blocked", by_fork_with_signals_blocked());
	watch("clone", by_clone());
	pthread_create(&waiter, NULL, wait_for_it, NULL);
	usleep(50000);
	watch("clone locked", by_clone());
	watch("signals blocked locked", by_fork_with_signals_blocked());
	watch("fork locked", by_fork()); /* what the probe waits for comes after it, as a lock of this thread's might */
	set(&leave, true);
	pthread_join(waiter, NULL);
	pthread_join(reader, NULL);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Ways of `counted` that are about threads and processes: how they begin, wait and end. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counted_calls.h"

static int calls;
static pthread_barrier_t all, others; /* with the main thread, and without it */
static pthread_t main_thread;
static pthread_t *threads; /* room for N */
static char **args;

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

static void wait_for_end_of_stdin(void)
{
	while (getchar() != EOF)
		;
}

static void start(int n, void *(*f)(void *), pthread_t *ret)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (int i = 0; i < n; i++)
		if (pthread_create(&ret[i], &attr, f, i ? NULL : args)) {
			perror("pthread_create");
			exit(1);
		}
}

static void *call_all(void *arg)
{
	call(calls);
	pthread_barrier_wait(&all);
	return arg;
}

static void together(int n, int p)
{
	start(n, call_all, threads);
	pthread_barrier_wait(&all);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void *call_and_hang(void *arg)
{
	call(calls);
	pthread_barrier_wait(&all);
	wait_for_ever();
	return arg;
}

static void start_hanging(int n)
{
	start(n, call_and_hang, threads);
	pthread_barrier_wait(&all);
}

static void segv(int n, int p)
{
	start_hanging(n);
	*(volatile int *)NULL = 1;
}

static void hang(int n, int p)
{
	start_hanging(n);
	say("ready");
	pause();
}

static void group(int n, int p)
{
	start_hanging(n);
	syscall(SYS_exit_group, 7);
}

static void *after_the_leader(void *arg)
{
	if (arg)
		pthread_join(main_thread, NULL);
	pthread_barrier_wait(&others);
	call(calls);
	return arg;
}

static void leader(int n, int p)
{
	start(n, after_the_leader, threads);
	pthread_exit(NULL);
}

static void *execute(const char *how, int n)
{
	char number[16], p[16];

	call(calls);
	pthread_barrier_wait(&all);
	snprintf(number, sizeof(number), "%d", n);
	snprintf(p, sizeof(p), "%d", calls);
	execl("/proc/self/exe", args[0], how, number, p, (char *)NULL);
	return NULL;
}

static void *execute_threads(void *arg)
{
	return execute("threads", 1);
}

static void exec(int n, int p)
{
	start(n - 1, call_and_hang, threads);
	start(1, execute_threads, threads + n - 1);
	pthread_barrier_wait(&all);
	wait_for_ever();
}

static void *execute_chain(void *arg)
{
	return execute("chain", atoi(args[2]) - 1);
}

static void chain(int n, int p)
{
	if (!n) {
		say("last");
		wait_for_end_of_stdin();
		return;
	}
	pthread_barrier_init(&all, NULL, 2);
	start(1, execute_chain, threads);
	for (int i = 0; i < p; i++)
		syscall(SYS_getuid);
	pthread_barrier_wait(&all);
	wait_for_ever();
}

static void *call_shortly(void *arg)
{
	call(calls);
	return arg;
}

static void storm(int ms, int p)
{
	long until = now_ms() + ms;
	pthread_t t[4];
	int n = 0;

	do {
		start(4, call_shortly, t);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		n += 4;
	} while (now_ms() < until);
	printf("%d\n", n);
	fflush(stdout);
	wait_for_end_of_stdin();
}

static void to_be_killed(int ready)
{
	pthread_t t[3];

	pthread_barrier_init(&all, NULL, 4);
	start(3, call_and_hang, t);
	call(calls);
	pthread_barrier_wait(&all);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	wait_for_ever();
}

static void kills(int n, int p)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		exit(1);
	while (getchar() != EOF) {
		for (int i = 0; i < n; i++) {
			pid_t pid = fork();

			if (!pid)
				to_be_killed(fds[1]);
			if (pid < 0 || read(fds[0], &byte, 1) != 1)
				exit(1);
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		say("done");
	}
}

static void processes(int n, int p)
{
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			call(p);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static void *call_many(void *arg)
{
	many(200, calls);
	pthread_barrier_wait(&all);
	wait_for_ever();
	return arg;
}

static void crowd(int n, int p)
{
	start(n, call_many, threads);
	pthread_barrier_wait(&all);
	say("ready");
	pause();
}

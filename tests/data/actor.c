/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program whose calls are known. A mark is one getppid(2), which neither the C library nor the dynamic loader calls.
 *
 *   marks N            N marks
 *   family             11 marks, and children by fork (13; a grandchild's 5), vfork (17), thread (19), clone3 (23)
 *   serve              4 threads; when a byte comes on stdin each makes 101 marks, then a forked child 31; "done"
 *   become N PROG...   N marks, then execve of PROG
 *   thread-become N PROG...   the same by a thread that is not the leader
 *   storm N M          N children one after another with 3 marks each, every M'th by execve of this program
 *   sleep              says "ready" and sleeps until it is killed; 1 mark when a byte comes on stdin
 *   many N             N threads that sleep; says "ready"; when a byte comes on stdin each makes one mark
 *   crash              7 marks, then a write to NULL
 *   eat                touches memory until it is killed
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *self;

__attribute__((noinline)) void marks(long n)
{
	for (long i = 0; i < n; i++)
		syscall(SYS_getppid);
	__asm__ volatile("");
}

static void *thread_marks(void *n)
{
	marks((long)n);
	return NULL;
}

static void child_marks(long n)
{
	pid_t pid = fork();

	if (!pid) {
		marks(n);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static int family(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pthread_t thread;
	pid_t pid;

	marks(11);
	pid = fork();
	if (!pid) {
		marks(13);
		child_marks(5);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pid = vfork();
	if (!pid) {
		marks(17);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pthread_create(&thread, NULL, thread_marks, (void *)19);
	pthread_join(thread, NULL);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (!pid) {
		marks(23);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *behind_gate(void *n)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	marks((long)n);
	return NULL;
}

static int serve(long n, long each, long child)
{
	pthread_t *threads = calloc(n, sizeof(*threads));
	pthread_attr_t attr;
	char byte;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_mutex_lock(&gate);
	for (long i = 0; i < n; i++)
		if (pthread_create(&threads[i], &attr, behind_gate, (void *)each))
			return 3;
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return 4;
	pthread_mutex_unlock(&gate);
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (child)
		child_marks(child);
	puts("done");
	return 0;
}

static char **become_argv;

static void *become(void *n)
{
	marks((long)n);
	execve(become_argv[0], become_argv, environ);
	_exit(127);
}

static int thread_become(long n)
{
	pthread_t thread;

	pthread_create(&thread, NULL, become, (void *)n);
	pause();
	return 1;
}

static int storm(long n, long every)
{
	char *argv[] = { (char *)self, "marks", "3", NULL };

	for (long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			if (i % every == 0)
				execve(self, argv, environ);
			marks(3);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static int sleeper(void)
{
	char byte;

	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) == 1)
		marks(1);
	else
		pause();
	return 0;
}

static int eat(void)
{
	for (;;) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 5;
		memset(p, 1, 1 << 20);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;

	self = "/proc/self/exe";
	become_argv = argv + 3;
	if (!strcmp(what, "marks"))
		marks(n);
	else if (!strcmp(what, "family"))
		return family();
	else if (!strcmp(what, "serve"))
		return serve(4, 101, 31);
	else if (!strcmp(what, "many"))
		return serve(n, 1, 0);
	else if (!strcmp(what, "become"))
		become((void *)n);
	else if (!strcmp(what, "thread-become"))
		return thread_become(n);
	else if (!strcmp(what, "storm"))
		return storm(n, argc > 3 ? atol(argv[3]) : 2);
	else if (!strcmp(what, "sleep"))
		return sleeper();
	else if (!strcmp(what, "eat"))
		return eat();
	else if (!strcmp(what, "crash")) {
		marks(7);
		*(volatile int *)(uintptr_t)16 = 1;
	} else
		return 2;
	return 0;
}

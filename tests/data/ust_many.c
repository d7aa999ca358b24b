/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thousand sites: ust_many [thread] [OBJECT], ust_many forks OBJECT. Each makes one event. With `thread` there is a
 * second thread first; an OBJECT, this file built as one (-DOBJECT), is loaded then, and has as many of its own; `forks`
 * makes children, of an event each, while a thread loads and unloads it. Between some of the sites there are bytes that
 * look like a debugger's breakpoint.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

#ifdef OBJECT
#define run run_object
#define EVENT(n) spoor_trace(many, loaded, n)
SPOOR_TRACEPOINT(many, loaded, TP_PROTO(long n), TP_ARGS(n), TP_FIELDS(spoor_int(long, n, n)))
#else
#define EVENT(n) spoor_trace(many, linked, n)
SPOOR_TRACEPOINT(many, linked, TP_PROTO(long n), TP_ARGS(n), TP_FIELDS(spoor_int(long, n, n)))
#endif

#define ONE EVENT(n); n++;
#define TEN ONE ONE ONE ONE ONE ONE ONE ONE ONE ONE
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN \
	__asm__ volatile("jmp 1f\n .skip 3, 0xcc\n 1:");

void run(void);
void run(void)
{
	long n = 0;

	HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED
}

#ifndef OBJECT
static void *rest(void *arg)
{
	pause();
	return arg;
}

static _Noreturn void *load(void *object)
{
	for (;;)
		dlclose(dlopen(object, RTLD_NOW));
}

static int forks(char *object)
{
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, load, object);
	for (i = 0; i < 50; i++) {
		pid_t child = fork();

		if (!child) {
			EVENT(i);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		usleep(777);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int i;

	if (argc > 2 && !strcmp(argv[1], "forks"))
		return forks(argv[2]);
	run();
	for (i = 1; i < argc; i++) {
		void (*loaded)(void);
		void *object;

		if (!strcmp(argv[i], "thread")) {
			pthread_create(&thread, NULL, rest, NULL);
			continue;
		}
		object = dlopen(argv[i], RTLD_NOW);
		*(void **)&loaded = object ? dlsym(object, "run_object") : NULL;
		if (!loaded)
			return 1;
		loaded();
	}
	return 0;
}
#endif

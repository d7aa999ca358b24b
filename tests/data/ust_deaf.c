/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program whose thread blocks all signals. Each event says how many frames backtrace() finds. Round by round: one
 * of main(); once there is a byte to be read, two more, through the object that is named. Ends at the second byte.
 * With one more argument a child does all that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spoor/tracepoint.h>

/* An event's first field is what gcc has in rbp where the library is called: 0, as an outermost frame has. */
enum way { BY_MAIN, BY_SAME, BY_NONE };

SPOOR_TRACEPOINT(deaf, at, TP_PROTO(int way, int frames), TP_ARGS(way, frames),
		 TP_FIELDS(spoor_int(int, way, way), spoor_int(int, frames, frames)))

typedef void (*call_through)(void (*f)(int), int way);

static __attribute__((noinline)) void hit(int way)
{
	void *found[64];
	int n = backtrace(found, 64);

	spoor_trace(deaf, at, way, n);
	__asm__ volatile("");
}

static bool told(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	return poll(&p, 1, 5) == 1 && read(STDIN_FILENO, &byte, 1) >= 0;
}

static void rounds(call_through same, call_through none)
{
	do {
		hit(BY_MAIN);
		if (same) {
			same(hit, BY_SAME);
			none(hit, BY_NONE);
		}
	} while (!told());
}

/* It has a frame pointer, which "same" leaves alone. */
__attribute__((optimize("no-omit-frame-pointer"))) int main(int argc, char **argv)
{
	void *object;
	int status = 0;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	puts("ready");
	fflush(stdout);
	if (argc > 2 && fork())
		return wait(&status) < 0 || status;
	rounds(NULL, NULL);
	object = dlopen(argv[1], RTLD_NOW);
	if (!object)
		return 2;
	rounds((call_through)dlsym(object, "same"), (call_through)dlsym(object, "none"));
	return 0;
}

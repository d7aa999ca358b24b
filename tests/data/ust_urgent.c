/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A library (-DLIBRARY) that takes SIGURG for itself before the program that is linked with it begins, as Go's runtime
 * may, and such a program, which sends it to its first thread. Commands by standard input, a letter:
 * 's' sends 500, a millisecond apart; 'b' blocks it and sends one; 'u' lets it come; 'l' has another thread load the
 * plugin that is named; 'r' writes an event. Each is answered by a line; the last one is of how often the handler ran,
 * and how often for what was queued.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>

extern volatile int urgent, queued;

#ifdef LIBRARY
volatile int urgent, queued;

static void on_urgent(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	urgent++;
	queued += info->si_code == SI_QUEUE;
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction a = { .sa_sigaction = on_urgent, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGURG, &a, NULL);
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static void *load(void *plugin)
{
	puts(dlopen(plugin, RTLD_NOW) ? "loaded" : dlerror());
	return NULL;
}

static void send_one(void)
{
	tgkill(getpid(), gettid(), SIGURG);
}

int main(int argc, char **argv)
{
	pthread_t loader;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	for (int c; (c = getchar()) != EOF;) {
		if (c == 's')
			for (int i = 0; i < 500; i++, usleep(1000))
				send_one();
		if (c == 'b') {
			pthread_sigmask(SIG_BLOCK, &set, NULL);
			send_one();
		}
		if (c == 'u')
			pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		if (c == 'l' && argc > 1)
			pthread_create(&loader, NULL, load, argv[1]);
		if (c == 'r')
			spoor_trace(zoo, tick, 1);
		if (c != 'l')
			puts("done");
	}
	printf("%d %d\n", urgent, queued);
	return 0;
}
#endif

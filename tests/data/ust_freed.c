/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_freed coroutine|signal [thread]: three events on a stack that is amid other memory, below the loader's or the
 * stack of a thread without guard page. rbp, which a function uses for anything, points into a block that is freed
 * after the first event.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(freed, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define BLOCK (1 << 20) /* malloc's are mappings of their own */
static ucontext_t before, inside;
static char *block; /* above the stack */

static __attribute__((noinline)) void step(int n)
{
	spoor_trace(freed, step, n);
	__asm__ volatile("");
}

static __attribute__((noinline, optimize("omit-frame-pointer"))) void event(int n)
{
	register char *at __asm__("rbp") = block + 64;

	__asm__ volatile("" : "+r"(at));
	step(n);
	__asm__ volatile("" : "+r"(at));
}

static void events(void)
{
	event(0);
	free(block);
	event(1);
	event(2);
}

static void handler(int sig)
{
	(void)sig;
	events();
}

static void *run(void *how)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	stack_t alternate = { .ss_size = BLOCK };

	block = calloc(1, BLOCK);
	alternate.ss_sp = malloc(BLOCK); /* what is mapped later is below */
	if (!strcmp(how, "signal")) {
		sigaltstack(&alternate, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		return NULL;
	}
	getcontext(&inside);
	inside.uc_stack = alternate;
	inside.uc_link = &before;
	makecontext(&inside, events, 0);
	swapcontext(&before, &inside);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t without_guard;
	pthread_t thread;

	if (argc == 2)
		return !!run(argv[1]);
	mallopt(M_MMAP_MAX, 1 << 20); /* threads map blocks, too */
	pthread_attr_init(&without_guard);
	pthread_attr_setstack(&without_guard, malloc(BLOCK), BLOCK);
	pthread_create(&thread, &without_guard, run, argv[1]);
	pthread_join(thread, NULL);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_sharing [1]: threads that have no thread-local storage of their own (clone() without CLONE_SETTLS), so all write
 * as if they were the main thread, beside threads that have. With an argument they say so by spoor_thread_init().
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(sharing, shared, TP_PROTO(unsigned long n, const char *text), TP_ARGS(n, text),
		 TP_FIELDS(spoor_int(unsigned long, n, n), spoor_string(text, text)))
SPOOR_TRACEPOINT(sharing, bystander, TP_PROTO(unsigned long n), TP_ARGS(n), TP_FIELDS(spoor_int(unsigned long, n, n)))

#define SHARERS 3 /* and the main thread */
#define BYSTANDERS 2
#define EACH 100003UL
#define STACK (1 << 16)

static volatile int tids[SHARERS];

/* Events of all sizes, so that one's bytes lie across another's. */
static void share(unsigned long first)
{
	static const char text[] = "the quick brown fox jumps over the lazy dog, and the dog sleeps on";
	unsigned long i;

	for (i = 0; i < EACH; i++)
		spoor_trace(sharing, shared, first + i, text + i % (sizeof(text) - 1));
}

static int sharer(void *arg)
{
	share((unsigned long)arg * EACH);
	syscall(SYS_exit, 0);
	return 0;
}

static void *bystander(void *arg)
{
	unsigned long first = (unsigned long)arg * EACH, i;

	for (i = 0; i < EACH; i++)
		spoor_trace(sharing, bystander, first + i);
	return NULL;
}

int main(int argc, char **argv)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
			  CLONE_CHILD_CLEARTID;
	pthread_t t[BYSTANDERS];
	unsigned long i;
	char *stacks;

	(void)argv;
	for (i = 0; i < BYSTANDERS; i++)
		pthread_create(&t[i], NULL, bystander, (void *)i);
	if (argc > 1 && spoor_thread_init)
		spoor_thread_init();
	stacks = mmap(NULL, SHARERS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < SHARERS; i++) {
		tids[i] = 1;
		clone(sharer, stacks + (i + 1) * STACK, flags, (void *)i, NULL, NULL, &tids[i]);
	}
	share(SHARERS * EACH);
	for (i = 0; i < SHARERS; i++)
		while (tids[i])
			usleep(100);
	for (i = 0; i < BYSTANDERS; i++)
		pthread_join(t[i], NULL);
	printf("recorded sharing:shared 0 %lu\n", (SHARERS + 1) * EACH);
	printf("recorded sharing:bystander 0 %lu\n", BYSTANDERS * EACH);
	return 0;
}

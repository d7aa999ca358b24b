/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_deep MODE DEPTH ROUNDS: signal handlers over half-written events, DEPTH of these one over the other. Each event
 * has bytes of a page that cannot be read, so writing it is interrupted by SIGSEGV, in whose handler the next one is
 * begun. The innermost handler makes the pages readable, and all are completed. MODE:
 *
 *	signals	each in the handler of another signal that is raised in that of SIGSEGV: 40 at most
 *	again	in the handler of SIGSEGV itself, which interrupts itself
 *	both	again; every other event is deep:other
 *	onstack	again, on an alternate stack
 *	left	again; before, the innermost handler leaves them all by siglongjmp
 *	fork	again; the innermost handler forks, and the child goes back through all of them, too
 *	late	likewise, in each round; the children wait in that handler while their parent goes on, and records much
 *	threads	again, in a thread for each round; every other one ends in its innermost handler
 *
 * Prints what is to be recorded as tests/e2e/tracing.py reads it, and how many were begun: of one that finds no room
 * nothing is read, so that there is none over it.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(deep, step, TP_PROTO(long n, const unsigned char *from), TP_ARGS(n, from),
		 TP_FIELDS(spoor_int(long, n, n), spoor_sequence(unsigned char, bytes, from, 24)))

SPOOR_TRACEPOINT(deep, other, TP_PROTO(long n, const unsigned char *from), TP_ARGS(n, from),
		 TP_FIELDS(spoor_int(long, n, n), spoor_sequence(unsigned char, bytes, from, 24)))

#define PAGE 4096L
#define LEFT 1000000  /* numbers of what is not completed */
#define CHILD 2000000 /* and of what a child records */
#define MUCH 3000     /* events */
#define MOST_LATE 64  /* children */

static long depth, others, begun;
static void (*deeper)(void), (*innermost)(void);
static int all[64], n_all;
static sigjmp_buf out;
static pid_t forked, late[MOST_LATE];
static int n_late, gate[2];
static __thread struct {
	unsigned char *pages;
	long first, level;
} my;

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void event(void)
{
	long level = my.level++;

	begun++;
	if (others && level % 2)
		spoor_trace(deep, other, my.first + level, my.pages + level * PAGE);
	else
		spoor_trace(deep, step, my.first + level, my.pages + level * PAGE);
}

static void open_pages(void)
{
	check(!mprotect(my.pages, (size_t)(depth * PAGE), PROT_READ), "mprotect");
}

static void on_signal(int sig)
{
	(void)sig;
	event();
}

static void on_fault(int sig)
{
	(void)sig;
	if (my.level < depth)
		deeper();
	else
		innermost();
}

static void raise_next(void)
{
	raise(all[my.level - 1]);
}

static void leave(void)
{
	siglongjmp(out, 1);
}

static void fork_there(void)
{
	open_pages();
	forked = fork();
	if (forked)
		return;
	my.first = CHILD;
	my.level = 0;
	event();
}

static void fork_late(void)
{
	char byte;

	open_pages();
	check(n_late < MOST_LATE, "so many children");
	forked = fork();
	late[n_late++] = forked;
	if (forked)
		return;
	close(gate[1]);
	check(!read(gate[0], &byte, 1), "wait");
}

/* Returns how many events there are then. The children go on when their parent's packets have been filled anew. */
static long record_much(long n)
{
	long end = n + MUCH;
	int i, status;

	check(!mprotect(my.pages, PAGE, PROT_READ | PROT_WRITE), "mprotect");
	for (; n < end; n++) {
		memset(my.pages, (int)(n % 251), 24);
		spoor_trace(deep, step, n, my.pages);
	}
	close(gate[1]);
	for (i = 0; i < n_late; i++)
		check(waitpid(late[i], &status, 0) == late[i] && !status, "child");
	return end;
}

static void end_thread(void)
{
	pthread_exit(NULL);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags };

	check(!sigaction(sig, &a, NULL), "sigaction");
}

static void handle_all(void)
{
	static const int some[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGVTALRM, SIGPROF, SIGIO };
	int sig;

	for (n_all = 0; n_all < (int)(sizeof(some) / sizeof(some[0])); n_all++)
		all[n_all] = some[n_all];
	for (sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		all[n_all++] = sig;
	check(depth <= n_all, "so many signals");
	for (sig = 0; sig < n_all; sig++)
		handle(all[sig], on_signal, 0);
}

static void begin(long first)
{
	long i;

	if (!my.pages)
		my.pages =
			mmap(NULL, (size_t)(depth * PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(my.pages != MAP_FAILED && !mprotect(my.pages, (size_t)(depth * PAGE), PROT_READ | PROT_WRITE), "pages");
	for (i = 0; i < depth; i++)
		memset(my.pages + i * PAGE, (int)((first + i) % 251), 24);
	check(!mprotect(my.pages, (size_t)(depth * PAGE), PROT_NONE), "mprotect");
	my.first = first;
	my.level = 0;
	event();
}

static void *thread(void *first)
{
	begin((long)first);
	return NULL;
}

static void run_thread(long first)
{
	pthread_t t;

	check(!pthread_create(&t, NULL, thread, (void *)first), "pthread_create");
	check(!pthread_join(t, NULL), "pthread_join");
}

static void rounds(const char *mode, long n)
{
	long i;

	for (i = 0; i < n; i++) {
		if (strcmp(mode, "threads")) {
			begin(i * depth);
			if (n_late && !forked)
				return;
			continue;
		}
		innermost = end_thread;
		run_thread(LEFT);
		innermost = open_pages;
		run_thread(i * depth);
	}
}

static void alternate(void)
{
	size_t size = (size_t)depth * 8192 + 65536;
	stack_t s = { .ss_sp = malloc(size), .ss_size = size };

	check(s.ss_sp && !sigaltstack(&s, NULL), "sigaltstack");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[1] : "";
	long n = argc > 3 ? atol(argv[3]) : 0, end;

	depth = argc > 3 ? atol(argv[2]) : 0;
	check(depth > 0, "usage");
	deeper = event;
	innermost = open_pages;
	if (!strcmp(mode, "signals")) {
		handle_all();
		deeper = raise_next;
	} else if (!strcmp(mode, "both")) {
		others = 1;
	} else if (!strcmp(mode, "onstack")) {
		alternate();
	} else if (!strcmp(mode, "left")) {
		innermost = leave;
	} else if (!strcmp(mode, "fork")) {
		innermost = fork_there;
	} else if (!strcmp(mode, "late")) {
		check(!pipe(gate), "pipe");
		innermost = fork_late;
	}
	handle(SIGSEGV, on_fault, SA_NODEFER | (strcmp(mode, "onstack") ? 0 : SA_ONSTACK));
	if (strcmp(mode, "left") || sigsetjmp(out, 1))
		innermost = strcmp(mode, "left") ? innermost : open_pages;
	else
		begin(LEFT);
	rounds(mode, n);
	if (n_late && !forked) {
		my.first = CHILD;
		my.level = 0;
	}
	if ((!strcmp(mode, "fork") || n_late) && !forked) {
		event(); /* the child's */
		return 0;
	}
	if (!strcmp(mode, "fork"))
		check(waitpid(forked, NULL, 0) == forked, "waitpid");
	end = n_late ? record_much(n * depth) : n * depth;
	printf("recorded deep:step 0 %ld\nbegun %ld\n", end, begun);
	return 0;
}

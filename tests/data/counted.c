/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that makes a known number of calls of getppid, in ways that are hard on who counts:
 *
 *	counted threads N P    N threads at once, P calls each
 *	counted segv N P       the same, then all wait but one, which dereferences NULL
 *	counted hang N P       the same, but all wait: prints "ready"; to be killed
 *	counted group N P      the same, but one calls exit_group while the others wait in a read
 *	counted leader N P     the main thread ends first, then the others call
 *	counted exec N P       N threads call P times, then the last one executes `counted threads 1 P`
 *	counted storm S P      threads of P calls are born and die for S milliseconds; prints how many there were, and
 *	                       waits for the end of stdin
 *	counted kills N P      for each byte on stdin N processes of 4 threads with P calls each are born and killed;
 *	                       prints "done"
 *	counted alternate S P  one call of P others each, then getppid and getuid by turns for S milliseconds
 *	counted chain N P      the main thread makes P calls of getuid, another P of getppid; that one executes
 *	                       `counted chain N-1 P`; the last prints "last" and
 *	                       waits for the end of stdin
 *	counted processes N P  N children one after the other, P calls each
 *	counted int80 N P      N calls of getppid by int 0x80, P by syscall
 *	counted restart N P    a read interrupted by N signals, in whose handlers a nanosleep is interrupted by another,
 *	                       and a poll that goes on by restart_syscall; then P calls. Who sends the signals looks by
 *	                       preadv whether they will come into these calls
 *	counted unknown N P    N calls of number 999, P of getppid
 *	counted many N P       N different calls, P times each: more than any thread has slots for
 *	counted crowd N P      N threads make 200 different calls, P times each, and wait: prints "ready"; to be killed
 *	counted errors N P     N x ENOENT, P x EBADF, 2 x EFAULT of openat, and N x EISDIR
 *	counted busy N P       N times readv of P MiB of zeros; prints how many ns passed meanwhile, and how many on the
 *	                       CPU
 *	counted asleep N P     the same of N sleeps of P milliseconds
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counted_calls.h"
#include "counted_restart.h"
#include "counted_threads.h"

static const struct {
	const char *name;
	void (*run)(int n, int p);
} ways[] = {
	{ "threads", together },    { "segv", segv },       { "hang", hang },           { "group", group },
	{ "leader", leader },       { "exec", exec },       { "storm", storm },         { "kills", kills },
	{ "alternate", alternate }, { "chain", chain },     { "processes", processes }, { "int80", by_int80 },
	{ "restart", restart },     { "unknown", unknown }, { "many", many },           { "crowd", crowd },
	{ "errors", fail },         { "busy", busy },       { "asleep", asleep },
};

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 1;

	args = argv;
	calls = argc > 3 ? atoi(argv[3]) : 1;
	threads = calloc(n + 1, sizeof(*threads));
	main_thread = pthread_self();
	pthread_barrier_init(&all, NULL, n + 1);
	pthread_barrier_init(&others, NULL, n);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(how, ways[i].name)) {
			ways[i].run(n, calls);
			return 0;
		}
	fprintf(stderr, "counted: %s?\n", how);
	return 1;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * new_code many|shared LIBRARY...: calls mark() of each library at once when it is loaded, 11 times.
 * many: in a process with more executable mappings than the kernel side describes at once, below those of libc.
 * shared: in another process, which has the same memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MANY 700
#define CALLS 11

static void (*volatile job)(void);
static volatile int done;
static char stack[65536];

static void call(void (*mark)(void))
{
	for (int i = 0; i < CALLS; i++)
		mark();
}

static int work_for_another(void *arg)
{
	while (!done) {
		if (job) {
			call(job);
			job = NULL;
		}
		sched_yield();
	}
	return 0;
}

static int map_many(void)
{
	char *at = mmap(NULL, MANY * 8192UL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int bad = at == MAP_FAILED;

	for (int i = 0; i < MANY && !bad; i++)
		bad = mmap(at + i * 8192UL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			   0) == MAP_FAILED;
	return bad;
}

int main(int argc, char **argv)
{
	int shared = argc > 1 && !strcmp(argv[1], "shared"), status = 0, pid = 0;

	if (shared)
		pid = clone(work_for_another, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	else if (map_many())
		return 1;
	for (int i = 2; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		void (*mark)(void) = library ? (void (*)(void))dlsym(library, "mark") : NULL;

		if (!mark)
			return 1;
		if (!shared) {
			call(mark);
			continue;
		}
		job = mark;
		while (job)
			sched_yield();
	}
	done = 1;
	return shared && (waitpid(pid, &status, 0) != pid || status);
}

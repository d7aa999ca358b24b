/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * storm THREADS SECONDS LIBRARY: each thread forks children (3 marks each, by getppid), vforks and executes this
 * program ("storm mark", 2 marks), starts threads that end at once (1 mark), and opens and closes LIBRARY, whose
 * function makes 1 mark. With 0 SECONDS they go on until SIGTERM comes. Prints how many marks were made in all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_long made;
static time_t until;
static atomic_int over;
static const char *library;

static void marks(int n)
{
	while (n--)
		syscall(SYS_getppid);
}

static void *short_thread(void *unused)
{
	marks(1);
	return unused;
}

static void wait_well(pid_t pid, int add)
{
	int status;

	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		made += add;
	else
		abort();
}

static void once(unsigned kind)
{
	pthread_t t;
	pid_t pid;
	void *lib;

	switch (kind % 4) {
	case 0:
		pid = fork();
		if (!pid) {
			marks(3);
			_exit(0);
		}
		wait_well(pid, 3);
		break;
	case 1:
		pid = vfork();
		if (!pid) {
			execl("/proc/self/exe", "storm", "mark", (char *)NULL);
			_exit(127);
		}
		wait_well(pid, 2);
		break;
	case 2:
		if (pthread_create(&t, NULL, short_thread, NULL))
			abort();
		pthread_join(t, NULL);
		made += 1;
		break;
	case 3:
		lib = dlopen(library, RTLD_NOW);
		if (!lib)
			abort();
		((void (*)(void))dlsym(lib, "mark"))();
		made += 1;
		dlclose(lib);
		break;
	}
}

static void on_term(int sig)
{
	over = sig;
}

static void *stormy(void *seed)
{
	for (unsigned i = (unsigned)(long)seed; !over && (!until || time(NULL) < until); i++)
		once(i);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t threads[64];

	if (argc == 2 && !strcmp(argv[1], "mark")) {
		marks(2);
		return 0;
	}
	if (argc != 4 || n < 1 || n > 64)
		return 2;
	if (atoi(argv[2]))
		until = time(NULL) + atoi(argv[2]);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_term, .sa_flags = SA_RESTART }, NULL);
	library = argv[3];
	for (long i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, stormy, (void *)i);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", made);
	return 0;
}

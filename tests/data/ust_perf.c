/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_perf: events of two threads between which pages are touched and the thread sleeps; of each, by getrusage() before
 * and after it, "N FAULTS SWITCHES FAULTS SWITCHES". Then many threads, and how many descriptors of counters are left.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(perf, at, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define EVENTS 6
#define PAGE 4096

struct use {
	long faults, switches;
};

static struct use used(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return (struct use){ u.ru_minflt + u.ru_majflt, u.ru_nvcsw + u.ru_nivcsw };
}

static void work(int n)
{
	size_t size = (size_t)(n + 1) * 257 * PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += PAGE)
		p[i] = 1;
	munmap(p, size);
	for (int i = 0; i < 3 * n; i++)
		usleep(1000);
}

static void *thread(void *arg)
{
	int first = *(int *)arg;
	struct use before[EVENTS], after[EVENTS];

	for (int i = 0; i < EVENTS; i++) {
		before[i] = used();
		spoor_trace(perf, at, first + i);
		after[i] = used();
		work(i);
	}
	for (int i = 0; i < EVENTS; i++)
		printf("%d %ld %ld %ld %ld\n", first + i, before[i].faults, before[i].switches, after[i].faults,
		       after[i].switches);
	return NULL;
}

static void *once(void *arg)
{
	spoor_trace(perf, at, *(int *)arg);
	return NULL;
}

static void run(void *(*what)(void *arg), int n)
{
	pthread_t t;

	pthread_create(&t, NULL, what, &n);
	pthread_join(t, NULL);
}

static int open_counters(void)
{
	DIR *d = opendir("/proc/self/fd");
	char path[300], target[64];
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		memset(target, 0, sizeof(target));
		if (readlink(path, target, sizeof(target) - 1) > 0)
			n += strstr(target, "perf_event") != NULL;
	}
	if (d)
		closedir(d);
	return n;
}

int main(void)
{
	int first = 0;

	thread(&first);
	run(thread, 100);
	for (int i = 0; i < 2003; i++)
		run(once, 1000 + i);
	printf("left %d\n", open_counters());
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The microbenchmark: one cheap system call, again and again, from a call stack of a chosen shape. Prints ns a call.
 *
 * A frame is counted from the system call outwards: 1 is libc's syscall(), the others are functions of the chain
 * (frames.c). Beneath them come this program's main loop, main and the start code. With --library the chain lies in
 * libframes.so, and the last of the frames is this program's own: what a walk has to cross to reach the application.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"

#define MAX_BATCHES 100000
#define MAX_THREADS 256
#define PATH "/nonexistent/spoor/bench/path"

struct workload {
	const char *what;
	unsigned int frames;
	unsigned int variety;	/* distinct stacks; 1: all calls of a batch come from one descent */
	bool big;
	bool library;
	unsigned long calls;	/* in a batch */
	unsigned long batches;	/* 0: as many as fit into `seconds`, at least 3 */
	double seconds;
	unsigned int threads;
	struct leaf leaf;
};

struct result {
	pthread_t thread;
	const struct workload *workload;
	double *ns;		/* a call, one for each batch */
	unsigned long batches;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* Spreads consecutive numbers over all bits: two stacks then differ in many frames. */
static unsigned int scatter(unsigned int i)
{
	i = (i ^ i >> 16) * 0x7feb352du;
	i = (i ^ i >> 15) * 0x846ca68bu;
	return i ^ i >> 16;
}

static long descend(const struct workload *w, unsigned int path)
{
	if (w->library)
		return lib_chain(&w->leaf, w->frames - 2, path, w->big);
	return app_chain(&w->leaf, w->frames - 1, path, w->big);
}

static void one_batch(const struct workload *w)
{
	if (w->variety <= 1) {
		descend(w, 0);
		return;
	}
	for (unsigned long i = 0; i < w->calls; i++)
		descend(w, scatter(i % w->variety));
}

static void *work(void *arg)
{
	struct result *result = arg;
	const struct workload *w = result->workload;
	unsigned long most = w->batches ? w->batches : MAX_BATCHES;
	double begin = now(), t = begin, end;

	while (result->batches < most) {
		one_batch(w);
		end = now();
		result->ns[result->batches++] = (end - t) / w->calls;
		t = end;
		if (!w->batches && result->batches >= 3 && end - begin >= w->seconds * 1e9)
			break;
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int report(const struct workload *w, struct result *results)
{
	unsigned long n = 0;
	double *all;

	for (unsigned int i = 0; i < w->threads; i++)
		n += results[i].batches;
	all = malloc(n * sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = 0;
	for (unsigned int i = 0; i < w->threads; i++) {
		memcpy(all + n, results[i].ns, results[i].batches * sizeof(*all));
		n += results[i].batches;
	}
	qsort(all, n, sizeof(*all), compare);
	printf("%s: min %.1f median %.1f ns, %lu calls, %u frames, %u threads\n", w->what, all[0], all[n / 2],
	       n * w->calls, w->frames, w->threads);
	free(all);
	return 0;
}

static int run(const struct workload *w)
{
	struct result results[MAX_THREADS] = { };
	int r = 0;

	for (unsigned int i = 0; i < w->threads; i++) {
		results[i].workload = w;
		results[i].ns = calloc(w->batches ? w->batches : MAX_BATCHES, sizeof(double));
		if (!results[i].ns)
			return -ENOMEM;
	}
	for (unsigned int i = 1; i < w->threads; i++) {
		r = -pthread_create(&results[i].thread, NULL, work, &results[i]);
		if (r < 0)
			return r;
	}
	work(&results[0]);
	for (unsigned int i = 1; i < w->threads; i++)
		pthread_join(results[i].thread, NULL);
	r = report(w, results);
	for (unsigned int i = 0; i < w->threads; i++)
		free(results[i].ns);
	return r;
}

static int set_leaf(struct workload *w, const char *self)
{
	struct leaf *leaf = &w->leaf;

	leaf->calls = w->variety > 1 ? 1 : w->calls;
	if (!strcmp(w->what, "getppid")) {
		leaf->nr = SYS_getppid;
	} else if (!strcmp(w->what, "fd")) {
		leaf->nr = SYS_fcntl;
		leaf->arg = open(self, O_RDONLY | O_CLOEXEC);
		leaf->cmd = F_GETFD;
		if (leaf->arg < 0)
			return -errno;
	} else if (!strcmp(w->what, "path")) {
		leaf->nr = SYS_access;
		leaf->arg = (long)PATH;
		leaf->cmd = F_OK;
	} else {
		return -EINVAL;
	}
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: getppid [OPTION...]\n"
			"  -m, --mode getppid|fd|path   getppid, fcntl(F_GETFD) or access of a missing path\n"
			"  -f, --frames N               from syscall() outwards; at least 2, 3 with --library (3)\n"
			"  -v, --variety N              distinct call stacks, each call from the next one (1)\n"
			"  -k, --big                    frames of 4 KiB\n"
			"  -l, --library                the chain lies in a library\n"
			"  -n, --calls N                in a batch (10000)\n"
			"  -b, --batches N              exactly so many\n"
			"  -d, --seconds S              or as many as fit, at least 3 (1)\n"
			"  -t, --threads N              each does all of it (1)\n");
	return 2;
}

static int parse(struct workload *w, int argc, char **argv)
{
	static const struct option options[] = {
		{ "mode",    required_argument, NULL, 'm' },
		{ "frames",  required_argument, NULL, 'f' },
		{ "variety", required_argument, NULL, 'v' },
		{ "big",     no_argument,       NULL, 'k' },
		{ "library", no_argument,       NULL, 'l' },
		{ "calls",   required_argument, NULL, 'n' },
		{ "batches", required_argument, NULL, 'b' },
		{ "seconds", required_argument, NULL, 'd' },
		{ "threads", required_argument, NULL, 't' },
		{ },
	};
	int c;

	while ((c = getopt_long(argc, argv, "m:f:v:kln:b:d:t:", options, NULL)) != -1) {
		switch (c) {
		case 'm': w->what = optarg; break;
		case 'f': w->frames = strtoul(optarg, NULL, 10); break;
		case 'v': w->variety = strtoul(optarg, NULL, 10); break;
		case 'k': w->big = true; break;
		case 'l': w->library = true; break;
		case 'n': w->calls = strtoul(optarg, NULL, 10); break;
		case 'b': w->batches = strtoul(optarg, NULL, 10); break;
		case 'd': w->seconds = strtod(optarg, NULL); break;
		case 't': w->threads = strtoul(optarg, NULL, 10); break;
		default: return -EINVAL;
		}
	}
	if (optind != argc || w->frames < (w->library ? 3 : 2) || w->frames > 1000 || !w->calls || !w->variety)
		return -EINVAL;
	if (!w->threads || w->threads > MAX_THREADS || w->batches > MAX_BATCHES)
		return -EINVAL;
	return 0;
}

int main(int argc, char **argv)
{
	struct workload w = {
		.what = "getppid", .frames = 3, .variety = 1, .calls = 10000, .seconds = 1, .threads = 1,
	};
	int r;

	r = parse(&w, argc, argv);
	if (r < 0)
		return usage();
	r = set_leaf(&w, "/proc/self/exe");
	if (r == -EINVAL)
		return usage();
	if (r == 0)
		r = run(&w);
	if (r < 0) {
		fprintf(stderr, "getppid: %s\n", strerror(-r));
		return 1;
	}
	return 0;
}

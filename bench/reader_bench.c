/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast a trace is read back: `reader_bench TRACE [ROUNDS]`. Three loops over the same trace, interleaved, medians:
 * the merge alone, with every call or user event taken apart, and with what a report asks for (stack, thread,
 * unfinished calls).
 * The floor of the same run: the bytes of the stream files summed up once from their mappings.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trace/reader.h"

#define MAX_ROUNDS 99

enum loop { MERGE, DECODE, REPORT, LOOPS };
static const char *const names[] = { "next", "next + decode", "next + decode + stack + thread + unfinished" };
static uint64_t sum; /* keeps the compiler from leaving work out */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void ask(struct spoor_pendings *p, const struct spoor_event *ev, const struct spoor_call *c)
{
	const struct spoor_stack *s = spoor_segment_stack(ev->segment, c->stack);
	const struct spoor_thread *t = spoor_segment_thread(ev->segment, c->tid, ev->h->ts);

	sum += (s ? s->n : 0) + (t ? t->pid : 0);
	spoor_pendings_see(p, ev);
}

static void take_user(const struct spoor_event *ev, enum loop loop)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];
	const struct spoor_thread *t;

	spoor_class_values(ev->class, ev->h, values);
	for (unsigned i = 0; i < ev->class->n_fields; i++)
		sum += values[i].n;
	t = loop == REPORT ? spoor_segment_thread(ev->segment, ev->h->tid, ev->h->ts) : NULL;
	sum += t ? t->pid : 0;
}

static uint64_t read_all(struct spoor_trace *t, enum loop loop)
{
	struct spoor_pendings *p = NULL;
	struct spoor_event ev;
	struct spoor_call c;
	uint64_t n = 0;

	if (spoor_pendings_new(&p) < 0)
		exit(1);
	spoor_trace_rewind(t);
	for (; spoor_trace_next(t, &ev) > 0; n++) {
		sum += ev.h->ts;
		if (loop >= DECODE && ev.h->id <= SPOOR_EV_SYSCALL_OTHER && spoor_call_decode(&ev, &c) == 0)
			sum += c.args[0].value;
		if (loop == REPORT && ev.h->id <= SPOOR_EV_SYSCALL_OTHER)
			ask(p, &ev, &c);
		if (loop >= DECODE && ev.class)
			take_user(&ev, loop);
	}
	spoor_pendings_free(p);
	return n;
}

static uint64_t sum_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	const uint64_t *map;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return 0;
	for (off_t i = 0; i < st.st_size / 8; i++)
		sum += map[i];
	munmap((void *)map, st.st_size);
	return st.st_size;
}

static uint64_t sum_dir(const char *path)
{
	uint64_t bytes = 0;
	DIR *d = opendir(path);

	if (!d)
		return sum_file(path);
	for (struct dirent *de; (de = readdir(d));) {
		char child[4096];

		if (de->d_name[0] == '.' || !strcmp(de->d_name, "metadata") || !strcmp(de->d_name, "manifest"))
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, de->d_name);
		bytes += sum_dir(child);
	}
	closedir(d);
	return bytes;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[n / 2];
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	double took[LOOPS + 1][MAX_ROUNDS], floor;
	struct spoor_error e = {};
	struct spoor_trace *t;
	uint64_t n = 0, bytes = 0;

	if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS)
		return fprintf(stderr, "usage: reader_bench TRACE [ROUNDS]\n"), 2;
	if (spoor_trace_open(argv[1], &t, &e) < 0)
		return fprintf(stderr, "%s\n", e.text), 1;
	for (int r = -1; r < rounds; r++) { /* round -1 warms up */
		for (int loop = 0; loop <= LOOPS; loop++) {
			double begin = now();

			if (loop == LOOPS)
				bytes = sum_dir(argv[1]);
			else
				n = read_all(t, loop);
			if (r >= 0)
				took[loop][r] = now() - begin;
		}
	}
	floor = median(took[LOOPS], rounds);
	printf("%llu events, %.1f bytes each, %u damages, checksum %llx\n", (unsigned long long)n, (double)bytes / n,
	       spoor_trace_info(t)->n_damages, (unsigned long long)sum);
	printf("%-45s %8.1f ns/event  %8.1f M events/s\n", "floor: sum of the bytes", floor / n * 1e9, n / floor / 1e6);
	for (int loop = 0; loop < LOOPS; loop++) {
		double m = median(took[loop], rounds);

		printf("%-45s %8.1f ns/event  %8.1f M events/s  %5.2f x floor\n", names[loop], m / n * 1e9, n / m / 1e6,
		       m / floor);
	}
	spoor_trace_close(t);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long until an object's rows are ready: compiled by the service (cold), and from the disk cache (identity and
 * load). The object's pages are in memory in both. Medians of several runs; "floor" reads the file once, no more.
 *
 *   rows_bench [OBJECT...]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "object/identity.h"
#include "unwind/rows.h"

#define RUNS 21

enum { FLOOR, IDENTITY, COLD, CACHED, N_TIMES };

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v)
{
	qsort(v, RUNS, sizeof(*v), compare);
	return v[RUNS / 2];
}

static void read_once(int fd)
{
	static char buf[256 << 10];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0)
		at += n;
}

static int get(struct spoor_rowd *d, int fd, struct spoor_rows *ret)
{
	struct spoor_object_identity id;
	struct spoor_error e = { 0 };
	int r = spoor_rowd_get(d, fd, &id, ret, &e);

	if (r < 0)
		fprintf(stderr, "%s\n", e.text);
	return r;
}

static int measure(struct spoor_rowd *cold, struct spoor_rowd *cached, const char *path)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct spoor_object_identity id = { 0 };
	double t[N_TIMES][RUNS], start;
	struct spoor_rows rows;
	int i;

	if (fd < 0) {
		perror(path);
		return 1;
	}
	if (get(cached, fd, &rows) < 0)
		return 1;
	spoor_rows_free(&rows);
	for (i = 0; i < RUNS; i++) {
		start = now_ms();
		read_once(fd);
		t[FLOOR][i] = now_ms() - start;
		start = now_ms();
		spoor_object_identify(fd, &id, NULL);
		t[IDENTITY][i] = now_ms() - start;
		start = now_ms();
		if (get(cold, fd, &rows) < 0)
			return 1;
		t[COLD][i] = now_ms() - start;
		spoor_rows_free(&rows);
		start = now_ms();
		if (get(cached, fd, &rows) < 0)
			return 1;
		t[CACHED][i] = now_ms() - start;
		if (i < RUNS - 1)
			spoor_rows_free(&rows);
	}
	printf("%-44s %8.1f %8u %6u %8.2f %8.2f %8.2f %8.2f\n", path, id.size / 1e6, rows.table.n_rows,
	       rows.table.n_rules, median(t[FLOOR]), median(t[IDENTITY]), median(t[COLD]), median(t[CACHED]));
	spoor_rows_free(&rows);
	return 0;
}

int main(int argc, char **argv)
{
	static char *usual[] = { "/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libc.so.6" };
	char cache[] = "/tmp/spoor-rows-bench-XXXXXX", command[64];
	char **paths = argc > 1 ? argv + 1 : usual;
	int n = argc > 1 ? argc - 1 : 2, i, r = 0;
	struct spoor_rowd *cold, *cached;
	struct spoor_error e;

	if (!mkdtemp(cache) || spoor_rowd_start(NULL, &cold, &e) < 0 || spoor_rowd_start(cache, &cached, &e) < 0) {
		fprintf(stderr, "cannot start\n");
		return 1;
	}
	printf("%-44s %8s %8s %6s %8s %8s %8s %8s\n", "object", "MB", "rows", "rules", "floor ms", "ident ms",
	       "cold ms", "cache ms");
	for (i = 0; i < n; i++)
		r |= measure(cold, cached, paths[i]);
	spoor_rowd_stop(cold);
	spoor_rowd_stop(cached);
	snprintf(command, sizeof(command), "rm -r %s", cache);
	return system(command) || r;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a fuzz harness without libFuzzer: every file of the corpus directories given, then `mutations` of each, always
 * the same ones. It finds what lies near the corpus and keeps what was found from coming back.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define MAX_BYTES (1 << 22)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 0x9e3779b97f4a7c15;

/* xorshift64*: Marsaglia 2003, Vigna 2016. */
static uint64_t draw(uint64_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1d >> 16) % below;
}

/* A copy of its exact size, so that the sanitizer sees a read of one byte too many. */
static void run(const uint8_t *data, size_t size)
{
	_cleanup_(spoor_freep) uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
}

/* Copies a piece of the input over another place of it. */
static void repeat(uint8_t *data, size_t size, size_t at)
{
	size_t from = draw(size);
	size_t room = size - (from > at ? from : at);

	memmove(data + at, data + from, 1 + draw(room));
}

static void mutate(uint8_t *data, size_t *size)
{
	static const uint64_t values[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, INT64_MAX, UINT64_MAX };
	uint64_t changes = 1 + draw(4);

	while (changes-- && *size) {
		size_t at = draw(*size);

		switch (draw(4)) {
		case 0:
			data[at] ^= 1 << draw(8);
			break;
		case 1:
			data[at] = draw(256);
			break;
		case 2: {
			uint64_t value = values[draw(sizeof(values) / sizeof(*values))];
			size_t width = (size_t)1 << draw(4);

			memcpy(data + at, &value, width < *size - at ? width : *size - at);
			break;
		}
		case 3:
			if (!draw(4))
				*size = at;
			else
				repeat(data, *size, at);
			break;
		}
	}
}

static void run_file(const char *path, long mutations)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen(path, "rb");
	_cleanup_(spoor_freep) uint8_t *data = malloc(MAX_BYTES), *changed = malloc(MAX_BYTES);
	size_t size;

	if (!f || !data || !changed) {
		perror(path);
		exit(1);
	}
	size = fread(data, 1, MAX_BYTES, f);
	run(data, size);
	for (long i = 0; i < mutations; i++) {
		size_t n = size;

		memcpy(changed, data, size);
		mutate(changed, &n);
		run(changed, n);
	}
}

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int run_path(const char *path, long mutations)
{
	struct dirent **names;
	struct stat st;
	int n;

	if (stat(path, &st) < 0) {
		perror(path);
		return 0;
	}
	if (!S_ISDIR(st.st_mode)) {
		run_file(path, mutations);
		return 1;
	}
	n = scandir(path, &names, visible, alphasort);
	for (int i = 0; i < n; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		run_file(file, mutations);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return n;
}

/* FUZZ_MUTATIONS: how many of each file, by default so many that a small corpus takes seconds. */
int main(int argc, char **argv)
{
	const char *wanted = getenv("FUZZ_MUTATIONS");
	long mutations = wanted ? atol(wanted) : 500;
	int files = 0;

	for (int i = 1; i < argc; i++)
		files += run_path(argv[i], mutations);
	if (files <= 0) {
		fprintf(stderr, "usage: %s CORPUS...: no file to run\n", argv[0]);
		return 1;
	}
	printf("%d files, %ld mutations each\n", files, mutations);
	return 0;
}

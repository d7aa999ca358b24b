/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A trace of a fuzzer's, in a directory in memory: its files are put down anew for each input. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_NAMES 8

static char root[64];
static const char *made[MOST_NAMES]; /* below it, in the order in which they were made */
static unsigned n_made;

static void must(int ok)
{
	if (!ok)
		abort();
}

static void drop(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	remove(path);
}

static void remove_all(void)
{
	while (n_made)
		drop(made[--n_made]);
	rmdir(root);
}

/* Of what is below the root: name lives for ever. */
static void note(const char *name)
{
	for (unsigned i = 0; i < n_made; i++)
		if (!strcmp(made[i], name))
			return;
	must(n_made < MOST_NAMES);
	made[n_made++] = name;
}

/* Once. dirs: below the root, ended by NULL. */
static void make_root(const char *const *dirs)
{
	char path[128];

	if (root[0])
		return;
	snprintf(root, sizeof(root), "%s/spoor-fuzz-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
		 (int)getpid());
	must(mkdir(root, 0700) == 0);
	for (; *dirs; dirs++) {
		snprintf(path, sizeof(path), "%s/%s", root, *dirs);
		must(mkdir(path, 0700) == 0);
		note(*dirs);
	}
	atexit(remove_all);
}

/* The next `size` bytes of the input, or what is left of them. */
static void put(const char *name, const uint8_t **data, size_t *left, size_t size)
{
	char path[128];
	int fd;

	if (size > *left)
		size = *left;
	snprintf(path, sizeof(path), "%s/%s", root, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0 && write(fd, *data, size) == (ssize_t)size);
	close(fd);
	note(name);
	*data += size;
	*left -= size;
}

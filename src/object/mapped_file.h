/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The file of an object that some process has mapped, wherever it lies and whatever has become of its name. */
#include <stdbool.h>
#include <stdint.h>

struct spoor_mapped_file {
	uint32_t pid, tid;    /* a process that maps it, and a thread of it; 0: none is known */
	uint64_t start, end;  /* the mapping; 0: not known */
	const char *path;     /* as the process sees it */
	const char *place;    /* where it lies in its file system; NULL: not known */
	uint64_t dev;         /* that, as the kernel has it (major << 20 | minor); 0: not known */
	uint32_t mounts;      /* number of the process's mount namespace; 0: not known */
	uint64_t ino;
	uint64_t size, mtime; /* bytes, ns; both 0: not known */
	uint64_t ctime;       /* ns; 0: not known */
	/*
	 * Is an open file it? 1, 0, or -errno: not known. NULL, or then: by its numbers, as stat(2) has them. by_name:
	 * found by a name, so it may be another, or have been written over, since.
	 */
	int (*is_it)(void *ctx, int fd, bool by_name);
	void *ctx;
};

/*
 * Opened for reading, if it is that file: a descriptor, -EACCES (what lies at its path or place may not be read),
 * -ETIMEDOUT, or -ENOENT. Thread-safe.
 */
int spoor_mapped_file_open(const struct spoor_mapped_file *m);

/* By which path it is there for us, if not by its own; free() it. NULL: by its own, or by none. Thread-safe. */
char *spoor_mapped_file_elsewhere(const struct spoor_mapped_file *m);

/*
 * What the kernel says is mapped at an address of a process: fills start, end and ino of *ret. 0, -ENOENT, or why the
 * process's mappings cannot be read.
 */
int spoor_mapped_file_at(uint32_t pid, uint64_t address, struct spoor_mapped_file *ret);

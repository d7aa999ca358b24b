/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The handmade objects of tests/fuzz/corpus/rows (make_rows_corpus.py says what each holds), compiled. */
#include "unwind/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "object/identity.h"

#define TEXT 0x10000
#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"

enum { RBX = 3, RDI = 5, RBP = 6, RSP = 7, R10 = 10 };

static inline void path_of(char *ret, size_t size, const char *name)
{
	snprintf(ret, size, "%s/tests/fuzz/corpus/rows/%s", getenv("SPOOR_SOURCE"), name);
}

static inline void *map(const char *path, size_t *ret_size)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *image;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail_msg("%s is not there", path);
	image = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	*ret_size = st.st_size;
	return image;
}

static inline struct spoor_rows compile(const char *name)
{
	struct spoor_error e = { "" };
	struct spoor_rows rows;
	char path[4096];
	void *image;
	size_t size;

	path_of(path, sizeof(path), name);
	image = map(path, &size);
	if (spoor_rows_compile(image, size, &rows, &e) < 0)
		fail_msg("%s: %s", name, e.text);
	munmap(image, size);
	return rows;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a file is still the one that was recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "analyze/object_file.h"
#include "object/identity.h"

/* The same size, other content, and a time stamp that is put back: for a small file the content tells. */
static void replaced_object(void **state)
{
	struct spoor_object *o = calloc(1, sizeof(*o) + 4096);
	struct spoor_object_identity identity;
	struct timespec times[2] = {};
	struct stat st;
	char folder[] = "/tmp/spoor-object-XXXXXX";
	int fd, opened;

	assert_non_null(mkdtemp(folder));
	snprintf(o->path, 4096, "%s/object", folder);
	fd = open(o->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "content one", 11), 11);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(spoor_object_identify(fd, &identity, NULL), 0);
	o->size = 11;
	o->mtime = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
	o->hash_lo = identity.hash[0];
	o->hash_hi = identity.hash[1];
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_SAME);
	close(opened);

	assert_int_equal(futimens(fd, times), 0); /* touched: still the same */
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_SAME);
	close(opened);

	assert_int_equal(pwrite(fd, "content two", 11, 0), 11);
	times[0] = times[1] = st.st_mtim;
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_CHANGED);

	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_CHANGED);
	unlink(o->path);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_UNREADABLE);
	assert_int_equal(mkfifo(o->path, 0600), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_CHANGED);
	close(fd);
	assert_int_equal(unlink(o->path), 0);
	assert_int_equal(rmdir(folder), 0);
	free(o);
}

/* As large as is not read without need, and all zeros but for its first byte. */
static int make_large(const char *path, char first, const struct timespec *mtime)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct timespec times[2] = { *mtime, *mtime };

	assert_int_equal(write(fd, &first, 1), 1);
	assert_int_equal(ftruncate(fd, 3 << 20), 0);
	assert_int_equal(futimens(fd, times), 0);
	return fd;
}

/* A large file is known by its size, time stamp and inode; where another one is in its place, the content tells. */
static void replaced_large_object(void **state)
{
	struct spoor_object *o = calloc(1, sizeof(*o) + 4096);
	struct timespec mtime = { .tv_sec = 1000000000 };
	struct spoor_object_identity identity;
	char folder[] = "/tmp/spoor-object-XXXXXX", other[4096];
	struct stat st;
	int opened, fd;

	assert_non_null(mkdtemp(folder));
	snprintf(o->path, 4096, "%s/object", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	fd = make_large(o->path, 'a', &mtime);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(spoor_object_identify(fd, &identity, NULL), 0);
	o->size = 3 << 20;
	o->mtime = 1000000000ULL * 1000000000;
	o->dev = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev);
	o->ino = st.st_ino;
	o->hash_lo = identity.hash[0] ^ 1;
	o->hash_hi = identity.hash[1];
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_SAME); /* it was not read */
	close(opened);
	o->hash_lo ^= 1;

	close(make_large(other, 'b', &mtime));
	assert_int_equal(rename(other, o->path), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_CHANGED);

	close(make_large(other, 'a', &mtime)); /* a copy of what was recorded */
	assert_int_equal(rename(other, o->path), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, 0, &opened), SPOOR_OBJECT_SAME);
	close(opened);
	close(fd);
	assert_int_equal(unlink(o->path), 0);
	assert_int_equal(rmdir(folder), 0);
	free(o);
}

/* Where it was: the time at which it was touched cannot be put back. */
static void overwritten_large_object(void **state)
{
	struct spoor_object *o = calloc(1, sizeof(*o) + 4096);
	struct timespec mtime = { .tv_sec = 1000000000 }, times[2] = { mtime, mtime };
	struct spoor_object_identity identity;
	char folder[] = "/tmp/spoor-object-XXXXXX";
	uint64_t defined, later;
	struct stat st;
	int opened, fd;

	assert_non_null(mkdtemp(folder));
	snprintf(o->path, 4096, "%s/object", folder);
	fd = make_large(o->path, 'a', &mtime);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(spoor_object_identify(fd, &identity, NULL), 0);
	defined = (uint64_t)st.st_ctim.tv_sec * 1000000000;
	later = defined + 3600 * 1000000000ULL;
	o->size = 3 << 20;
	o->mtime = 1000000000ULL * 1000000000;
	o->hash_lo = identity.hash[0];
	o->hash_hi = identity.hash[1];

	assert_int_equal(fchmod(fd, 0700), 0); /* touched: still the same */
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, defined, &opened), SPOOR_OBJECT_SAME);
	close(opened);

	assert_int_equal(pwrite(fd, "b", 1, 0), 1);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, defined, &opened), SPOOR_OBJECT_CHANGED);
	/* Not touched since, by this: it was not read. */
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, later, &opened), SPOOR_OBJECT_SAME);
	close(opened);
	close(fd);
	assert_int_equal(unlink(o->path), 0);
	assert_int_equal(rmdir(folder), 0);
	free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaced_object),
		cmocka_unit_test(replaced_large_object),
		cmocka_unit_test(overwritten_large_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

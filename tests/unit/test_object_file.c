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
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_SAME);
	close(opened);

	assert_int_equal(futimens(fd, times), 0); /* touched: still the same */
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_SAME);
	close(opened);

	assert_int_equal(pwrite(fd, "content two", 11, 0), 11);
	times[0] = times[1] = st.st_mtim;
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_CHANGED);

	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_CHANGED);
	unlink(o->path);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_UNREADABLE);
	assert_int_equal(mkfifo(o->path, 0600), 0);
	assert_int_equal(spoor_object_file_open(o, NULL, NULL, &opened), SPOOR_OBJECT_CHANGED);
	close(fd);
	assert_int_equal(unlink(o->path), 0);
	assert_int_equal(rmdir(folder), 0);
	free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(replaced_object) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A mapped file that is to be found by the mounts of its file system, however long their places are. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "object/mapped_file.h"

#define BLANKS 250 /* a name's; the kernel tells each as \040 */

static int setup(void **state)
{
	static char dir[] = "/tmp/spoor-mapped-XXXXXX";

	*state = dir;
	return !mkdtemp(dir) || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       chdir(dir) || mkdir("first", 0700) || mount("none", "first", "tmpfs", 0, NULL) ||
	       mkdir("first/sub", 0700) || close(open("first/sub/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static int teardown(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "cd / && rm -rf %s", (const char *)*state);
	return system(cmd);
}

/* A directory of five names of blanks, below one of `shift` letters: whatever is cut, is cut at another place. */
static void make_point(const char *dir, unsigned shift, char *point, size_t size)
{
	size_t n = snprintf(point, size, "%s/%.*s", dir, shift + 1, "xxxx");

	assert_int_equal(mkdir(point, 0700), 0);
	for (int i = 0; i < 5; i++) {
		n += snprintf(point + n, size - n, "/%*s", BLANKS, "");
		assert_int_equal(mkdir(point, 0700), 0);
	}
}

static void test_found_below_blanks(void **state)
{
	const struct stat none = {};

	for (unsigned shift = 0; shift < 4; shift++) {
		struct stat st = none;
		struct spoor_mapped_file m = { .path = "/nowhere", .place = "/sub/file" };
		char point[4096];
		int fd;

		make_point(*state, shift, point, sizeof(point));
		assert_int_equal(stat("first/sub/file", &st), 0);
		assert_int_equal(mount("first", point, NULL, MS_BIND, NULL), 0);
		assert_int_equal(umount2("first", MNT_DETACH), 0);
		m.dev = spoor_kernel_dev(st.st_dev);
		m.ino = st.st_ino;
		fd = spoor_mapped_file_open(&m);
		assert_true(fd >= 0);
		close(fd);
		assert_int_equal(mount(point, "first", NULL, MS_BIND, NULL), 0); /* for the next */
		assert_int_equal(umount2(point, MNT_DETACH), 0);
	}
	assert_int_equal(umount2("first", MNT_DETACH), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_below_blanks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

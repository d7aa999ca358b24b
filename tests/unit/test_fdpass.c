/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdpass.h"

static int ends[2];

static int open_ends(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int close_ends(void **state)
{
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static ino_t inode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static int is_open(int fd)
{
	struct stat st;

	return !fstat(fd, &st);
}

static void test_bytes_and_descriptors(void **state)
{
	int fds[2] = { ends[0], ends[1] }, got[3], n = 0;
	char text[8] = "";

	assert_int_equal(spoor_fds_send(ends[0], "ab", 3, fds, 2, 0), 0);
	assert_int_equal(spoor_fds_send(ends[0], "cd", 3, NULL, 0, 0), 0);
	assert_int_equal(spoor_fds_receive(ends[1], text, sizeof(text), got, 3, &n, 0), 3);
	assert_string_equal(text, "ab");
	assert_int_equal(n, 2);
	assert_int_equal(inode(got[0]), inode(ends[0]));
	assert_int_equal(inode(got[1]), inode(ends[1]));
	assert_int_equal(got[2], -1);
	close(got[0]);
	close(got[1]);
	assert_int_equal(spoor_fds_receive(ends[1], text, sizeof(text), got, 3, &n, 0), 3);
	assert_string_equal(text, "cd");
	assert_int_equal(n, 0);
	assert_int_equal(got[0], -1);
	assert_int_equal(spoor_fds_receive(ends[1], text, sizeof(text), got, 3, &n, MSG_DONTWAIT), -EAGAIN);
}

/* Descriptors that nobody asked for do not stay open. */
static void test_more_than_asked_for(void **state)
{
	int memory = memfd_create("memory", MFD_CLOEXEC), one = -1, n = 0, next;
	int fds[SPOOR_FDS_MOST] = { ends[0], memory, memory, memory };
	char byte;

	assert_int_equal(spoor_fds_send(ends[0], "", 1, fds, SPOOR_FDS_MOST, 0), 0);
	assert_int_equal(spoor_fds_receive(ends[1], &byte, 1, &one, 1, &n, 0), 1);
	assert_int_equal(n, SPOOR_FDS_MOST);
	assert_true(is_open(one));
	next = dup(one);
	assert_int_equal(next, one + 1);
	close(next);
	close(one);
	close(memory);
	assert_int_equal(spoor_fds_send(ends[0], "", 1, fds, SPOOR_FDS_MOST + 1, 0), -EINVAL);
}

/* Who wants none gets none into its table, not for a moment. */
static void test_none_wanted(void **state)
{
	char byte;

	assert_int_equal(spoor_fds_send(ends[0], "", 1, ends, 2, 0), 0);
	assert_int_equal(spoor_fds_send(ends[0], "", 1, NULL, 0, 0), 0);
	assert_int_equal(spoor_fds_receive(ends[1], &byte, 1, NULL, 0, NULL, 0), -EBADMSG);
	assert_int_equal(spoor_fds_receive(ends[1], &byte, 1, NULL, 0, NULL, 0), 1);
}

/* By a thread, at some time; a memfd at once. */
static void test_drop(void **state)
{
	int memory = memfd_create("memory", MFD_CLOEXEC), pipe[2];
	char byte;

	assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
	assert_true(spoor_fds_is_memory(memory));
	assert_false(spoor_fds_is_memory(pipe[1]));
	spoor_fds_drop(-1);
	spoor_fds_drop(memory);
	assert_false(is_open(memory));
	spoor_fds_drop(pipe[1]);
	assert_int_equal(read(pipe[0], &byte, 1), 0);
	close(pipe[0]);
	spoor_fds_note(-1, 12345);
	assert_false(spoor_fds_refused(12345));
}

static void test_too_large(void **state)
{
	int one = -1;
	char text[4];

	assert_int_equal(spoor_fds_send(ends[0], "12345", 5, ends, 1, 0), 0);
	assert_int_equal(spoor_fds_receive(ends[1], text, sizeof(text), &one, 1, NULL, 0), -EBADMSG);
	assert_int_equal(one, -1);
	assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(spoor_fds_receive(ends[1], text, sizeof(text), &one, 1, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bytes_and_descriptors, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_more_than_asked_for, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_none_wanted, open_ends, close_ends),
		cmocka_unit_test(test_drop),
		cmocka_unit_test_setup_teardown(test_too_large, open_ends, close_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

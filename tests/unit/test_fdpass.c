/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
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
}

#define STUCK 64
#define GREEDY 12345
#define OTHER 12346

struct lingering {
	int fd, peer;
};

/* Who closes it last waits until its peer has read all, which it does not, or is gone. */
static struct lingering lingering(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = 1000 };
	int size = 4096, listener = socket(AF_INET, SOCK_STREAM, 0);
	struct lingering l = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	socklen_t len = sizeof(a);
	char bytes[4096] = "";

	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(l.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	assert_int_equal(bind(listener, (void *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (void *)&a, &len), 0);
	assert_int_equal(connect(l.fd, (void *)&a, len), 0);
	l.peer = accept(listener, NULL, NULL);
	close(listener);
	while (send(l.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(l.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return l;
}

static ssize_t send_and_receive(uid_t uid, const int *fds, int n)
{
	char byte;
	int one = -1;
	ssize_t size;

	assert_int_equal(spoor_fds_send(ends[0], "", 1, fds, n, 0), 0);
	size = spoor_fds_receive_of(uid, ends[1], &byte, 1, &one, 0);
	assert_int_equal(one >= 0, size == 1 && n);
	spoor_fds_drop(one);
	return size;
}

/* Of another user, where we may. All threads are told of that, which ends their calls: not while any is stuck. */
static void open_another(int pair[2])
{
	bool root = !geteuid();

	assert_true(!root || !seteuid(OTHER));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_true(!root || !seteuid(0));
}

static void hang_up_another(const int pair[2])
{
	struct pollfd peer = { .fd = pair[0], .events = POLLIN };

	spoor_fds_hang_up(pair[1]);
	assert_int_equal(poll(&peer, 1, 60000), 1);
	close(pair[0]);
}

/* Whoever has sent what cannot be closed sends no more of it; what others send comes, and so does what has none. */
static void test_stuck(void **state)
{
	struct lingering all[STUCK];
	int memory = memfd_create("memory", MFD_CLOEXEC);
	int one, pair[2];
	char byte;

	open_another(pair);
	for (int i = 0; i < STUCK; i++) {
		int fds[2] = { memory };

		all[i] = lingering();
		fds[1] = all[i].fd; /* also what nobody asked for */
		assert_int_equal(spoor_fds_send(ends[0], "", 1, fds, 2, 0), 0);
		close(all[i].fd);
		assert_int_equal(spoor_fds_receive_of(GREEDY, ends[1], &byte, 1, &one, 0), 1);
		spoor_fds_drop(one);
	}
	assert_int_equal(send_and_receive(GREEDY, NULL, 0), 1);
	assert_int_equal(send_and_receive(OTHER, &memory, 1), 1);
	assert_int_equal(send_and_receive(0, &memory, 1), 1);
	hang_up_another(pair); /* which does not wait for those */
	assert_int_equal(send_and_receive(GREEDY, &memory, 1), -EBADMSG);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), 1); /* it is still there */
	for (int i = 0; i < STUCK; i++)
		close(all[i].peer);
	while (send_and_receive(GREEDY, &memory, 1) != 1)
		assert_int_equal(recv(ends[1], &byte, 1, 0), 1);
	close(memory);
}

/* Nor is what came with too many others waited for. */
static void test_too_many(void **state)
{
	struct lingering l = lingering();
	int fds[SPOOR_FDS_MOST + 1] = { ends[0], ends[0], ends[0], ends[0], l.fd }, one;
	char byte, control[CMSG_SPACE(sizeof(fds))] = "";
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};

	CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, sizeof(fds));
	assert_int_equal(sendmsg(ends[0], &msg, 0), 1);
	close(l.fd);
	alarm(60);
	assert_int_equal(spoor_fds_receive_of(OTHER, ends[1], &byte, 1, &one, 0), -EBADMSG);
	alarm(0);
	close(l.peer);
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
		cmocka_unit_test(test_drop),
		cmocka_unit_test_setup_teardown(test_stuck, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_too_many, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_too_large, open_ends, close_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

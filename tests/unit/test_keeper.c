/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A keeper that lives is left alone, whatever keeps us from it; and it leaves alone what is another's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/user/keeper_internal.h"

static int listen_at(struct sockaddr_un *a)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(a->sun_path, sizeof(a->sun_path), "/tmp/spoor-test-keeper-%d", (int)getpid());
	unlink(a->sun_path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static void test_without_descriptors(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = listen_at(&a), r;
	struct rlimit had, none;
	bool begun, strange;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	none = (struct rlimit){ (rlim_t)fd + 1, had.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = spoor_keeper_open(a.sun_path, &begun, &strange);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(r, -EMFILE);
	assert_false(begun);
	assert_int_equal(access(a.sun_path, F_OK), 0);
	unlink(a.sun_path);
	close(fd);
}

static void listen_for(struct keeper *k, int listener)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	spoor_keeper_listen(pair[0], listener);
	assert_int_equal(keeper_serve(k, pair[1]), 0);
	close(pair[0]);
	close(pair[1]);
}

/* The file of a socket that it was given goes with it; not what another has made there since. */
static void test_file_of_another(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct keeper k;
	int own, other;

	(void)state;
	keeper_begin(&k);
	own = listen_at(&a);
	listen_for(&k, own);
	other = listen_at(&a);
	keeper_let_go(&k);
	assert_int_equal(access(a.sun_path, F_OK), 0);
	listen_for(&k, other);
	keeper_let_go(&k);
	assert_int_equal(access(a.sun_path, F_OK), -1);
	close(own);
	close(other);
}

static void come(struct keeper *k, const struct sockaddr_un *a, const char *says)
{
	static struct pollfd p[WAITING_POLLED];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
	if (says)
		assert_int_equal(send(fd, says, strlen(says), 0), strlen(says));
	close(fd);
	assert_int_equal(poll(p, keeper_wait_for(k, p), 1000), 1);
	keeper_wait_done(k, p);
}

/* A process is turned away once, however often it comes; and who says nothing is none. */
static void test_turned_away(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct rlimit had, none;
	struct keeper k;
	int listener;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	none = (struct rlimit){ 64, had.rlim_max };
	keeper_begin(&k);
	listener = listen_at(&a);
	listen_for(&k, listener);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	come(&k, &a, NULL);
	assert_int_equal(k.turned_away, 0);
	for (int i = 0; i < 3; i++) {
		come(&k, &a, "hello");
		assert_int_equal(k.turned_away, 1);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(k.n_waiters, 0);
	keeper_let_go(&k);
	close(listener);
}

static void note(void *ctx, const struct spoor_kept *k, int fd)
{
	unsigned *heard = ctx;

	(void)k;
	close(fd);
	++*heard;
}

static void note_coming(void *ctx, int fd, bool met)
{
	(void)ctx, (void)met;
	assert_int_equal(fd, -1);
}

static void note_end(void *ctx, uint32_t turned_away, int listener, bool accepts)
{
	(void)ctx, (void)turned_away, (void)listener, (void)accepts;
}

/* A daemon that has got no answer goes on, and hears it later. */
static void test_late(void **state)
{
	static const struct spoor_kept kept = { .uuid = { 1 } };
	unsigned heard = 0;
	const struct spoor_keeper_taker t = { .kept = note, .came = note_coming, .end = note_end, .ctx = &heard };
	struct rlimit had, none;
	struct keeper k;
	int pair[2];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	keeper_begin(&k);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	spoor_keeper_keep(pair[0], &kept, STDIN_FILENO);
	assert_int_equal(keeper_serve(&k, pair[1]), 0);
	none = (struct rlimit){ (rlim_t)k.all[0].fd + 1, had.rlim_max };
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(spoor_keeper_get(pair[0]), 0);
		assert_int_equal(spoor_keeper_hear(pair[0], 0, &t), -EAGAIN);
		assert_int_equal(keeper_serve(&k, pair[1]), 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, i ? &none : &had), 0); /* then all but that */
		assert_int_equal(spoor_keeper_hear(pair[0], 0, &t), 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
		assert_int_equal(heard, 1);
	}
	close(pair[0]);
	assert_int_equal(keeper_serve(&k, pair[1]), -EPIPE);
	close(pair[1]);
	keeper_let_go(&k);
}

/* The keeper is slow: what a daemon said that does not hear the answer any more is carried out all the same. */
static void test_said_before_its_end(void **state)
{
	static const struct spoor_kept first = { .uuid = { 1 } }, second = { .uuid = { 2 } };
	struct keeper k;
	int pair[2];

	(void)state;
	keeper_begin(&k);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	spoor_keeper_keep(pair[0], &first, STDIN_FILENO);
	assert_int_equal(spoor_keeper_get(pair[0]), 0);
	spoor_keeper_keep(pair[0], &second, STDIN_FILENO);
	close(pair[0]);
	while (!keeper_serve(&k, pair[1]))
		;
	assert_int_equal(k.n, 2);
	close(pair[1]);
	keeper_let_go(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_descriptors),
		cmocka_unit_test(test_file_of_another),
		cmocka_unit_test(test_turned_away),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_said_before_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

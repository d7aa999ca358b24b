/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a hostile daemon says to the keeper of arenas, a hostile keeper to a daemon, a hostile program to the keeper.
 * Input: 'K', 'D' or 'W' for who hears it, then messages, each a byte of how long it is (above 127: so much less 128,
 * and with a descriptor) and its bytes. Whoever hears it holds no descriptor at the end that was not there before.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "collect/user/keeper_internal.h"

#define MOST_MESSAGES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int passed;
static unsigned heard;

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (!d)
		abort();
	closedir(d);
	return n;
}

static void read_answers(int fd)
{
	struct keeper_message m;
	int got;

	while (spoor_fds_receive(fd, &m, sizeof(m), &got, 1, NULL, MSG_DONTWAIT) > 0)
		if (got >= 0)
			close(got);
}

static void keep(const int pair[2], struct keeper *k)
{
	if (keeper_serve(k, pair[1]) && k->n > MOST_MESSAGES)
		abort();
	for (size_t i = 0; i < k->n; i++)
		if (k->all[i].fd < 0)
			abort();
	read_answers(pair[0]);
}

static void note(void *ctx, const struct spoor_kept *k, int fd)
{
	if (fd < 0)
		abort();
	heard++;
	close(fd);
}

static void note_coming(void *ctx, int fd, bool met)
{
	note(ctx, NULL, fd);
}

static void note_words(void *ctx, const void *bytes, size_t size, int fd)
{
	if (size > SPOOR_KEEPER_SAID)
		abort();
	if (fd >= 0)
		close(fd);
	heard++;
}

static void note_end(void *ctx, uint32_t turned_away, int listener, bool accepts)
{
	if (listener >= 0)
		close(listener);
}

/* A program's end of a connection to the keeper, and the keeper's hearing of it. */
static int connect_program(struct keeper *k)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(a);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	k->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(k->listener, (struct sockaddr *)&a, sizeof(a.sun_family)) || listen(k->listener, 4) ||
	    getsockname(k->listener, (struct sockaddr *)&a, &len) || connect(fd, (struct sockaddr *)&a, len))
		abort();
	return fd;
}

static void hear(const int[2], struct keeper *k)
{
	static struct pollfd p[WAITING_POLLED];
	unsigned n = keeper_wait_for(k, p);

	if (poll(p, n, 0) > 0)
		keeper_wait_done(k, p);
}

/* Sends what the input says; after each message the keeper, if there is one, has its turn. */
static void speak(const int pair[2], struct keeper *k, void (*turn)(const int pair[2], struct keeper *k),
		  const uint8_t *data, size_t size)
{
	for (int i = 0; size && i < MOST_MESSAGES; i++) {
		bool with = *data & 128;
		size_t len = *data & 127;

		data++;
		size--;
		len = len < size ? len : size;
		if (spoor_fds_send(pair[0], data, len, &passed, with, MSG_DONTWAIT))
			return;
		if (k)
			turn(pair, k);
		data += len;
		size -= len;
	}
}

static const struct spoor_keeper_taker taker = { note, note_coming, note_words, note_end, NULL };

/* What a program says, which then leaves; and what the keeper tells of it. */
static void wait_for_daemon(const int pair[2], struct keeper *k, const uint8_t *data, size_t size)
{
	int program[2] = { connect_program(k), -1 };

	hear(program, k);
	speak(program, k, hear, data, size);
	close(program[0]);
	hear(program, k);
	if (keeper_tell_waiters(k, pair[1]) || k->n_waiters > 1)
		abort();
	read_answers(pair[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keeper k;
	unsigned before;
	int pair[2];

	if (!size)
		return 0;
	if (!passed)
		passed = memfd_create("spoor-ust", MFD_CLOEXEC);
	before = descriptors();
	if (passed < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		abort();
	heard = 0;
	keeper_begin(&k);
	if (data[0] == 'W')
		wait_for_daemon(pair, &k, data + 1, size - 1);
	else
		speak(pair, data[0] == 'K' ? &k : NULL, keep, data + 1, size - 1);
	shutdown(pair[0], SHUT_WR); /* who listens still hears that it is over */
	if (data[0] != 'K')
		spoor_keeper_hear(pair[1], 0, &taker);
	if (heard > MOST_MESSAGES)
		abort();
	keeper_let_go(&k);
	close(pair[0]);
	close(pair[1]);
	if (descriptors() != before)
		abort();
	return 0;
}

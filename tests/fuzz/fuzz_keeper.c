/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a hostile daemon says to the keeper of arenas, and a hostile keeper to a daemon. Input: 'K' or 'D' for who hears
 * it, then messages, each a byte of how long it is (above 127: so much less 128, and with a descriptor) and its bytes.
 * Whoever hears it holds no descriptor at the end that was not there before.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

/* Sends what the input says; after each message the keeper, if there is one, has its turn. */
static void speak(const int pair[2], struct keeper *k, const uint8_t *data, size_t size)
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
			keep(pair, k);
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keeper k = {};
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
	speak(pair, data[0] == 'K' ? &k : NULL, data + 1, size - 1);
	shutdown(pair[0], SHUT_WR); /* who listens still hears that it is over */
	if (data[0] != 'K')
		spoor_keeper_get(pair[1], note, NULL);
	if (heard > MOST_MESSAGES)
		abort();
	keeper_let_go(&k);
	close(pair[0]);
	close(pair[1]);
	if (descriptors() != before)
		abort();
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of hostile programs and clients to a recorder. Input: messages one after another, each a length of 16 bits
 * and its bytes; a length of 0 connects anew. With every message comes a descriptor.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "collect/user/hub.h"

#define MOST_MESSAGES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct spoor_hub *hub;
static struct sockaddr_un place = { .sun_family = AF_UNIX };

static void on_command(void *ctx, struct spoor_hub *h, const char *text, size_t len, struct spoor_hub_request *q)
{
	char copy[4097];

	if (len > 4096 || text[len])
		abort();
	memcpy(copy, text, len);
	spoor_hub_answer(q, "heard");
	spoor_hub_kick(h, NULL, 0x7fffffff, q);
	spoor_hub_result(q, len % 2 ? -EINVAL : 0, "done");
}

/* The socket, and what lies beside it. */
static void close_hub(void)
{
	spoor_hub_close(hub);
	hub = NULL;
}

static void open_hub(void)
{
	struct spoor_hub_options o = { .path = place.sun_path, .everybody = true, .command = on_command };

	snprintf(place.sun_path, sizeof(place.sun_path), "/tmp/spoor-fuzz-control-%d", getpid());
	if (spoor_hub_open(&o, &hub, NULL))
		abort();
	atexit(close_hub);
}

static int connect_anew(int old)
{
	int fd;

	if (old >= 0)
		close(old);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&place, sizeof(place)))
		abort();
	return fd;
}

static void send_one(int fd, const uint8_t *data, size_t size, int passed)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &passed, sizeof(passed));
	sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int passed = memfd_create("spoor-ust", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd, n = 0;
	char answer[8192];

	if (!hub)
		open_hub();
	fd = connect_anew(-1);
	while (size >= 2 && n++ < MOST_MESSAGES) {
		size_t len = data[0] | data[1] << 8;

		data += 2;
		size -= 2;
		if (!len)
			fd = connect_anew(fd);
		len = len < size ? len : size;
		send_one(fd, data, len, passed);
		data += len;
		size -= len;
		spoor_hub_serve(hub);
		while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
			;
	}
	spoor_hub_tick(hub);
	close(fd);
	spoor_hub_serve(hub);
	close(passed);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char buf[CMSG_SPACE(SPOOR_FDS_MOST * sizeof(int))];
	struct cmsghdr align;
};

int spoor_fds_send(int sock, const void *bytes, size_t size, const int *fds, int n, int flags)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n < 0 || n > SPOOR_FDS_MOST)
		return -EINVAL;
	if (n) {
		struct cmsghdr *c = &control.align;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	if (sent < 0)
		return -errno;
	return (size_t)sent == size ? 0 : -EIO;
}

/* Those of the message, in their order: how many there were; the first `n` of them are kept. */
static int take(struct msghdr *msg, int *fds, int n)
{
	int count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t many = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < many; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (count < n)
				fds[count] = fd;
			else
				close(fd);
			count++;
		}
	}
	return count;
}

ssize_t spoor_fds_receive(int sock, void *bytes, size_t room, int *fds, int n, int *ret_n, int flags)
{
	union control control;
	struct iovec iov = { .iov_base = bytes, .iov_len = room };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)
	};
	ssize_t size;
	int count;

	for (int i = 0; i < n; i++)
		fds[i] = -1;
	do {
		size = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	count = take(&msg, fds, n);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (int i = 0; i < n; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
			fds[i] = -1;
		}
		return msg.msg_flags & MSG_CTRUNC && count < SPOOR_FDS_MOST ? -EMFILE : -EBADMSG;
	}
	if (ret_n)
		*ret_n = count;
	return size;
}

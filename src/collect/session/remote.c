/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/remote.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"

#define MAX_TEXT 4096
#define PATIENCE_MS 200 /* with a peer that connects and says nothing */

static int address_of(const char *dir, struct sockaddr_un *ret, socklen_t *ret_len, uid_t *ret_owner)
{
	struct stat st;
	int n;

	if (stat(dir, &st))
		return -errno;
	*ret_owner = st.st_uid;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "spoor-record-%lx-%lx", (unsigned long)st.st_dev,
		     (unsigned long)st.st_ino);
	*ret_len = offsetof(struct sockaddr_un, sun_path) + 1 + n;
	return 0;
}

int spoor_remote_listen(const char *dir, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	socklen_t len = 0;
	uid_t owner = 0;
	int r = address_of(dir, &a, &len, &owner);

	if (r)
		return spoor_fail(e, -r, "cannot listen for commands: %s", strerror(-r));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) || listen(fd, 4))
		return spoor_fail(e, errno, "cannot listen for commands: %s", strerror(errno));
	return TAKE_FD(fd);
}

/* Anybody can take the name first, or come. */
static bool is_of(int fd, uid_t uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && (peer.uid == uid || !peer.uid);
}

typedef int (*apply_fn)(void *ctx, const char *text, bool check, struct spoor_error *e);

/* text[len] is 0. */
static int for_each_command(const char *text, size_t len, bool check, apply_fn apply, void *ctx, struct spoor_error *e)
{
	for (const char *at = text; at < text + len; at += strlen(at) + 1) {
		int r = apply(ctx, at, check, e);

		if (r)
			return r;
	}
	return 0;
}

void spoor_remote_serve(int fd, apply_fn apply, void *ctx)
{
	_cleanup_(spoor_fds_hang_upp) int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct spoor_error e = { "" };
	char text[MAX_TEXT + 1];
	ssize_t n;

	if (peer < 0)
		return;
	if (!is_of(peer, geteuid())) {
		spoor_fail(&e, EPERM, "only the user who records and root may give commands");
	} else {
		struct pollfd p = { .fd = peer, .events = POLLIN };

		if (poll(&p, 1, PATIENCE_MS) != 1)
			return;
		n = recv(peer, text, MAX_TEXT, 0);
		if (n <= 0)
			return;
		text[n] = 0;
		if (!for_each_command(text, n, true, apply, ctx, &e) &&
		    !for_each_command(text, n, false, apply, ctx, &e))
			strcpy(e.text, "ok");
	}
	if (send(peer, e.text, strlen(e.text), MSG_NOSIGNAL) < 0)
		return; /* the peer is gone: its loss */
}

int spoor_remote_send(const char *dir, const char *const *texts, size_t n_texts, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = 10 };
	struct sockaddr_un a;
	char text[MAX_TEXT], reply[MAX_TEXT + 1];
	size_t size = 0, used = 0;
	socklen_t len = 0;
	ssize_t n;
	uid_t owner = 0;
	int r = address_of(dir, &a, &len, &owner);

	if (r)
		return spoor_fail(e, -r, "%s: %s", dir, strerror(-r));
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, len))
		return spoor_fail(e, ENOENT, "%s: no recording is under way there", dir);
	if (!is_of(fd, owner) && !is_of(fd, geteuid())) /* some file systems give all files one owner */
		return spoor_fail(e, EPERM, "%s: another user than the trace's owner listens in its recording's place",
				  dir);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (size_t i = 0; i < n_texts; i++)
		size += strlen(texts[i]) + 1;
	if (size > MAX_TEXT)
		return spoor_fail(e, EMSGSIZE, "--set: %zu characters are too long: at most %d at once", size - n_texts,
				  MAX_TEXT);
	for (size_t i = 0; i < n_texts; i++)
		used = stpcpy(text + used, texts[i]) + 1 - text;
	if (send(fd, text, used, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		return spoor_fail(e, errno, "the command cannot be sent: %s", strerror(errno));
	n = recv(fd, reply, MAX_TEXT, 0);
	if (n < 0 && errno == ECONNRESET) /* who is refused is not listened to, but told why */
		n = recv(fd, reply, MAX_TEXT, 0);
	if (n <= 0)
		return spoor_fail(e, ETIMEDOUT, "%s: the recording did not answer", dir);
	reply[n] = 0;
	return strcmp(reply, "ok") ? spoor_fail(e, EINVAL, "%s", reply) : 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a hub is found: its socket. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

#define DYING_MS 100

static int address_of(const char *path, struct sockaddr_un *ret, struct spoor_error *e)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return spoor_fail(e, ENAMETOOLONG, "%s: too long for a socket's name: at most %zu characters", path,
				  sizeof(ret->sun_path) - 1);
	strcpy(ret->sun_path, path);
	return 0;
}

static int connect_to(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return -errno;
	return TAKE_FD(fd);
}

/* Whoever left it there is gone: it can be replaced. */
static bool is_abandoned(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = -1;
	struct stat st;

	if (lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	fd = connect_to(a);
	return fd == -ECONNREFUSED;
}

/* One that is being killed may take a moment to its end. Where the kernel does not tell (before Linux 6.5): false. */
bool spoor_hub_maker_lives(const char *path)
{
	_cleanup_(spoor_closep) int fd = -1, process = -1;
	socklen_t len = sizeof(process);
	struct pollfd ended = { .events = POLLIN };
	struct sockaddr_un a;

	if (address_of(path, &a, NULL))
		return false;
	fd = connect_to(&a);
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &process, &len))
		return false;
	ended.fd = process;
	return !poll(&ended, 1, DYING_MS);
}

int spoor_hub_taken(const char *path, struct spoor_error *e)
{
	struct stat st;

	if (lstat(path, &st) || S_ISSOCK(st.st_mode))
		return spoor_fail(e, EADDRINUSE, "%s: another recorder uses it", path);
	return spoor_fail(e, EEXIST, "%s: it is there, and not a socket: choose a path that is free", path);
}

int spoor_hub_bind(const char *path, bool everybody, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	mode_t mask;
	int r = address_of(path, &a, e);

	if (r)
		return r;
	if (fd < 0)
		return spoor_fail(e, errno, "cannot make a socket: %s", strerror(errno));
	if (is_abandoned(&a))
		unlink(path);
	mask = umask(everybody ? 0111 : 0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
	umask(mask);
	if (r == -EADDRINUSE)
		return spoor_hub_taken(path, e);
	if (r)
		return spoor_fail(e, -r, "%s: cannot listen there: %s", path, strerror(-r));
	return TAKE_FD(fd);
}

int spoor_hub_listen(int fd, const char *path, struct spoor_error *e)
{
	return listen(fd, HUB_BACKLOG) ? spoor_fail(e, errno, "%s: cannot listen there: %s", path, strerror(errno)) : 0;
}

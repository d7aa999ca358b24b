/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a hub is found: its socket. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

static int address_of(const char *path, struct sockaddr_un *ret, struct spoor_error *e)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return spoor_fail(e, ENAMETOOLONG, "%s: too long for a socket's name: at most %zu characters", path,
				  sizeof(ret->sun_path) - 1);
	strcpy(ret->sun_path, path);
	return 0;
}

/* Whoever left it there is gone: it can be replaced. */
static bool is_abandoned(const struct sockaddr_un *a)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED;
}

static int say_taken(const char *path, struct spoor_error *e)
{
	struct stat st;

	if (lstat(path, &st) || S_ISSOCK(st.st_mode))
		return spoor_fail(e, EADDRINUSE, "%s: another recorder uses it", path);
	return spoor_fail(e, EEXIST, "%s: it is there, and not a socket: choose a path that is free", path);
}

int spoor_hub_listen(const char *path, bool everybody, struct spoor_error *e)
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
		return say_taken(path, e);
	if (r || listen(fd, HUB_BACKLOG))
		return spoor_fail(e, r ? -r : errno, "%s: cannot listen there: %s", path, strerror(r ? -r : errno));
	return TAKE_FD(fd);
}

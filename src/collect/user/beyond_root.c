/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/beyond_root.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NAME offsetof(struct sockaddr_un, sun_path)

int spoor_beyond_root_bind(const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int r = n < sizeof(a.sun_path) ? 0 : ENAMETOOLONG;

	if (!r)
		memcpy(a.sun_path + 1, path, n);
	if (!r && (fd < 0 || bind(fd, (struct sockaddr *)&a, NAME + 1 + n)))
		r = errno;
	if (r)
		return spoor_fail(e, r,
				  "@%s: cannot listen there: %s; what forks after it has called chroot() does not find "
				  "this recorder",
				  path, strerror(r));
	return TAKE_FD(fd);
}

static bool has_mode(const char *path, mode_t mode)
{
	struct stat st;

	return !stat(path, &st) && (st.st_mode & mode) == mode;
}

/* Anybody may: groups are not asked for. */
static bool is_open_to_all(char *path)
{
	bool open = has_mode(path, S_IWOTH);
	char *end;

	while (open && (end = strrchr(path, '/')) && end > path) {
		*end = '\0';
		open = has_mode(path, S_IXOTH);
	}
	return open;
}

bool spoor_beyond_root_lets_in(int listener, int sock)
{
	struct sockaddr_un a = {};
	socklen_t size = sizeof(a), len = sizeof(struct ucred);
	char path[sizeof(a.sun_path)] = "";
	struct ucred who;

	if (getsockname(listener, (struct sockaddr *)&a, &size) || size <= NAME + 1 || a.sun_path[0])
		return true;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len))
		return false;
	memcpy(path, a.sun_path + 1, sizeof(path) - 1); /* it has no NUL where it is as long as can be */
	return !who.uid || who.uid == geteuid() || is_open_to_all(path);
}

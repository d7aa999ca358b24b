/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The directory with the socket is there as long as its recorder: where that is killed a process which does nothing
 * else removes it, and calls its programs; where both were killed the next recorder removes it.
 */
#include "collect/user/private.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/strings.h"
#include "collect/user/library.h"
#include "object/executable.h"

#define PREFIX "spoor-ust-"
#define YOUNG_S 10 /* may have no listener yet */

static void remove_directory(const char *dir)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/socket", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/socket" SPOOR_CONTROL_BOARD, dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/socket" SPOOR_CONTROL_BOARD ".new", dir);
	unlink(path);
	rmdir(dir);
}

/* ---- where both were killed ---- */

static bool is_listened_to(const char *path)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (fd < 0 || strlen(path) >= sizeof(a.sun_path))
		return true;
	strcpy(a.sun_path, path);
	return !connect(fd, (struct sockaddr *)&a, sizeof(a)) || (errno != ECONNREFUSED && errno != ENOENT);
}

static void sweep_one(const char *dir)
{
	char path[PATH_MAX + 8];
	struct stat st;

	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || time(NULL) - st.st_mtime < YOUNG_S)
		return;
	snprintf(path, sizeof(path), "%s/socket", dir);
	if (!is_listened_to(path))
		remove_directory(dir);
}

static void sweep(const char *place)
{
	char path[PATH_MAX];
	struct dirent *de;
	DIR *d = opendir(place);

	while (d && (de = readdir(d))) {
		if (strncmp(de->d_name, PREFIX, strlen(PREFIX)) || strlen(de->d_name) != strlen(PREFIX) + 6)
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, de->d_name);
		sweep_one(path);
	}
	if (d)
		closedir(d);
}

/* ---- where the recorder is killed ---- */

static void watch(int fd, const char *dir)
{
	char path[PATH_MAX], byte;
	bool ended = false; /* in order: it says so */
	sigset_t all;
	ssize_t n;

	setsid();
	prctl(PR_SET_NAME, "trace-watcher"); /* pkill(1) of Spoor is not to take it as well */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	dup2(fd, 0);
	close_range(1, ~0U, 0);
	while ((n = read(0, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
		ended |= n > 0;
	if (chdir("/") == 0)
		remove_directory(dir);
	snprintf(path, sizeof(path), "%s/socket", dir);
	if (!ended)
		spoor_kick_left(path);
	_exit(0);
}

/* The end of a socket whose other end it has; -errno: there is none, and no harm done. */
static int start_watcher(const char *dir)
{
	_cleanup_(spoor_closep) int ours = -1;
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	ours = ends[0];
	pid = fork();
	if (!pid) {
		if (!fork()) /* nobody's child, so that nobody finds a zombie */
			watch(ends[1], dir);
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0)
		return -errno;
	waitpid(pid, NULL, 0);
	return TAKE_FD(ours);
}

/* It is gone when this returns. */
static void end_watcher(int fd)
{
	char byte;

	if (fd < 0)
		return;
	send(fd, "", 1, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	close(fd);
}

/* ---- the recorder ---- */

/* Programs go where the socket is from wherever they are, and the path has to fit into its address. */
static const char *find_place(void)
{
	static const char *const variables[] = { "TMPDIR", "XDG_RUNTIME_DIR" };
	const size_t longest = sizeof(((struct sockaddr_un *)0)->sun_path) -
			       sizeof("/" PREFIX "XXXXXX/socket" SPOOR_CONTROL_WAITING);

	for (unsigned i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const char *place = getenv(variables[i]);

		if (place && *place == '/' && strlen(place) <= longest && !access(place, W_OK | X_OK))
			return place;
	}
	return "/tmp";
}

static int make_directory(struct spoor_private_hub *p, struct spoor_error *e)
{
	const char *place = find_place();
	int r;

	sweep(place);
	snprintf(p->dir, sizeof(p->dir), "%s/" PREFIX "XXXXXX", place);
	if (!mkdtemp(p->dir)) {
		r = spoor_fail(e, errno, "%s: cannot be created: %s", p->dir, strerror(errno));
		p->dir[0] = '\0';
		return r;
	}
	p->watcher = start_watcher(p->dir);
	if (!geteuid())
		chmod(p->dir, 0711); /* what the command runs under other users comes, too */
	return 0;
}

int spoor_private_open(struct spoor_private_hub *p, const char *cache_dir, void (*warn)(void *ctx, const char *text),
		       void *ctx, struct spoor_error *e)
{
	struct spoor_hub_options o = {
		.path = p->socket, .everybody = !geteuid(), .passing = true, .cache_dir = cache_dir, .warn = warn,
		.ctx = ctx
	};
	int r;

	*p = (struct spoor_private_hub){ .watcher = -1 };
	spoor_descriptors_raise();
	r = make_directory(p, e);
	if (r)
		return r;
	snprintf(p->socket, sizeof(p->socket), "%s/socket", p->dir);
	r = spoor_hub_open(&o, &p->hub, e);
	if (r)
		spoor_private_close(p);
	return r;
}

/* Another libc's loader finds glibc's symbols missing, and ends the program before it begins. */
static int check_loader(const char *command, struct spoor_error *e)
{
	char loader[PATH_MAX];

	spoor_object_loader(command, loader, sizeof(loader));
	if (strncmp(spoor_basename(loader), "ld-musl", 7))
		return 0;
	return spoor_fail(e, ELIBBAD,
			  "%s: its loader, %s, is not glibc's, and would end it with libspoor-ust.so preloaded; build "
			  "it for glibc",
			  command, loader);
}

/* The loader takes the variable for several names then. */
static int check_name(const char *library, struct spoor_error *e)
{
	if (!strpbrk(library, ": "))
		return 0;
	return spoor_fail(e, EINVAL,
			  "%s: what is preloaded (LD_PRELOAD) can have no colon and no space in its path; let "
			  "SPOOR_UST_LIBRARY name a copy elsewhere",
			  library);
}

int spoor_private_environment(const struct spoor_private_hub *p, const char *command, struct spoor_error *e)
{
	char library[PATH_MAX];
	int r = spoor_ust_library(library);

	if (r)
		spoor_fail(e, ENOENT, "libspoor-ust.so is not found");
	else
		r = check_name(library, e);
	if (!r)
		r = check_loader(command, e);
	if (!r)
		spoor_ust_preload(library);
	spoor_hub_publish(p->hub);
	setenv(SPOOR_CONTROL_VARIABLE, p->socket, 1);
	unsetenv("SPOOR_UST_OUTPUT");
	return r;
}

void spoor_private_call_heirs(struct spoor_private_hub *p, const struct spoor_ust_session *s,
			      void (*meanwhile)(void *ctx), void *ctx)
{
	int n = spoor_hub_kick(p->hub, s, 0, NULL);
	unsigned all = s->n_came + (n > 0 ? n : 0);

	for (int i = 0; i < 20 && s->n_came < all; i++) {
		struct pollfd fd = { .fd = spoor_hub_fd(p->hub), .events = POLLIN };

		poll(&fd, 1, 10);
		spoor_hub_serve(p->hub);
		if (meanwhile)
			meanwhile(ctx);
	}
}

void spoor_private_dismiss(struct spoor_private_hub *p)
{
	spoor_hub_publish(p->hub);
	spoor_hub_serve(p->hub);
}

void spoor_private_close(struct spoor_private_hub *p)
{
	if (p->hub)
		spoor_private_dismiss(p); /* who has come since, too */
	spoor_hub_close(p->hub);
	if (p->dir[0]) {
		rmdir(p->dir);
		end_watcher(p->watcher);
	}
	*p = (struct spoor_private_hub){ .watcher = -1 };
}

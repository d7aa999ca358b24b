/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "object/identity.h"
#include "unwind/row_cache.h"
#include "unwind/rowd_worker.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
/* A worker ends itself in time; this is for one that does not. */
#define REPLY_MS ((SPOOR_ROWD_SECONDS + 1) * 1000)
#define UNKILLED_MS 1000

struct spoor_rowd {
	pid_t pid; /* of the server; 0: none */
	int sock;
	int cache; /* directory, -1: none */
};

static void stop_server(struct spoor_rowd *d)
{
	if (d->sock >= 0)
		close(d->sock);
	d->sock = -1;
	if (d->pid <= 0)
		return;
	/* At the end of its socket it ends, too. Who hangs, and may not be killed, is not waited for. */
	if (kill(d->pid, SIGKILL) < 0)
		for (int i = 0; i < UNKILLED_MS && !waitpid(d->pid, NULL, WNOHANG); i++)
			usleep(1000);
	else
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	d->pid = 0;
}

static int start_server(struct spoor_rowd *d, struct spoor_error *e)
{
	int socks[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return spoor_fail(e, errno, "cannot start the row compiler: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		spoor_rowd_serve(socks[1]);
	close(socks[1]);
	if (pid < 0) {
		close(socks[0]);
		return spoor_fail(e, errno, "cannot start the row compiler: %s", strerror(errno));
	}
	d->pid = pid;
	d->sock = socks[0];
	return 0;
}

int spoor_rowd_start(const char *cache_dir, struct spoor_rowd **ret, struct spoor_error *e)
{
	struct spoor_rowd *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return spoor_fail(e, ENOMEM, "cannot start the row compiler: out of memory");
	d->sock = d->cache = -1;
	r = cache_dir ? spoor_row_cache_open(cache_dir, e) : 0;
	if (r >= 0 && cache_dir)
		d->cache = r;
	if (r >= 0)
		r = start_server(d, e);
	if (r < 0) {
		spoor_rowd_stop(d);
		return r;
	}
	*ret = d;
	return 0;
}

void spoor_rowd_stop(struct spoor_rowd *d)
{
	if (!d)
		return;
	stop_server(d);
	if (d->cache >= 0)
		close(d->cache);
	free(d);
}

static int wait_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now, end;
	long left = REPLY_MS;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += REPLY_MS / 1000;
	while ((r = poll(&p, 1, left)) < 0 && errno == EINTR) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = (end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec) / 1000000;
		if (left <= 0)
			return -ETIMEDOUT;
	}
	return r < 0 ? -errno : r ? 0 : -ETIMEDOUT;
}

static bool server_gone(const struct spoor_rowd *d)
{
	struct pollfd p = { .fd = d->sock };

	return !d->pid || (poll(&p, 1, 0) > 0 && p.revents);
}

/* Has a worker compile it. Returns the memfd; -ECONNRESET: the worker died, or the server with it. */
static int request(struct spoor_rowd *d, int object)
{
	int socks[2], fds[2], rows = -1, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return -errno;
	fds[0] = object;
	fds[1] = socks[1];
	r = d->pid ? spoor_rowd_send(d->sock, fds, 2) : -EPIPE;
	close(socks[1]);
	if (r == 0)
		r = wait_readable(socks[0]);
	if (r == 0)
		r = spoor_rowd_receive(socks[0], &rows, 1);
	close(socks[0]);
	return r < 0 ? r : rows;
}

/* A worker may have been taken over by its file: nothing it says is believed. */
static int map_rows(int fd, struct spoor_rows *ret)
{
	struct stat st;
	int seals, r;
	void *mem;

	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0)
		return -EBADMSG;
	if (st.st_size < (off_t)sizeof(struct spoor_row_file) || st.st_size > SPOOR_ROW_FILE_MAX_SIZE)
		return -EBADMSG;
	mem = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	r = spoor_row_file_open(mem, st.st_size, ret);
	if (r < 0)
		munmap(mem, st.st_size);
	return r;
}

static int compile(struct spoor_rowd *d, int object, const struct spoor_object_identity *id,
		   struct spoor_rows *ret_rows)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 };
	_cleanup_(spoor_closep) int fd = -1;
	int r;

	fd = request(d, object);
	if (fd == -ETIMEDOUT || server_gone(d)) {
		stop_server(d);
		r = start_server(d, NULL);
		if (r < 0)
			return r;
		if (fd < 0 && fd != -ETIMEDOUT)
			fd = request(d, object);
	}
	if (fd < 0)
		return fd;
	r = map_rows(fd, &rows);
	if (r < 0)
		return r;
	r = spoor_row_file_answer(&rows, id);
	/* The cache is a convenience: a full disk must not keep the rows from us. */
	if (r != -ESTALE && d->cache >= 0)
		spoor_row_cache_put(d->cache, id, rows.mem, rows.mem_size);
	if (r == 0) {
		*ret_rows = rows;
		rows.mem = NULL;
	}
	return r;
}

static int explain(int r, struct spoor_error *e)
{
	switch (r) {
	case -ENOEXEC:
		return spoor_fail(e, ENOEXEC, "no unwind rows: not an x86-64 executable or shared object");
	case -ENODATA:
		return spoor_fail(e, ENODATA, "no unwind rows: the object has no unwind information");
	case -EBADMSG:
		return spoor_fail(e, EBADMSG, "no unwind rows: the object or its unwind information is damaged");
	case -ESTALE:
		return spoor_fail(e, ESTALE, "no unwind rows: the object changed while it was read");
	case -ECONNRESET:
		return spoor_fail(e, ECONNRESET, "no unwind rows: the row compiler gave up on the object");
	case -ETIMEDOUT:
		return spoor_fail(e, ETIMEDOUT, "no unwind rows: the object took longer than %d s", SPOOR_ROWD_SECONDS);
	default:
		return spoor_fail(e, -r, "no unwind rows: %s", strerror(-r));
	}
}

int spoor_rowd_get(struct spoor_rowd *d, int fd, struct spoor_object_identity *ret_identity,
		   struct spoor_rows *ret_rows, struct spoor_error *e)
{
	struct spoor_object_identity id;
	int r;

	r = spoor_object_identify(fd, &id, e);
	if (r < 0)
		return r;
	*ret_identity = id;
	if (!id.is_elf)
		return explain(-ENOEXEC, e);
	r = d->cache >= 0 ? spoor_row_cache_get(d->cache, &id, ret_rows) : -ENOENT;
	if (r == -ENOENT)
		r = compile(d, fd, &id, ret_rows);
	return r < 0 ? explain(r, e) : 0;
}

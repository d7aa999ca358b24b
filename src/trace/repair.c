/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cutting a torn last packet, so that readers which refuse a trace for it take it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

uint64_t spoor_packets_end(int fd, uint64_t size, uint64_t *ret_last)
{
	uint64_t at = 0;

	while (at < size) {
		struct spoor_packet p = {};
		ssize_t n = pread(fd, &p, sizeof(p), at);

		if (n < 0 || spoor_packet_check(&p, size - at) || p.packet_size / 8 > size - at)
			break;
		*ret_last = at;
		at += p.packet_size / 8;
	}
	return at;
}

int spoor_repair_fd(int fd, uint64_t *cut)
{
	uint64_t end, last;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	end = spoor_packets_end(fd, st.st_size, &last);
	if (end == (uint64_t)st.st_size)
		return 0;
	if (ftruncate(fd, end) < 0)
		return -errno;
	*cut += st.st_size - end;
	return 0;
}

int spoor_repair_file(const char *path, uint64_t *cut, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : spoor_repair_fd(fd, cut);

	if (fd < 0)
		return spoor_fail(e, -r, "%s: cannot open: %s", path, strerror(-r));
	return r < 0 ? spoor_fail(e, -r, "%s: cannot cut: %s", path, strerror(-r)) : 0;
}

/* Before anything is cut: where something else stands in a stream's place, no reader takes the trace afterwards. */
static int check_regular(const char *path, struct spoor_error *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return spoor_fail(e, errno, "%s: cannot open: %m", path);
	if (!S_ISREG(st.st_mode))
		return spoor_fail(e, EINVAL, "%s: not a regular file; remove it, then repair again", path);
	return 0;
}

int spoor_trace_repair(const char *path, uint64_t *ret_cut, struct spoor_error *e)
{
	_cleanup_(spoor_trace_closep) struct spoor_trace *t = NULL;
	uint64_t cut = 0;
	int r = spoor_trace_open(path, &t, e);

	if (r < 0)
		return r;
	if (t->info.live)
		return spoor_fail(e, EBUSY, "%s: is being written; stop the recording first", path);
	for (size_t i = 0; i < t->n_files && r == 0; i++)
		r = check_regular(t->files[i].path, e);
	for (size_t i = 0; i < t->n_files && r == 0; i++)
		r = spoor_repair_file(t->files[i].path, &cut, e);
	if (r < 0)
		return r;
	*ret_cut = cut;
	return 0;
}

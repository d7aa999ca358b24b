/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recording without a daemon: whoever fills a packet writes it to the spill file himself, and so needs no thread in the
 * program and no consumer outside. What is in neither file when the program dies is what was never committed: the arena
 * keeps a packet until it is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "agent/core/descriptors.h"
#include "agent/core/memory.h"
#include "agent/core/output.h"
#include "agent/core/process.h"

static bool is_ours(struct output *o)
{
	struct stat st = {};

	return o->spill_fd >= 0 && !sys_failed(sys3(SYS_fstat, o->spill_fd, &st, 0)) && st.st_dev == o->spill_dev &&
	       st.st_ino == o->spill_ino;
}

void output_close_spill(struct output *o)
{
	if (is_ours(o))
		sys3(SYS_close, o->spill_fd, 0, 0);
	o->spill_fd = -1;
}

/*
 * The first time it is made, and later it is to be the same: others may make files in that directory, too. A pipe of
 * theirs would keep us waiting, a link would lead what we write elsewhere.
 */
static long open_file(struct output *o)
{
	char *path = o->made.path, *end = path + strlen(path); /* it is the lock's holder's */
	const int how = o->spill_made ? O_NONBLOCK : O_CREAT | O_EXCL;
	long fd;

	strcpy(end, ".spill");
	fd = sys3(SYS_open, path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | how, 0600);
	*end = '\0';
	return fd;
}

/* Programs close what they do not know (daemons do), so the number is asked for its file each time. */
static int open_spill(struct output *o)
{
	struct stat st = {};
	long fd;

	if (is_ours(o))
		return 0;
	o->spill_fd = -1;
	fd = open_file(o);
	if (sys_failed(fd))
		return (int)fd;
	fd = fd_out_of_the_way(fd, SPOOR_FD_FROM);
	if (sys_failed(sys3(SYS_fstat, fd, &st, 0)) ||
	    (o->spill_made && (st.st_dev != o->spill_dev || st.st_ino != o->spill_ino))) {
		sys3(SYS_close, fd, 0, 0);
		return -EBADF;
	}
	o->spill_fd = (int)fd;
	o->spill_made = true;
	o->spill_dev = st.st_dev;
	o->spill_ino = st.st_ino;
	return 0;
}

/* All of it or nothing: a record that was cut by a full disk is taken back, since more may follow it later. */
static int append(struct output *o, const struct iovec *pieces, int n, uint64_t size)
{
	long r;

	if (!file_may_have(o->spilled + size))
		return -EFBIG;
	r = sys3(SYS_writev, o->spill_fd, pieces, n);
	if (r == (long)size) {
		__atomic_store_n(&o->spilled, o->spilled + size, __ATOMIC_RELAXED);
		return 0;
	}
	if (!sys_failed(r) && r > 0)
		sys3(SYS_ftruncate, o->spill_fd, o->spilled, 0);
	return sys_failed(r) ? (int)r : -ENOSPC;
}

static int write_packet(struct output *o, const struct spoor_arena_packet *packet, const char *data)
{
	struct spoor_arena_packet head = { .owner = __atomic_load_n(&packet->owner, __ATOMIC_RELAXED) };
	struct spoor_spill record = { .magic = SPOOR_SPILL_MAGIC, .type = SPOOR_SPILL_PACKET };
	struct iovec pieces[] = { { &record, sizeof(record) },
				  { &head, sizeof(head) },
				  { (char *)data, packet->committed } };

	memcpy(&head.serial, &packet->serial, sizeof(head) - offsetof(struct spoor_arena_packet, serial));
	record.size = sizeof(record) + sizeof(head) + head.committed;
	memcpy(record.uuid, o->made.arena->uuid, sizeof(record.uuid));
	return append(o, pieces, 3, record.size);
}

/* Asked before the lock, too: who only has to lose an event waits for nobody who writes. */
static bool has_room(const struct output *o, const struct spoor_arena_packet *packet)
{
	return !o->spill_limit || __atomic_load_n(&o->spilled, __ATOMIC_RELAXED) + packet->committed <= o->spill_limit;
}

int output_spill(struct output *o, const struct spoor_arena_packet *packet, const char *data)
{
	int r;

	if (!o->wish.dir[0])
		return -ENOTSUP;
	if (!has_room(o, packet))
		return -EFBIG;
	if (!lock_in_turn(&o->spill_lock, &o->spill_hangs))
		return -EAGAIN;
	r = has_room(o, packet) ? open_spill(o) : -EFBIG;
	if (!r)
		r = write_packet(o, packet, data);
	unlock_in_turn(&o->spill_lock, &o->spill_hangs);
	return r;
}

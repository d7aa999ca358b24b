/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "agent/core/clock.h"
#include "agent/core/memory.h"
#include "agent/core/process.h"
#include "agent/core/ranges.h"
#include "agent/core/self.h"

#define PAGE 4096ULL
#define DEFS_STEP 16384ULL
#define OBJECTS_DEFS (1ULL << 20)
/* Behind the last packet: threads that share their thread-local storage may run over a packet's end, not further. */
#define SLACK 65536ULL

#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* 64 KiB, smaller where there would be fewer than 16. 0: not possible. */
static uint64_t packet_size(const struct arena_channel_wish *wish, uint64_t bytes)
{
	uint64_t packet = wish->packet_size;

	if (!packet)
		for (packet = 65536; packet > SPOOR_ARENA_MIN_PACKET && bytes / packet < 16; packet /= 2)
			;
	if (packet % PAGE || packet < SPOOR_ARENA_MIN_PACKET || packet > SPOOR_ARENA_MAX_PACKET || bytes / packet < 2 ||
	    bytes / packet > 1 << 20)
		return 0;
	return packet;
}

/* A quarter of a channel's packets, and at least one, is for threads that find none of their own. */
static int lay_out_channel(const struct arena_channel_wish *wish, uint64_t bytes, struct spoor_arena *a, uint64_t *size)
{
	struct spoor_arena_channel *c = &a->channels[a->n_channels];
	uint64_t packet = packet_size(wish, bytes);

	if (!packet)
		return -EINVAL;
	memcpy(c->name, wish->name, sizeof(c->name));
	c->name[sizeof(c->name) - 1] = 0;
	c->mode = wish->mode;
	c->block_us = wish->block_us;
	c->contexts = wish->contexts;
	c->stack_mode = wish->stack_mode;
	c->stack_budget = wish->stack_budget;
	c->packet_size = (uint32_t)packet;
	c->first_packet = a->n_packets;
	c->n_packets = (uint32_t)(bytes / packet);
	c->n_shared = c->n_packets / 4 ?: 1;
	a->n_packets += c->n_packets;
	a->n_channels++;
	*size += packet * c->n_packets;
	return 0;
}

static bool has_addresses(const struct arena_wish *wish)
{
	uint32_t i;

	for (i = 0; i < wish->n_channels; i++)
		if (wish->channels[i].contexts & (SPOOR_CONTEXT_STACK | SPOOR_CONTEXT_IP))
			return true;
	return false;
}

/*
 * What is needed now, and half of the least for what comes later, such as classes of objects to come. Where addresses
 * are recorded the objects are defined, each as often as it comes to where another was.
 */
static uint64_t defs_size(const struct arena_wish *wish)
{
	uint64_t later = has_addresses(wish) ? OBJECTS_DEFS : SPOOR_ARENA_DEFS_SIZE / 2;
	uint64_t size = ROUND_UP(wish->defs + later, DEFS_STEP);

	if (size < SPOOR_ARENA_DEFS_SIZE)
		return SPOOR_ARENA_DEFS_SIZE;
	return size < SPOOR_ARENA_DEFS_MOST ? size : SPOOR_ARENA_DEFS_MOST;
}

static int lay_out(const struct arena_wish *wish, struct spoor_arena *a)
{
	uint64_t shares = 0, size = 0;
	uint32_t i;
	int r;

	if (!wish->n_channels || wish->n_channels > SPOOR_ARENA_MAX_CHANNELS)
		return -EINVAL;
	for (i = 0; i < wish->n_channels; i++)
		shares += wish->channels[i].share ?: 1;
	for (i = 0; i < wish->n_channels; i++) {
		const struct arena_channel_wish *c = &wish->channels[i];

		r = lay_out_channel(c, wish->size / shares * (c->share ?: 1), a, &size);
		if (r)
			return r;
	}
	a->defs_offset = SPOOR_ARENA_DEFS_OFFSET;
	a->defs_size = defs_size(wish);
	a->headers_offset = a->defs_offset + a->defs_size;
	a->data_offset = ROUND_UP(a->headers_offset + a->n_packets * sizeof(struct spoor_arena_packet), PAGE);
	a->size = a->data_offset + size;
	return 0;
}

bool arenas_mark_ends;

static void describe(struct spoor_arena *a, const struct arena_wish *wish)
{
	struct spoor_arena_clock pair = clock_pair();

	a->version = SPOOR_ARENA_VERSION;
	a->pid = sys_pid();
	a->clock = clock_kind();
	a->start_time = self_start_time();
	a->made = pair.mono;
	a->realtime = clock_realtime();
	a->uid = (uint32_t)sys0(SYS_geteuid);
	a->n_stuck = wish->n_stuck;
	a->marks_ends = arenas_mark_ends;
	a->serial = 1;
	a->pid_ns = self_pid_ns();
	self_boot_id(a->boot_id);
	sys3(SYS_getrandom, a->uuid, sizeof(a->uuid), 1 /* GRND_NONBLOCK */);
	self_comm(a->comm);
	self_exe(a->exe, sizeof(a->exe));
	arena_note_clock(a, pair);
}

static char *put_number(char *to, uint64_t n)
{
	char digits[20];
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while (n /= 10);
	while (i)
		*to++ = digits[--i];
	return to;
}

/* DIR/PID-START, and DIR/PID-START-N where exec has made several of the same process. */
static long open_file(const struct arena_wish *wish, const struct spoor_arena *a, char path[PATH_MAX])
{
	uint64_t n;
	long fd = -EEXIST;

	for (n = 0; fd == -EEXIST && n < 10000; n++) {
		char *at = path + strlen(strcpy(path, wish->dir)), *end;

		*at++ = '/';
		at = put_number(at, a->pid);
		*at++ = '-';
		at = put_number(at, a->start_time);
		if (n) {
			*at++ = '-';
			at = put_number(at, n);
		}
		end = at;
		strcpy(end, ".arena");
		fd = sys3(SYS_open, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		*end = 0;
	}
	return fd;
}

static void remove_file(char path[PATH_MAX])
{
	char *end = path + strlen(path);

	if (end == path)
		return;
	strcpy(end, ".arena");
	sys3(SYS_unlink, path, 0, 0);
	*end = 0;
}

/* Addresses for it and the slack, so that nothing else comes to lie there. */
static long reserve(uint64_t size, uint64_t *ret_size)
{
	char *old = range_take(size, ret_size);

	if (old)
		return (long)old;
	*ret_size = size;
	return sys6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
}

int arena_populate(void *at, size_t size)
{
	long r = sys3(SYS_madvise, at, size, MADV_POPULATE_WRITE);

	return sys_failed(r) ? (int)r : 0;
}

bool file_may_have(uint64_t size)
{
	struct rlimit64 limit = { .rlim_cur = RLIM64_INFINITY };

	sys6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
	return size <= limit.rlim_cur;
}

static int map(long at, long fd, const struct spoor_arena *head)
{
	long r = sys6(SYS_mmap, at, (long)head->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);

	if (sys_failed(r))
		return (int)r;
	/* Of a file on disk the first store would read around itself as much as the disk's read-ahead is, up to all. */
	sys3(SYS_madvise, at, (long)head->size, MADV_RANDOM);
	r = arena_populate((char *)at, SPOOR_ARENA_DEFS_OFFSET + DEFS_STEP);
	if (!r)
		r = arena_populate((char *)at + head->headers_offset, head->data_offset - head->headers_offset);
	return (int)r;
}

static int fill(long fd, const struct spoor_arena *head, struct arena_made *ret)
{
	struct spoor_arena *a;
	long at;
	int r;

	if (!file_may_have(head->size))
		return -EFBIG;
	at = sys3(SYS_ftruncate, fd, head->size, 0);
	if (sys_failed(at))
		return (int)at;
	at = reserve(head->size + SLACK, &ret->reserved);
	if (sys_failed(at))
		return (int)at;
	r = map(at, fd, head);
	if (r) {
		range_retire((char *)at, ret->reserved, 0, 0);
		return r;
	}
	a = (struct spoor_arena *)at;
	memcpy(a, head, sizeof(*a));
	__atomic_store_n(&a->state, SPOOR_ARENA_LIVE, __ATOMIC_RELEASE);
	__atomic_store_n(&a->magic, SPOOR_ARENA_MAGIC, __ATOMIC_RELEASE);
	ret->arena = a;
	return 0;
}

int arena_make(const struct arena_wish *wish, struct arena_made *ret)
{
	static struct spoor_arena head; /* both are too large for a stack that may be small */
	static struct arena_made made;
	long fd;
	int r;

	memset(&head, 0, sizeof(head));
	memset(&made, 0, sizeof(made));
	made.fd = -1;
	r = lay_out(wish, &head);
	if (r)
		return r;
	describe(&head, wish);
	if (wish->dir[0])
		fd = open_file(wish, &head, made.path);
	else
		fd = sys3(SYS_memfd_create, "spoor-ust", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
	if (sys_failed(fd))
		return (int)fd;
	r = fill(fd, &head, &made);
	if (!r && !wish->dir[0])
		sys3(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (r || wish->dir[0])
		sys3(SYS_close, fd, 0, 0);
	else
		made.fd = (int)fd;
	if (r)
		remove_file(made.path);
	else
		*ret = made;
	return r;
}

void arena_unmake(struct arena_made *made)
{
	range_retire((char *)made->arena, made->reserved, 0, 0);
	if (made->fd >= 0)
		sys3(SYS_close, made->fd, 0, 0);
	remove_file(made->path);
}

void arena_blank_packets(struct spoor_arena *a)
{
	range_blank((char *)a + a->headers_offset, a->size - a->headers_offset);
}

int arena_define(struct arena_made *made, const struct spoor_def *def)
{
	struct spoor_arena *a = made->arena;
	uint64_t used = a->defs_used, present = ROUND_UP(used, DEFS_STEP) ?: DEFS_STEP;
	char *defs = (char *)a + a->defs_offset;

	if (def->size > a->defs_size - used ||
	    (used + def->size > present &&
	     arena_populate(defs + present, ROUND_UP(used + def->size, DEFS_STEP) - present))) {
		__atomic_fetch_add(&a->classes_refused, 1, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	memcpy(defs + used, def, def->size);
	__atomic_store_n(&a->defs_used, used + def->size, __ATOMIC_RELEASE);
	made->defined = used + def->size;
	return 0;
}

int arena_define_as(struct arena_made *made, const struct arena_made *of)
{
	struct spoor_arena *a = made->arena;
	uint64_t used = of->defined;
	int r = used > DEFS_STEP ? arena_populate((char *)a + a->defs_offset, ROUND_UP(used, DEFS_STEP)) : 0;

	if (r)
		return r;
	memcpy((char *)a + a->defs_offset, (const char *)of->arena + of->arena->defs_offset, used);
	__atomic_store_n(&a->defs_used, used, __ATOMIC_RELEASE);
	made->defined = used;
	made->n_objects = of->n_objects;
	return 0;
}

void arena_note_clock(struct spoor_arena *a, struct spoor_arena_clock pair)
{
	uint64_t n = a->n_clocks;

	a->clocks[n % SPOOR_ARENA_MAX_CLOCKS] = pair;
	__atomic_store_n(&a->n_clocks, n + 1, __ATOMIC_RELEASE);
}

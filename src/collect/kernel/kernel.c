/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Steering the kernel side once it is loaded (load.c): what is recorded, of whom, and what it tells of itself. */
#include "collect/kernel/kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/kernel/skeleton.h"
#include "trace/syscalls.h"

/* ---- configuration ---- */

static uint8_t map_call_of(unsigned id, const char *name)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} table[] = {
		{ "mmap", SPOOR_MAP_MMAP },        { "mmap2", SPOOR_MAP_MMAP },
		{ "mprotect", SPOOR_MAP_PROTECT }, { "pkey_mprotect", SPOOR_MAP_PROTECT },
		{ "munmap", SPOOR_MAP_UNMAP },     { "mremap", SPOOR_MAP_REMAP },
		{ "shmat", SPOOR_MAP_OTHER },      { "remap_file_pages", SPOOR_MAP_OTHER },
		{ "brk", SPOOR_MAP_BRK },
	};

	if (id >= SPOOR_SYSCALL_I386 && !strcmp(name, "mmap"))
		return SPOOR_MAP_OTHER; /* its arguments are in memory */
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(name, table[i].name))
			return table[i].kind;
	return 0;
}

/* Where the kernel side has this condition; it has room for all that the table of calls can have. */
static uint8_t place_condition(struct spoor_ret_when *all, const struct spoor_ret_when *w)
{
	static const struct spoor_ret_when none;

	for (uint8_t i = 1; w && i < SPOOR_RET_CONDITIONS; i++) {
		if (!memcmp(&all[i], &none, sizeof(none)))
			all[i] = *w;
		if (!memcmp(&all[i], w, sizeof(*w)))
			return i;
	}
	return 0;
}

/* A ring may be told by the number under which it is registered (IORING_ENTER_REGISTERED_RING in `flags`, ... */
static uint8_t no_fd_of(const char *name)
{
	if (!strcmp(name, "io_uring_enter"))
		return 3 << 5 | 4;
	return strcmp(name, "io_uring_register") ? 0 : 1 << 5 | 31; /* ... IORING_REGISTER_USE_REGISTERED_RING) */
}

static void describe_call(unsigned id, struct spoor_call_config *c)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(id);

	if (!info->name) {
		c->flags = SPOOR_CALL_UNKNOWN;
		return;
	}
	c->flags = (info->flags & SPOOR_SYSCALL_RET_FD ? SPOOR_CALL_RET_FD : 0) |
		   (info->flags & SPOOR_SYSCALL_RET_LONG ? SPOOR_CALL_RET_LONG : 0) |
		   (!strncmp(info->name, "execve", 6) ? SPOOR_CALL_EXEC : 0);
	c->map = map_call_of(id, info->name);
	c->no_fd = no_fd_of(info->name);
	for (unsigned i = 0; i < info->n_args; i++) {
		unsigned kind = info->args[i].kind;

		c->widths |= (uint32_t)info->args[i].width << (4 * i);
		if ((kind == SPOOR_ARG_FD || kind == SPOOR_ARG_DIRFD) && c->n_fds < 2)
			c->fds |= (i | (kind == SPOOR_ARG_DIRFD ? SPOOR_DIRFD : 0)) << (4 * c->n_fds++);
		else if (kind == SPOOR_ARG_PATH && c->n_paths < 2)
			c->paths |= i << (4 * c->n_paths++);
		else if (kind == SPOOR_ARG_SOCKADDR_IN || kind == SPOOR_ARG_SOCKADDR_OUT)
			c->sockaddr = (i + 1) | (kind == SPOOR_ARG_SOCKADDR_OUT ? SPOOR_AT_EXIT : 0);
		else if (kind == SPOOR_ARG_BUF_IN || kind == SPOOR_ARG_BUF_OUT)
			c->buf = (i + 1) | (kind == SPOOR_ARG_BUF_OUT ? SPOOR_AT_EXIT : 0);
	}
}

static uint8_t mode_of(uint8_t filtered, enum spoor_mode mode, enum spoor_mode most)
{
	if (filtered == SPOOR_FILTER_NONE)
		return 0;
	if (filtered != SPOOR_FILTER_DEFAULT)
		mode = filtered - SPOOR_FILTER_MODE(0);
	return 1 + (mode < most ? mode : most);
}

void spoor_kernel_set_calls(struct spoor_kernel *k, const struct spoor_filter *f, enum spoor_mode mode,
			    enum spoor_mode most, unsigned budget)
{
	k->c.calls[SPOOR_SYSCALL_MAX].mode = mode_of(f->other, mode, most);
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++) {
		struct spoor_call_config c = {};

		describe_call(id, &c);
		c.ret_when = place_condition(k->c.ret_whens, spoor_syscall_info(id)->ret_when);
		c.mode = mode_of(f->mode[id], mode, most);
		k->c.calls[id] = c;
	}
	*k->c.budget = budget > SPOOR_MAX_FRAMES ? SPOOR_MAX_FRAMES : budget;
}

void spoor_kernel_set_paused(struct spoor_kernel *k, bool paused)
{
	*k->c.paused = paused;
}

void spoor_kernel_set_epoch(struct spoor_kernel *k, uint64_t epoch)
{
	__atomic_store_n(k->c.epoch, epoch, __ATOMIC_SEQ_CST);
}

int spoor_kernel_set_names(struct spoor_kernel *k, const char *const *globs, size_t n, struct spoor_error *e)
{
	for (size_t i = 0; i < n; i++) {
		int r = spoor_names_add(k->c.names, globs[i], e);

		if (r)
			return r;
	}
	return 0;
}

/* ---- taking in what is there ---- */

static int run_iterator(const struct bpf_program *prog)
{
	int link = bpf_link_create(bpf_program__fd(prog), 0, BPF_TRACE_ITER, NULL);
	_cleanup_(spoor_closep) int link_fd = link, fd = -1;
	char buf[256];
	ssize_t n;

	if (link < 0)
		return link;
	fd = bpf_iter_create(link);
	if (fd < 0)
		return fd;
	do
		n = read(fd, buf, sizeof(buf));
	while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	(void)link_fd;
	return n < 0 ? -errno : 0;
}

int spoor_kernel_pick(struct spoor_kernel *k, uint32_t tgid, uint32_t bits)
{
	*k->c.attaching = true;
	return bpf_map__update_elem(k->c.picks, &tgid, sizeof(tgid), &bits, sizeof(bits), BPF_ANY);
}

void spoor_kernel_unpick(struct spoor_kernel *k, uint32_t tgid)
{
	bpf_map__delete_elem(k->c.picks, &tgid, sizeof(tgid), 0);
}

/* Each CPU's scheduler clock against ours. Where this thread may not go, nothing is known of it. */
static void measure_sched_clocks(struct spoor_kernel *k)
{
	int fd = bpf_program__fd(k->c.measure_sched_clock);
	size_t size = CPU_ALLOC_SIZE(k->n_cpus);
	cpu_set_t *before = CPU_ALLOC(k->n_cpus), *one = CPU_ALLOC(k->n_cpus);

	if (before && one && !sched_getaffinity(0, size, before)) {
		for (unsigned i = 0; i < k->n_cpus; i++) {
			LIBBPF_OPTS(bpf_test_run_opts, o);

			CPU_ZERO_S(size, one);
			CPU_SET_S(i, size, one);
			if (!sched_setaffinity(0, size, one))
				bpf_prog_test_run_opts(fd, &o);
		}
		sched_setaffinity(0, size, before);
	}
	CPU_FREE(before);
	CPU_FREE(one);
}

long spoor_kernel_take_in(struct spoor_kernel *k)
{
	uint64_t first = *k->c.attached_threads, before;

	measure_sched_clocks(k);
	do {
		int r;

		before = *k->c.attached_threads;
		*k->c.missing = 0;
		*k->c.crowded = 0;
		r = run_iterator(k->c.attach_tasks);
		if (r)
			return r;
	} while (*(volatile unsigned long long *)k->c.attached_threads != before);
	return before - first;
}

bool spoor_kernel_crowded(const struct spoor_kernel *k)
{
	return *(volatile uint32_t *)k->c.crowded;
}

void spoor_kernel_end_attach(struct spoor_kernel *k)
{
	*k->c.attaching = false;
}

/* Returns for how many threads it is to be run again. */
static long tell(struct spoor_kernel *k, const struct bpf_program *iterator)
{
	int r;

	*k->c.crowded = 0;
	r = run_iterator(iterator);
	return r ? r : (long)*(volatile uint32_t *)k->c.crowded;
}

long spoor_kernel_flush_pending(struct spoor_kernel *k)
{
	return tell(k, k->collector->progs.end_tasks);
}

long spoor_kernel_repeat(struct spoor_kernel *k, uint64_t tell_again)
{
	k->collector->bss->tell_again = tell_again;
	return tell(k, k->collector->progs.repeat_tasks);
}

long spoor_kernel_meet(struct spoor_kernel *k)
{
	int r;

	if (!k->collector)
		return 0; /* counting begins with the next call */
	measure_sched_clocks(k);
	k->collector->bss->n_met = 0;
	r = run_iterator(k->collector->progs.meet_tasks);
	return r ? r : (long)k->collector->bss->n_met;
}

bool spoor_kernel_retake(struct spoor_kernel *k)
{
	return __atomic_exchange_n(k->c.retake, 0, __ATOMIC_SEQ_CST) && spoor_kernel_take_in(k) >= 0 &&
	       spoor_kernel_meet(k) >= 0;
}

int64_t spoor_kernel_live_threads(const struct spoor_kernel *k)
{
	return *k->c.live_threads;
}

int spoor_kernel_key_of(struct spoor_kernel *k, int fd, struct spoor_object_key *ret)
{
	void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	uint64_t args[] = { (uintptr_t)at };
	LIBBPF_OPTS(bpf_test_run_opts, o, .ctx_in = args, .ctx_size_in = sizeof(args));
	int r;

	if (at == MAP_FAILED)
		return -errno;
	r = bpf_prog_test_run_opts(bpf_program__fd(k->c.object_key_at), &o);
	munmap(at, 1);
	if (r || !o.retval)
		return r ? r : -ENOENT;
	*ret = *k->c.found_key;
	return 0;
}

bool spoor_kernel_is_full(const struct spoor_kernel *k)
{
	return __atomic_load_n(k->c.next_object, __ATOMIC_RELAXED) > SPOOR_KERNEL_OBJECTS;
}

int spoor_kernel_add_object(struct spoor_kernel *k, const struct spoor_object_key *key, uint32_t *ret_id)
{
	const struct bpf_map *map = k->c.object_ids;
	uint32_t id;

	if (spoor_kernel_is_full(k))
		return -ENOSPC;
	id = __atomic_fetch_add(k->c.next_object, 1, __ATOMIC_SEQ_CST);
	if (id >= SPOOR_KERNEL_OBJECTS)
		return -ENOSPC;
	if (bpf_map__update_elem(map, key, sizeof(*key), &id, sizeof(id), BPF_NOEXIST)) {
		if (bpf_map__lookup_elem(map, key, sizeof(*key), ret_id, sizeof(*ret_id), 0))
			*ret_id = 0;
		return -EEXIST;
	}
	*ret_id = id;
	return 0;
}

/* ---- waking, counting ---- */

int spoor_kernel_wakeup_fd(const struct spoor_kernel *k)
{
	return bpf_map__fd(k->c.wakeups);
}

/* The messages have no content: skipping to the producer's position is all there is to read. */
void spoor_kernel_wakeup_drain(struct spoor_kernel *k)
{
	long page = sysconf(_SC_PAGESIZE);
	int fd = spoor_kernel_wakeup_fd(k);
	unsigned long *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned long *producer = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, page);

	if (consumer != MAP_FAILED && producer != MAP_FAILED)
		__atomic_store_n(consumer, __atomic_load_n(producer, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	if (consumer != MAP_FAILED)
		munmap(consumer, page);
	if (producer != MAP_FAILED)
		munmap(producer, page);
}

void spoor_kernel_stats(const struct spoor_kernel *k, struct spoor_kernel_stats *ret)
{
	const struct bpf_map *map = k->c.cpus;
	size_t size = bpf_map__value_size(map), at = size - (sizeof(*ret) + 7) / 8 * 8;
	_cleanup_(spoor_freep) uint8_t *value = malloc(size);

	memset(ret, 0, sizeof(*ret));
	if (!value)
		return;
	for (uint32_t cpu = 0; cpu < k->n_cpus; cpu++) {
		uint64_t *sum = (uint64_t *)ret, *add = (uint64_t *)(value + at);

		if (bpf_map__lookup_elem(map, &cpu, sizeof(cpu), value, size, 0))
			continue;
		for (size_t i = 0; i < sizeof(*ret) / 8; i++)
			sum[i] += add[i];
	}
	ret->thread_misses += *k->c.missing;
}

void spoor_kernel_run_time(const struct spoor_kernel *k, uint64_t *ret_ns, uint64_t *ret_runs)
{
	struct bpf_program *p;

	*ret_ns = *ret_runs = 0;
	bpf_object__for_each_program (p, k->obj) {
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len)) {
			*ret_ns += info.run_time_ns;
			*ret_runs += info.run_cnt;
		}
	}
}

static uint64_t map_memlock(int fd)
{
	char path[64], line[128];
	uint64_t bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %lu", &bytes) == 1)
			break;
	fclose(f);
	return bytes;
}

bool spoor_kernel_in_place(const struct spoor_kernel *k)
{
	return *k->c.direct_map;
}

uint64_t spoor_kernel_memory(const struct spoor_kernel *k)
{
	struct bpf_map *map;
	uint64_t sum = 0;

	bpf_object__for_each_map (map, k->obj)
		sum += map_memlock(bpf_map__fd(map));
	return sum;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening, loading, attaching and closing the kernel side. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/kernel/kernel.h"
#include "collect/kernel/refusal.h"
#include "collect/kernel/skeleton.h"

/* When this program began: children that its process has had for longer are not its own, but of who executed it. */
static uint64_t began;

__attribute__((constructor)) static void begin(void)
{
	began = spoor_now_monotonic();
}

/* What libbpf said last: the reason behind a failed load. */
static char last_words[4096];
static bool verifier_spoke; /* it is the verifier that refuses, not who keeps us from it */

static int keep_words(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (strstr(fmt, "PROG LOAD LOG"))
		verifier_spoke = true;
	if (level == LIBBPF_WARN && !last_words[0])
		vsnprintf(last_words, sizeof(last_words), fmt, ap);
	last_words[strcspn(last_words, "\n")] = 0;
	return 0;
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static int cgroup_of(const char *path, uint64_t *ret_id, struct spoor_error *e)
{
	struct {
		struct file_handle h;
		uint64_t id;
	} handle = { .h.handle_bytes = 8 };
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	int mount_id;

	if (fd < 0)
		return spoor_fail(e, errno, "%s: no such cgroup (give the directory of a cgroup v2)", path);
	if (fstatfs(fd, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC ||
	    name_to_handle_at(fd, "", &handle.h, &mount_id, AT_EMPTY_PATH))
		return spoor_fail(e, EINVAL, "%s: not a cgroup v2 directory", path);
	*ret_id = handle.id;
	return 0;
}

#define ENOUGH_DESCRIPTORS 128 /* for all maps and programs, and what is open already */

/* libbpf tries again without what it had no descriptor for, and fails with what that comes to. */
static bool has_few_descriptors(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < ENOUGH_DESCRIPTORS;
}

static int why_not_loaded(int r, struct spoor_error *e)
{
	char found[256];

	if (r == -EMFILE || has_few_descriptors())
		return spoor_fail(e, EMFILE, "cannot load the kernel side: %s", strerror(EMFILE));
	if (spoor_kernel_locked_down(SPOOR_LOCKDOWN, found, sizeof(found)))
		return spoor_fail(e, EPERM, "this kernel is locked down (%s): no BPF program may read memory; %s",
				  found, SPOOR_LOCKDOWN_ADVICE);
	/* The capabilities are there: spoor_privileges_check(). */
	if ((r == -EPERM || r == -EACCES) && !verifier_spoke) {
		spoor_kernel_who_forbids(SPOOR_LOCKDOWN, found, sizeof(found));
		return spoor_fail(e, EPERM, "this kernel refuses BPF programs: %s", found);
	}
	if (r == -ENOMEM)
		return spoor_fail(e, ENOMEM,
				  "no memory for the kernel side: use smaller --buffers, or raise the limit of memory "
				  "that it runs under");
	if (spoor_kernel_btf())
		return spoor_fail(e, ENOENT,
				  "this kernel has no BTF that can be read (%s): use one with CONFIG_DEBUG_INFO_BTF=y "
				  "(Debian's have it), and mount /sys",
				  SPOOR_BTF);
	return spoor_fail(e, -r, "cannot load the kernel side: %s (%s)", strerror(-r), last_words);
}

static void *map_memory(const struct bpf_map *map, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Both skeletons have what maps.bpf.h declares, at places of their own. */
#define BIND(k, s)                                                                           \
	do {                                                                                 \
		(k)->c.rings = (s)->maps.rings;                                              \
		(k)->c.objects = (s)->maps.objects;                                          \
		(k)->c.row_pages = (s)->maps.row_pages;                                      \
		(k)->c.row_chunks = (s)->maps.row_chunks;                                    \
		(k)->c.rules = (s)->maps.rules;                                              \
		(k)->c.picks = (s)->maps.picks;                                              \
		(k)->c.object_ids = (s)->maps.object_ids;                                    \
		(k)->c.wakeups = (s)->maps.wakeups;                                          \
		(k)->c.cpus = (s)->maps.cpus;                                                \
		(k)->c.attach_tasks = (s)->progs.attach_tasks;                               \
		(k)->c.direct_find = (s)->progs.direct_find;                                 \
		(k)->c.measure_sched_clock = (s)->progs.measure_sched_clock;                 \
		(k)->c.object_key_at = (s)->progs.object_key_at;                             \
		(k)->c.find_self = (s)->progs.find_self;                                     \
		(k)->c.found_key = &(s)->bss->found_key;                                     \
		(k)->c.direct_map = (unsigned long long *)&(s)->bss->direct_map;             \
		(k)->c.epoch = (uint64_t *)&(s)->data->epoch;                                \
		(k)->c.budget = &(s)->data->budget;                                          \
		(k)->c.next_object = &(s)->data->next_object;                                \
		(k)->c.retake = &(s)->bss->retake;                                           \
		(k)->c.missing = &(s)->bss->missing;                                         \
		(k)->c.crowded = &(s)->bss->crowded;                                         \
		(k)->c.paused = &(s)->bss->paused;                                           \
		(k)->c.attaching = &(s)->bss->attaching;                                     \
		(k)->c.both_attached = &(s)->bss->both_attached;                             \
		(k)->c.calls = (s)->bss->calls;                                              \
		(k)->c.ret_whens = (s)->bss->ret_whens;                                      \
		(k)->c.names = &(s)->bss->names;                                             \
		(k)->c.live_threads = (long long *)&(s)->bss->live_threads;                  \
		(k)->c.attached_threads = (unsigned long long *)&(s)->bss->attached_threads; \
	} while (0)

#define CONFIGURE(s, k, o, id)                                                           \
	do {                                                                             \
		(s)->rodata->ring_mask = (k)->ring_size - 1;                             \
		(s)->rodata->unwind_with = (o)->unwind;                                  \
		(s)->bss->self_tgid = getpid();                                          \
		(s)->bss->self_began = began;                                            \
		(s)->rodata->match_all = (o)->match_all;                                 \
		(s)->rodata->match_names = (o)->match_names;                             \
		(s)->rodata->match_cgroup = (o)->cgroup;                                 \
		(s)->rodata->cgroup_id = id;                                             \
		describe_tables(&(s)->rodata->physical_bits, &(s)->rodata->five_levels); \
		bpf_map__set_value_size((s)->maps.rings, (k)->ring_stride);              \
		bpf_map__set_max_entries((s)->maps.rings, (k)->n_cpus *SPOOR_LEVELS);    \
		bpf_map__set_max_entries((s)->maps.cpus, (k)->n_cpus);                   \
	} while (0)

static int map_all(struct spoor_kernel *k, bool walks)
{
	k->rings = map_memory(k->c.rings, k->ring_stride * k->n_cpus * SPOOR_LEVELS);
	if (!walks)
		return k->rings ? 0 : -ENOMEM;
	k->objects = map_memory(k->c.objects, SPOOR_KERNEL_OBJECTS * sizeof(*k->objects));
	k->row_pages = map_memory(k->c.row_pages, SPOOR_MAX_ROW_PAGES * sizeof(*k->row_pages));
	k->rules = map_memory(k->c.rules, SPOOR_MAX_RULES * sizeof(*k->rules));
	return k->rings && k->objects && k->row_pages && k->rules ? 0 : -ENOMEM;
}

/*
 * Does the verifier know may_goto (opcode 0xe5), also one over nothing? Then (from Linux 6.14 on) functions have stacks
 * of their own as well. Without, they have 512 bytes together, of which bpf_loop() leaves them enough.
 */
static bool has_may_goto(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xe5 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "spoor_probe", "GPL", insns, 3, NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void spoor_kernel_closep(struct spoor_kernel **k)
{
	spoor_kernel_close(*k);
}

/* From /proc/cpuinfo: how wide a physical address is (less what encryption of memory takes), and the tables' depth. */
static void describe_tables(uint32_t *ret_bits, bool *ret_five_levels)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];

	while (f && !*ret_bits && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "flags", 5))
			*ret_five_levels = strstr(line, " la57");
		sscanf(line, "address sizes : %u bits", ret_bits);
	}
}

static void find_direct_map(const struct spoor_kernel *k)
{
	uint64_t pattern[8] __attribute__((aligned(64)));
	uint64_t args[] = { (uintptr_t)pattern };
	LIBBPF_OPTS(bpf_test_run_opts, o, .ctx_in = args, .ctx_size_in = sizeof(args));

	if (getrandom(pattern, sizeof(pattern), 0) == sizeof(pattern))
		bpf_prog_test_run_opts(bpf_program__fd(k->c.direct_find), &o);
}

static void find_self(const struct spoor_kernel *k)
{
	LIBBPF_OPTS(bpf_test_run_opts, o);

	bpf_prog_test_run_opts(bpf_program__fd(k->c.find_self), &o);
}

static int no_scan(struct spoor_error *e)
{
	return spoor_fail(e, EOPNOTSUPP,
			  "--unwind scan needs Linux 6.14 or newer: its calls nest too deep for this one");
}

static int load_collector(struct spoor_kernel *k, const struct spoor_kernel_options *o, uint64_t cgroup,
			  struct spoor_error *e)
{
	struct spoor_collector_bpf *s = k->collector = spoor_collector_bpf__open();
	int r;

	if (!s)
		return why_not_loaded(-errno, e);
	k->obj = s->obj;
	CONFIGURE(s, k, o, cgroup);
	s->rodata->payload_max = o->payload;
	if (!has_may_goto()) {
		if (o->unwind == SPOOR_UNWIND_SCAN)
			return no_scan(e);
		bpf_program__set_autoload(s->progs.sys_enter, false);
		bpf_program__set_autoload(s->progs.sys_enter_compat, true);
	}
	r = spoor_collector_bpf__load(s);
	if (r)
		return why_not_loaded(r, e);
	BIND(k, s);
	return 0;
}

/* Without walks there are no objects, rows and stacks. */
static void leave_out_walks(struct spoor_counter_bpf *s)
{
	struct bpf_map *const maps[] = { s->maps.objects,     s->maps.row_pages, s->maps.rules,
					 s->maps.code_ranges, s->maps.stack_ids, s->maps.file_ids };

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_max_entries(maps[i], 1);
}

static int load_counter(struct spoor_kernel *k, const struct spoor_kernel_options *o, uint64_t cgroup,
			struct spoor_error *e)
{
	struct spoor_counter_bpf *s = k->counter = spoor_counter_bpf__open();
	int r;

	if (!s)
		return why_not_loaded(-errno, e);
	k->obj = s->obj;
	CONFIGURE(s, k, o, cgroup);
	s->rodata->by_site = o->by_site;
	s->rodata->by_process = o->by_process;
	s->rodata->filtered = o->filtered;
	if (o->no_blocked)
		bpf_program__set_autoload(s->progs.switched, false);
	if (o->by_site) {
		bool may_goto = has_may_goto();

		if (!may_goto && o->unwind == SPOOR_UNWIND_SCAN)
			return no_scan(e);
		bpf_program__set_autoload(s->progs.sys_enter, false);
		bpf_program__set_autoload(s->progs.sys_enter_site, may_goto);
		bpf_program__set_autoload(s->progs.sys_enter_site_compat, !may_goto);
	}
	if (!o->by_site)
		leave_out_walks(s);
	r = spoor_counter_bpf__load(s);
	if (r)
		return why_not_loaded(r, e);
	BIND(k, s);
	return 0;
}

int spoor_kernel_open(const struct spoor_kernel_options *o, struct spoor_kernel **ret, struct spoor_error *e)
{
	_cleanup_(spoor_kernel_closep) struct spoor_kernel *k = calloc(1, sizeof(*k));
	uint64_t cgroup = 0;
	int r;

	if (!k)
		return -ENOMEM;
	libbpf_set_print(keep_words);
	last_words[0] = 0;
	k->n_cpus = libbpf_num_possible_cpus();
	k->ring_size = o->ring_size;
	k->ring_stride = round_up(SPOOR_RING_DATA + k->ring_size + SPOOR_RING_SLACK, 8);
	if (o->cgroup && (r = cgroup_of(o->cgroup, &cgroup, e)))
		return r;
	r = o->counting ? load_counter(k, o, cgroup, e) : load_collector(k, o, cgroup, e);
	if (r)
		return r;
	find_self(k);
	if (!o->copy_memory)
		find_direct_map(k);
	if (map_all(k, !o->counting || o->by_site))
		return spoor_fail(e, ENOMEM, "cannot map the kernel side's memory: %s", strerror(errno));
	*ret = TAKE_PTR(k);
	return 0;
}

int spoor_kernel_attach(struct spoor_kernel *k, struct spoor_error *e)
{
	int r;

	last_words[0] = 0;
	r = k->counter ? spoor_counter_bpf__attach(k->counter) : spoor_collector_bpf__attach(k->collector);
	*k->c.both_attached = !r;
	return r ? spoor_fail(e, -r, "cannot attach to the kernel's tracepoints: %s (%s)", strerror(-r), last_words) :
		   0;
}

void spoor_kernel_detach(struct spoor_kernel *k)
{
	*k->c.both_attached = false;
	if (k->counter)
		spoor_counter_bpf__detach(k->counter);
	else
		spoor_collector_bpf__detach(k->collector);
}

void spoor_kernel_keep_rings(struct spoor_kernel *k)
{
	if (k->objects)
		munmap(k->objects, SPOOR_KERNEL_OBJECTS * sizeof(*k->objects));
	if (k->row_pages)
		munmap(k->row_pages, SPOOR_MAX_ROW_PAGES * sizeof(*k->row_pages));
	if (k->rules)
		munmap(k->rules, SPOOR_MAX_RULES * sizeof(*k->rules));
	spoor_counter_bpf__destroy(k->counter);
	spoor_collector_bpf__destroy(k->collector);
	k->objects = NULL;
	k->row_pages = NULL;
	k->rules = NULL;
	k->counter = NULL;
	k->collector = NULL;
	k->obj = NULL;
}

void spoor_kernel_close(struct spoor_kernel *k)
{
	if (!k)
		return;
	spoor_kernel_keep_rings(k);
	if (k->rings)
		munmap(k->rings, k->ring_stride * k->n_cpus * SPOOR_LEVELS);
	free(k);
}

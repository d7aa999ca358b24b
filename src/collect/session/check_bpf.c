/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/check_bpf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/kernel/check.skel.h"
#include "collect/kernel/kernel.h"
#include "collect/kernel/refusal.h"

/* Each is one program of check.bpf.c; maps that are not named are not made. */
static const struct probe {
	const char *name;
	const char *program;
	const char *maps[3];
	enum spoor_check_state without; /* how bad its absence is */
	const char *what;
} probes[] = {
	{ "sys_enter", "check_sys_enter", {}, SPOOR_CHECK_NO, "tracepoint sys_enter (tp_btf)" },
	{ "sys_exit", "check_sys_exit", {}, SPOOR_CHECK_NO, "tracepoint sys_exit (tp_btf)" },
	{ "fork", "check_fork", {}, SPOOR_CHECK_NO, "tracepoint sched_process_fork (tp_btf)" },
	{ "exec", "check_exec", {}, SPOOR_CHECK_NO, "tracepoint sched_process_exec (tp_btf)" },
	{ "exit", "check_exit", {}, SPOOR_CHECK_NO, "tracepoint sched_process_exit (tp_btf)" },
	{ "sched_switch", "check_switch", {}, SPOOR_CHECK_LIMITED, "tracepoint sched_switch (tp_btf): sleeping calls" },
	{ "cgroup", "check_cgroup", {}, SPOOR_CHECK_LIMITED, "tracepoint cgroup_attach_task (tp_btf): --cgroup" },
	{ "task_storage", "check_storage", { "storage" }, SPOOR_CHECK_NO, "task storage: the trace map" },
	{ "buffers", "check_buffers", { "ring", "shared", "per_cpu" }, SPOOR_CHECK_NO, "ring buffer, mapped arrays" },
	{ "walk", "check_walk", {}, SPOOR_CHECK_NO, "bpf_loop, bpf_find_vma, bpf_probe_read_user: stack walks" },
	{ "iter_task", "check_iter_task", {}, SPOOR_CHECK_NO, "task iterator: programs that run already" },
	{ "iter_vma", "check_iter_vma", {}, SPOOR_CHECK_LIMITED, "mapping iterator: their objects" },
};
#define N_PROBES (sizeof(probes) / sizeof(*probes))

static bool uses(const struct probe *probe, const char *map)
{
	for (size_t i = 0; i < sizeof(probe->maps) / sizeof(*probe->maps); i++)
		if (probe->maps[i] && !strcmp(probe->maps[i], map))
			return true;
	return false;
}

static int load(struct spoor_check_bpf *skel, const struct probe *probe)
{
	struct bpf_program *program;
	struct bpf_map *map;

	bpf_object__for_each_program (program, skel->obj)
		bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), probe->program));
	bpf_object__for_each_map (map, skel->obj)
		bpf_map__set_autocreate(map, uses(probe, bpf_map__name(map)));
	return bpf_object__load(skel->obj);
}

/* An iterator is only known to work when it has been read to its end. */
static int run_iterator(struct bpf_link *link)
{
	_cleanup_(spoor_closep) int fd = bpf_iter_create(bpf_link__fd(link));
	char buf[64];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	return n < 0 ? -errno : 0;
}

static int attach(struct spoor_check_bpf *skel, const struct probe *probe)
{
	struct bpf_program *program = bpf_object__find_program_by_name(skel->obj, probe->program);
	struct bpf_link *link = bpf_program__attach(program);
	int err = 0;

	if (!link)
		return -errno;
	if (!strncmp(bpf_program__section_name(program), "iter/", 5))
		err = run_iterator(link);
	bpf_link__destroy(link);
	return err;
}

static int map_shared(struct spoor_check_bpf *skel, const struct probe *probe)
{
	void *p;

	if (!uses(probe, "shared"))
		return 0;
	p = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(skel->maps.shared), 0);
	if (p == MAP_FAILED)
		return -errno;
	munmap(p, sysconf(_SC_PAGESIZE));
	return 0;
}

static void advise_permission(struct spoor_check *c)
{
	char who[256];

	spoor_kernel_who_forbids(SPOOR_LOCKDOWN, who, sizeof(who));
	spoor_check_advise(c, "%s", who);
}

static void explain(struct spoor_check *c, const struct probe *probe, const char *step, int err)
{
	char found[128];

	spoor_check_set(c, probe->without, "%s: cannot %s: %s", probe->what, step, strerror(-err));
	if (!spoor_check_capable(CAP_BPF) || !spoor_check_capable(CAP_PERFMON))
		spoor_check_advise(c, "see cap_bpf and cap_perfmon");
	else if (spoor_kernel_btf())
		spoor_check_advise(c, "see btf");
	else if (spoor_kernel_locked_down(SPOOR_LOCKDOWN, found, sizeof(found)))
		spoor_check_advise(c, "see lockdown");
	else if (err == -EPERM || err == -EACCES)
		advise_permission(c);
	else if (err == -ENOMEM || err == -E2BIG)
		spoor_check_advise(c, "raise the limit of locked memory (ulimit -l) or of the cgroup's memory");
	else
		spoor_check_advise(c, "this kernel lacks it; Debian 12's 6.1 and newer kernels have it");
}

static void run_probe(struct spoor_check *c, const struct probe *probe)
{
	struct spoor_check_bpf *skel = spoor_check_bpf__open();
	const char *step = "open";
	int err = skel ? 0 : -errno;

	if (!err) {
		step = "load";
		err = load(skel, probe);
	}
	if (!err) {
		step = "map";
		err = map_shared(skel, probe);
	}
	if (!err) {
		step = "attach";
		err = attach(skel, probe);
	}
	if (err)
		explain(c, probe, step, err);
	else
		spoor_check_set(c, SPOOR_CHECK_OK, "%s", probe->what);
	spoor_check_bpf__destroy(skel);
}

/* Where each small program works, whether this kernel's verifier takes the large ones is still to be seen. */
static void check_recorder(struct spoor_check *c)
{
	const struct spoor_kernel_options o = { .ring_size = 1 << 16 };
	struct spoor_kernel *k = NULL;
	struct spoor_error e;

	if (spoor_kernel_open(&o, &k, &e))
		spoor_check_set(c, SPOOR_CHECK_NO, "%s", e.text);
	else
		spoor_check_set(c, SPOOR_CHECK_OK, "the programs of spoor record load");
	spoor_kernel_close(k);
}

static bool all_work(const struct spoor_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (checks[i].state == SPOOR_CHECK_NO)
			return false;
	return true;
}

size_t spoor_check_bpf(struct spoor_check *ret, size_t max)
{
	libbpf_print_fn_t before = libbpf_set_print(NULL);
	size_t n = 0;

	for (; n < N_PROBES && n < max; n++) {
		ret[n] = (struct spoor_check){ .name = probes[n].name };
		run_probe(&ret[n], &probes[n]);
	}
	if (n < max && all_work(ret, n)) {
		ret[n] = (struct spoor_check){ .name = "recorder" };
		check_recorder(&ret[n++]);
	}
	libbpf_set_print(before);
	return n;
}

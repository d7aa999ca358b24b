/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/check.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/kernel/refusal.h"
#include "collect/session/check_bpf.h"

const char *spoor_check_state_name(enum spoor_check_state state)
{
	static const char *const names[] = { "ok", "limited", "no" };

	return names[state];
}

void spoor_check_set(struct spoor_check *c, enum spoor_check_state state, const char *fmt, ...)
{
	va_list ap;

	c->state = state;
	va_start(ap, fmt);
	vsnprintf(c->detail, sizeof(c->detail), fmt, ap);
	va_end(ap);
}

void spoor_check_advise(struct spoor_check *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->advice, sizeof(c->advice), fmt, ap);
	va_end(ap);
}

/* The first line of a small file without its newline. */
static int read_line(const char *path, char *buf, size_t size)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen(path, "re");

	if (!f)
		return -errno;
	if (!fgets(buf, size, f))
		return -ENODATA;
	buf[strcspn(buf, "\n")] = 0;
	return 0;
}

static uint64_t effective_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	return syscall(SYS_capget, &header, data) ? 0 : (uint64_t)data[1].effective << 32 | data[0].effective;
}

bool spoor_check_capable(int cap)
{
	uint64_t caps = effective_capabilities();

	if (caps >> cap & 1)
		return true;
	/* CAP_BPF and CAP_PERFMON were split from it. */
	return (cap == CAP_BPF || cap == CAP_PERFMON) && (caps >> CAP_SYS_ADMIN & 1);
}

static void check_capability(struct spoor_check *c, int cap, enum spoor_check_state without, const char *what_for)
{
	if (spoor_check_capable(cap)) {
		spoor_check_set(c, SPOOR_CHECK_OK, "held: %s", what_for);
		return;
	}
	spoor_check_set(c, without, "missing: %s", what_for);
	spoor_check_advise(c, "run as root, or give the capability to this user or program");
}

bool spoor_check_proc_there(void)
{
	return !access("/proc/self/status", R_OK);
}

static void check_proc(struct spoor_check *c)
{
	if (spoor_check_proc_there()) {
		spoor_check_set(c, SPOOR_CHECK_OK, "mounted: processes and their mappings are found there");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_NO, "/proc is not mounted, or is another pid namespace's");
	spoor_check_advise(c, SPOOR_PROC_ADVICE);
}

static void check_clocks(struct spoor_check *c)
{
	if (spoor_clocks_are_the_kernels()) {
		spoor_check_set(c, SPOOR_CHECK_OK, "those that the kernel's events have");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_NO, SPOOR_CLOCKS_WRONG);
	spoor_check_advise(c, SPOOR_CLOCKS_ADVICE);
}

static void check_cap_bpf(struct spoor_check *c)
{
	check_capability(c, CAP_BPF, SPOOR_CHECK_NO, "loads BPF programs");
}

static void check_cap_perfmon(struct spoor_check *c)
{
	check_capability(c, CAP_PERFMON, SPOOR_CHECK_NO, "attaches them and reads the memory of traced programs");
}

static void check_cap_sys_ptrace(struct spoor_check *c)
{
	check_capability(c, CAP_SYS_PTRACE, SPOOR_CHECK_LIMITED, "looks into processes of other users");
}

static void check_cap_dac_read_search(struct spoor_check *c)
{
	check_capability(c, CAP_DAC_READ_SEARCH, SPOOR_CHECK_LIMITED,
			 "reads programs and libraries that only others may read");
}

static void check_kernel(struct spoor_check *c)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 1)) {
		spoor_check_set(c, SPOOR_CHECK_OK, "Linux %s %s", u.release, u.machine);
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED, "Linux %s is older than Spoor is tested on", u.release);
	spoor_check_advise(c, "use Linux 6.1 or newer");
}

static void check_btf(struct spoor_check *c)
{
	int r = spoor_kernel_btf();
	struct stat st;

	if (!r && !stat(SPOOR_BTF, &st)) {
		spoor_check_set(c, SPOOR_CHECK_OK, "the kernel's type information: %jd KiB",
				(intmax_t)st.st_size / 1024);
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_NO, SPOOR_BTF ": %s", r == -EINVAL ? "it makes no sense" : strerror(-r));
	spoor_check_advise(c, r == -ENOENT || r == -EINVAL ?
				      "use a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's have it), and mount /sys" :
				      "run as root");
}

static void check_lockdown(struct spoor_check *c)
{
	char found[128];

	if (!spoor_kernel_locked_down(SPOOR_LOCKDOWN, found, sizeof(found))) {
		spoor_check_set(c, SPOOR_CHECK_OK, "%s", found);
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_NO, "%s: the kernel lets no BPF program read memory", found);
	spoor_check_advise(c, SPOOR_LOCKDOWN_ADVICE);
}

static void check_jit(struct spoor_check *c)
{
	char line[32] = "";
	int err = read_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof(line));

	if (err == -EACCES || err == -EPERM) {
		spoor_check_set(c, SPOOR_CHECK_OK, "only root may see whether BPF programs are compiled");
	} else if (!err && *line != '0') {
		spoor_check_set(c, SPOOR_CHECK_OK, "BPF programs are compiled to machine code");
	} else {
		spoor_check_set(c, SPOOR_CHECK_LIMITED,
				"BPF programs are interpreted: recording costs several times more");
		spoor_check_advise(c, "sysctl net.core.bpf_jit_enable=1");
	}
}

/* What the rows of programs and the rings may take; a recording of ordinary programs stays below it. */
#define MEMORY_WANTED_KIB (256 << 10)

static void check_memory(struct spoor_check *c)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	spoor_check_set(c, kib < MEMORY_WANTED_KIB ? SPOOR_CHECK_LIMITED : SPOOR_CHECK_OK, "%" PRIu64 " MiB available",
			kib >> 10);
	if (c->state != SPOOR_CHECK_OK)
		spoor_check_advise(c, "a recording of large programs wants %d MiB", MEMORY_WANTED_KIB >> 10);
}

static void check_memlock(struct spoor_check *c)
{
	struct rlimit limit = {};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		spoor_check_set(c, SPOOR_CHECK_OK, "no limit of locked memory");
	else
		/* Since Linux 5.11 BPF memory counts towards the cgroup; the buffers check has really got some. */
		spoor_check_set(c, SPOOR_CHECK_OK, "%ju KiB (BPF memory counts towards the cgroup instead)",
				(uintmax_t)limit.rlim_cur >> 10);
}

/* A child that is as closed to us as a process of another user, whoever we are. Killed and reaped by its caller. */
static pid_t start_closed_child(void)
{
	int fds[2];
	char byte;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 0);
		close(fds[1]);
		pause();
		_exit(0);
	}
	close(fds[1]);
	if (pid > 0)
		(void)!read(fds[0], &byte, 1); /* returns when the child has closed its end */
	close(fds[0]);
	return pid < 0 ? -errno : pid;
}

static int look_into_closed_child(void)
{
	pid_t pid = start_closed_child();
	char path[64], target[16];
	int err;

	if (pid < 0)
		return pid;
	/* Not maps, which newer kernels show to CAP_PERFMON: its files are opened through such links. */
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	err = readlink(path, target, sizeof(target)) < 0 ? -errno : 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return err;
}

static void check_other_processes(struct spoor_check *c)
{
	int err = look_into_closed_child();
	char scope[32] = "none";

	read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	if (!err) {
		spoor_check_set(c, SPOOR_CHECK_OK,
				"files of other users' processes can be opened (yama ptrace_scope: %s)", scope);
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED, "files of other users' processes: %s", strerror(-err));
	spoor_check_advise(c, "run as root or with CAP_SYS_PTRACE");
}

/* Any mapped file of our own will do: its link is what a deleted library of a traced program is read through. */
static int open_own_mapping(void)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/self/maps", "re");
	char line[512], range[64], path[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (!strchr(line, '/') || sscanf(line, "%63s", range) != 1)
			continue;
		snprintf(path, sizeof(path), "/proc/self/map_files/%s", range);
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		return fd < 0 ? -errno : fd;
	}
	return -ENOENT;
}

static void check_map_files(struct spoor_check *c)
{
	_cleanup_(spoor_closep) int fd = open_own_mapping();

	if (fd >= 0) {
		spoor_check_set(c, SPOOR_CHECK_OK,
				"files that were deleted or replaced are read through /proc/PID/map_files");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED,
			"/proc/PID/map_files: %s: files that were deleted or replaced have no names", strerror(-fd));
	spoor_check_advise(c, "run as root or with CAP_CHECKPOINT_RESTORE");
}

static void check_pid_namespace(struct spoor_check *c)
{
	/* PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h */
	const ino_t initial = 0xeffffffc;
	struct stat st;

	if (!stat("/proc/self/ns/pid", &st) && st.st_ino == initial) {
		spoor_check_set(c, SPOOR_CHECK_OK, "the host's own: process ids are what they seem");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED,
			"this is a container: process ids in a trace are the host's, those for -p its own");
	spoor_check_advise(c, "record on the host if they are to be the same");
}

static void check_run_time(struct spoor_check *c)
{
	_cleanup_(spoor_closep) int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd >= 0) {
		spoor_check_set(c, SPOOR_CHECK_OK, "the kernel can measure what Spoor's programs cost");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED, "the kernel does not tell what Spoor's programs cost: %s",
			strerror(-fd));
	spoor_check_advise(c, "run as root or with CAP_SYS_ADMIN");
}

static void check_tracefs(struct spoor_check *c)
{
	struct statfs fs;

	/* TRACEFS_MAGIC */
	if (!statfs("/sys/kernel/tracing", &fs) && fs.f_type == 0x74726163)
		spoor_check_set(c, SPOOR_CHECK_OK, "mounted (not needed)");
	else
		spoor_check_set(c, SPOOR_CHECK_OK, "not mounted (not needed)");
}

static void check_debuginfo(struct spoor_check *c)
{
	if (!access("/usr/lib/debug/.build-id", R_OK)) {
		spoor_check_set(c, SPOOR_CHECK_OK, "separate debug files in /usr/lib/debug");
		return;
	}
	spoor_check_set(c, SPOOR_CHECK_LIMITED,
			"no separate debug files: stripped programs show module+offset, no lines");
	spoor_check_advise(c, "install the -dbgsym or -dbg packages of what you record, e.g. libc6-dbg");
}

typedef void check_fn(struct spoor_check *c);
static const struct {
	const char *name;
	check_fn *run;
} before_bpf[] = {
	{ "kernel", check_kernel },
	{ "proc", check_proc },
	{ "clocks", check_clocks },
	{ "cap_bpf", check_cap_bpf },
	{ "cap_perfmon", check_cap_perfmon },
	{ "cap_sys_ptrace", check_cap_sys_ptrace },
	{ "cap_dac_read_search", check_cap_dac_read_search },
	{ "lockdown", check_lockdown },
	{ "btf", check_btf },
	{ "jit", check_jit },
	{ "memlock", check_memlock },
	{ "memory", check_memory },
}, after_bpf[] = {
	{ "run_time", check_run_time },
	{ "processes", check_other_processes },
	{ "map_files", check_map_files },
	{ "pid_namespace", check_pid_namespace },
	{ "tracefs", check_tracefs },
	{ "debuginfo", check_debuginfo },
};

size_t spoor_check_machine(struct spoor_check *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof(before_bpf) / sizeof(*before_bpf) && n < max; i++, n++) {
		ret[n] = (struct spoor_check){ .name = before_bpf[i].name };
		before_bpf[i].run(&ret[n]);
	}
	n += spoor_check_bpf(ret + n, max - n);
	for (size_t i = 0; i < sizeof(after_bpf) / sizeof(*after_bpf) && n < max; i++, n++) {
		ret[n] = (struct spoor_check){ .name = after_bpf[i].name };
		after_bpf[i].run(&ret[n]);
	}
	return n;
}

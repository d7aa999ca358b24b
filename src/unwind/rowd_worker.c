/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/rowd_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "object/identity.h"
#include "unwind/row_file.h"

#define SOCK_FD 3
#define NOBODY 65534
#define MAX_OBJECT ((off_t)4 << 30)
#define MAX_MEMORY ((rlim_t)8 << 30)
#define MAX_FILTER 256 /* instructions */

/* Sanitizers need address space and system calls of their own. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static const int allowed[] = {
	SCMP_SYS(brk), SCMP_SYS(close), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(fstat), SCMP_SYS(getrandom),
	SCMP_SYS(madvise), SCMP_SYS(memfd_create), SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(newfstatat),
	SCMP_SYS(pread64), SCMP_SYS(sendmsg), SCMP_SYS(sysinfo), SCMP_SYS(write),
};

struct filter {
	struct sock_filter code[MAX_FILTER];
	struct sock_fprog program;
};

int spoor_rowd_send(int sock, const int *fds, int n)
{
	return spoor_fds_send(sock, "", 1, fds, n, 0);
}

int spoor_rowd_receive(int sock, int *ret_fds, int n)
{
	int fds[SPOOR_FDS_MOST], count = 0;
	char byte;
	ssize_t r = spoor_fds_receive(sock, &byte, 1, fds, SPOOR_FDS_MOST, &count, 0);

	if (r <= 0)
		return r ? (int)r : -ECONNRESET;
	if (count == n) {
		memcpy(ret_fds, fds, n * sizeof(int));
		return 0;
	}
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return -EBADMSG;
}

/*
 * The file is copied before anything looks at it: it may change meanwhile, and the rows must be those of the content
 * whose hash they are stored under.
 */
static int copy_object(int fd, void **ret, size_t *ret_size)
{
	size_t done = 0;
	struct stat st;
	ssize_t n;
	char *mem;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !st.st_size || st.st_size > MAX_OBJECT)
		return -EFBIG;
	mem = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return -ENOMEM;
	while (done < (size_t)st.st_size) {
		n = pread(fd, mem + done, st.st_size - done, done);
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += n;
	}
	*ret = mem;
	*ret_size = done;
	return 0;
}

static int compile(int object)
{
	struct spoor_row_file nothing = {
		.magic = SPOOR_ROW_FILE_MAGIC,
		.version = SPOOR_ROW_FILE_VERSION,
		.header_size = sizeof(nothing),
		.size = sizeof(nothing),
	};
	struct spoor_rows rows = { .mem = &nothing, .mem_size = sizeof(nothing) };
	struct spoor_object_identity id;
	struct spoor_row_file *file;
	void *image = NULL;
	size_t size = 0;
	int r;

	r = copy_object(object, &image, &size);
	if (r < 0)
		return r;
	r = spoor_object_identify_mem(image, size, &id);
	if (r < 0)
		return r;
	r = spoor_rows_compile(image, size, &rows, NULL);
	if (r < 0 && r != -ENODATA && r != -EBADMSG && r != -ENOEXEC)
		return r;
	file = rows.mem;
	file->error = -r;
	file->object_hash[0] = id.hash[0];
	file->object_hash[1] = id.hash[1];
	file->object_size = id.size;
	file->checksum = spoor_row_file_checksum(file, rows.mem_size);
	return spoor_row_file_share(&rows);
}

static void limit(int what, rlim_t value)
{
	setrlimit(what, &(struct rlimit){ value, value });
}

static _Noreturn void work(int object, int reply, const struct filter *filter)
{
	int rows;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(SOCK_FD);
	alarm(SPOOR_ROWD_SECONDS);
	if (filter && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program) < 0)
		_exit(1);
	rows = compile(object);
	if (rows < 0 || spoor_rowd_send(reply, &rows, 1) < 0)
		_exit(1);
	_exit(0);
}

/*
 * No executable memory, no sockets, no paths, no other processes, also not by fcntl: the worker may be root. What is
 * not allowed fails and does not kill: another C library may try something harmless.
 */
static int add_rules(scmp_filter_ctx ctx)
{
	size_t i;
	int r;

	for (i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
		if (r < 0)
			return r;
	}
	r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS));
	if (r < 0)
		return r;
	r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r < 0)
		return r;
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Made once and kept as a program: a worker then loads it with one system call. */
static int make_filter(struct filter *filter)
{
	_cleanup_(spoor_closep) int fd = memfd_create("filter", MFD_CLOEXEC);
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	ssize_t n;
	int r;

	r = ctx && fd >= 0 ? add_rules(ctx) : -ENOMEM;
	if (r == 0)
		r = seccomp_export_bpf(ctx, fd);
	seccomp_release(ctx);
	if (r < 0)
		return r;
	n = pread(fd, filter->code, sizeof(filter->code), 0);
	if (n <= 0 || n == sizeof(filter->code))
		return -E2BIG;
	filter->program.filter = filter->code;
	filter->program.len = n / sizeof(*filter->code);
	return 0;
}

/*
 * Root that may not, as in containers, or since it has given that up, goes on as root: others are then protected by its
 * having no capabilities, and by the filter.
 */
static bool become_nobody(void)
{
	return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY);
}

static int drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = {};

	if (geteuid() == 0)
		(void)become_nobody();
	if (syscall(SYS_capset, &header, none) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, 16);
	if (!SANITIZED)
		limit(RLIMIT_AS, MAX_MEMORY);
	return 0;
}

/* Rings and settings of the kernel side, buffers of programs, what the process we come from tells its watcher. */
static int unmap_shared(void)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128], shared;
	unsigned long begin, end;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*3c%c", &begin, &end, &shared) == 3 && shared == 's')
			munmap((void *)begin, end - begin);
	return 0;
}

/* Nothing of the process we come from stays: shared memory, descriptors, signals, terminal. */
static int detach(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i;
	sigset_t none;

	if (null < 0 || unmap_shared() < 0)
		return -errno;
	/* Out of the way of the numbers that are about to be replaced. */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, SOCK_FD + 1);
	if (sock < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || (!SANITIZED && dup2(null, 2) < 0) ||
	    dup2(sock, SOCK_FD) < 0 || close_range(SOCK_FD + 1, ~0U, 0) < 0)
		return -errno;
	setsid();
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){}); /* who starts it anew may be in a hurry */
	for (i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "spoor-rows");
	return 0;
}

static int serve_one(const struct filter *filter)
{
	int fds[2] = { -1, -1 }, r;
	pid_t pid;

	r = spoor_rowd_receive(SOCK_FD, fds, 2);
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0) {
		limit(RLIMIT_CPU, SPOOR_ROWD_SECONDS);
		work(fds[0], fds[1], filter);
	}
	close(fds[0]);
	close(fds[1]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

_Noreturn void spoor_rowd_serve(int sock)
{
	static struct filter filter;

	if (detach(sock) < 0 || make_filter(&filter) < 0 || drop_privileges() < 0)
		_exit(1);
	while (serve_one(SANITIZED ? NULL : &filter) == 0)
		;
	_exit(0);
}

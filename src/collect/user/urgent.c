/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/urgent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/control/protocol.h"
#include "base/cleanup.h"
#include "base/process.h"

static bool has_urgent(uint64_t set)
{
	return set >> (SIGURG - 1) & 1;
}

/* Is SIGURG in that set of /proc/PROCESS/status? 1, 0, or -ESRCH. */
static int has_signal(const char *process, const char *set)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%s/status", process);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, set, strlen(set)))
			return has_urgent(strtoull(line + strlen(set), NULL, 16));
	return -ESRCH;
}

bool spoor_urgent_is_handled(uint32_t pid)
{
	char process[16];

	snprintf(process, sizeof(process), "%u", pid);
	return has_signal(process, "SigCgt:") == 1;
}

/* 1, 0, or -ESRCH. While it is in sigwait() a thread does not block what it waits for. */
static int thread_blocks_it(uint32_t pid, uint32_t tid)
{
	char thread[48];

	snprintf(thread, sizeof(thread), "%u/task/%u", pid, tid);
	return has_signal(thread, "SigBlk:");
}

/* Root's, or our user's. What others have mapped may be of a file system of theirs, which need not answer who reads. */
static bool may_be_read(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[256];
	unsigned uid;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u", &uid) == 1)
			return !uid || uid == geteuid();
	return false;
}

/* In sigwait() and its like. A thread that is not ours to see is believed to be elsewhere. */
static bool thread_waits_for_it(uint32_t pid, uint32_t tid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	_cleanup_(spoor_closep) int mem = -1;
	unsigned long long set_at;
	uint64_t set = 0;
	char path[64];
	long call;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", pid, tid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%ld %llx", &call, &set_at) != 2 || call != SYS_rt_sigtimedwait || !may_be_read(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/mem", pid, tid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	return mem >= 0 && pread(mem, &set, sizeof(set), (off_t)set_at) == sizeof(set) && has_urgent(set);
}

static bool reads_it(uint32_t pid)
{
	_cleanup_(spoor_closedirp) DIR *files = NULL;
	const uint32_t tid = spoor_process_thread(pid);
	char path[96];
	struct dirent *d;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%u/fdinfo", tid);
	files = opendir(path);
	while (files && !found && (d = readdir(files))) {
		_cleanup_(spoor_fclosep) FILE *f = NULL;
		char line[256];

		if (!isdigit(d->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%u/fdinfo/%u", tid, (unsigned)atoi(d->d_name));
		f = fopen(path, "re");
		while (f && !found && fgets(line, sizeof(line), f))
			found = !strncmp(line, "sigmask:", 8) && has_urgent(strtoull(line + 8, NULL, 16));
	}
	return found;
}

enum spoor_urgent_taker spoor_urgent_find_taker(uint32_t pid)
{
	_cleanup_(spoor_closedirp) DIR *tasks = NULL;
	const bool has_first = spoor_process_thread(pid) == pid; /* it may have ended, and others go on */
	bool blocked = false, open = false;
	char path[64];
	struct dirent *d;

	if (has_first && !thread_blocks_it(pid, pid) && !thread_waits_for_it(pid, pid))
		return SPOOR_URGENT_HANDLED;
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	while (tasks && (d = readdir(tasks))) {
		uint32_t tid = (uint32_t)atoi(d->d_name);
		int r = tid && (tid != pid || has_first) ? thread_blocks_it(pid, tid) : -ESRCH;

		if (!r && thread_waits_for_it(pid, tid))
			return SPOOR_URGENT_TAKEN;
		blocked |= r == 1;
		open |= r == 0;
	}
	if (open || !blocked)
		return SPOOR_URGENT_HANDLED;
	return reads_it(pid) ? SPOOR_URGENT_TAKEN : SPOOR_URGENT_BLOCKED;
}

int spoor_urgent_send(uint32_t pid)
{
	siginfo_t info = { .si_signo = SIGURG, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)SPOOR_CONTROL_KICK;
	return syscall(SYS_rt_sigqueueinfo, pid, SIGURG, &info) ? -errno : 0;
}

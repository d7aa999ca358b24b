/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a process ended that is not ours to wait for. */
#include <linux/ioctl.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

#define EXIT_CODE_FIELD 52 /* of /proc/PID/stat */

/* linux/pidfd.h of 6.15 */
struct pidfd_info {
	__u64 mask, cgroupid;
	__u32 pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	__s32 exit_code;
};
_Static_assert(sizeof(struct pidfd_info) == 64, "");
#define PIDFD_INFO_EXIT (1ULL << 3)
#define PIDFD_GET_INFO _IOWR(0xFF, 11, struct pidfd_info)

/* Until its parent has waited for it. */
static bool of_zombie(pid_t pid, int *ret)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[2048], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	at = strrchr(line, ')'); /* of the name, which may hold anything */
	if (!at || strncmp(at, ") Z", 3))
		return false;
	for (int field = 2; at && field < EXIT_CODE_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%d", ret) == 1;
}

/* From then on, where the kernel keeps it. */
static bool of_reaped(int pidfd, int *ret)
{
	struct pidfd_info info = { .mask = PIDFD_INFO_EXIT };

	if (ioctl(pidfd, PIDFD_GET_INFO, &info) || !(info.mask & PIDFD_INFO_EXIT))
		return false;
	*ret = info.exit_code;
	return true;
}

enum spoor_program_end spoor_exit_of(pid_t pid, int pidfd)
{
	int status;

	if (pidfd < 0 || (!of_reaped(pidfd, &status) && !of_zombie(pid, &status) && !of_reaped(pidfd, &status)))
		return SPOOR_END_UNKNOWN;
	return WIFSIGNALED(status) ? SPOOR_END_KILLED : SPOOR_END_EXITED;
}

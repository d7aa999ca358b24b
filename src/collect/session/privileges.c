/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/privileges.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/session/check_bpf.h"

int spoor_privileges_check(struct spoor_error *e)
{
	bool bpf = spoor_check_capable(CAP_BPF), perfmon = spoor_check_capable(CAP_PERFMON);

	if (bpf && perfmon)
		return 0;
	return spoor_fail(e, EPERM, "%s%s%s missing: run as root, or give the capability (`spoor check` says more)",
			  bpf ? "" : "CAP_BPF", bpf || perfmon ? "" : " and ",
			  perfmon ? " is" :
			  bpf     ? "CAP_PERFMON is" :
				    "CAP_PERFMON are");
}

/*
 * SYS_ADMIN stands for BPF and PERFMON on kernels and in containers that know it only. KILL is for our row compiler,
 * which is nobody's.
 */
static const uint8_t kept[] = { CAP_BPF,  CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
				CAP_KILL };

void spoor_privileges_drop(uint64_t also)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	uint64_t keep = also;

	if (syscall(SYS_capget, &header, data))
		return;
	for (unsigned i = 0; i < sizeof(kept); i++)
		keep |= 1ULL << kept[i];
	if (!(data[1].permitted & CAP_TO_MASK(CAP_BPF)))
		keep |= 1ULL << CAP_SYS_ADMIN;
	for (int i = 0; i < 2; i++) {
		uint32_t mask = keep >> (32 * i);

		data[i].permitted &= mask;
		data[i].effective &= mask;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data))
		return; /* we go on with what we have */
}

void spoor_privileges_drop_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {};

	syscall(SYS_capset, &header, none); /* what it has not, it cannot fail to give up */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

#define HURRY 10 /* nice levels */

static const struct sched_param lowest = { .sched_priority = 1 };

void spoor_privileges_at_once(bool on)
{
	sched_setscheduler(0, on ? SCHED_RR : SCHED_OTHER, on ? &lowest : &(struct sched_param){});
}

void spoor_privileges_hurry(bool at_once)
{
	if (!at_once || sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest))
		spoor_privileges_ahead();
}

int spoor_privileges_ahead(void)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, 0);
	return errno || setpriority(PRIO_PROCESS, 0, nice - HURRY) ? INT_MAX : nice;
}

void spoor_privileges_back(int nice)
{
	if (nice != INT_MAX)
		setpriority(PRIO_PROCESS, 0, nice);
}

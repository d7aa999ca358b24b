/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/kernel/refusal.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int spoor_kernel_btf(void)
{
	struct btf *types;

	if (access(SPOOR_BTF, R_OK))
		return -errno;
	types = btf__parse_raw(SPOOR_BTF);
	if (!types)
		return -EINVAL;
	btf__free(types);
	return 0;
}

/*
 * All kernels that Spoor runs on know both functions; a locked down one hides that which reads kernel memory.
 * Without the privileges to ask, both are refused.
 */
static bool only_kernel_reads_refused(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, BPF_FUNC_probe_read_user, NULL) == 1 &&
	       libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, BPF_FUNC_probe_read_kernel, NULL) == 0;
}

static bool read_state(const char *path, char *ret, size_t size)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen(path, "re");

	if (!f || !fgets(ret, size, f))
		return false;
	ret[strcspn(ret, "\n")] = 0;
	return true;
}

bool spoor_kernel_locked_down(const char *path, char *found, size_t size)
{
	bool refused;

	if (read_state(path, found, size))
		return strstr(found, "[confidentiality]");
	refused = only_kernel_reads_refused();
	snprintf(found, size,
		 refused ? "bpf_probe_read_kernel is refused" : "not in this kernel, or securityfs is not mounted");
	return refused;
}

#define FORBIDDEN "a container or a security module forbids it: run spoor outside of it"

void spoor_kernel_who_forbids(const char *path, char *ret, size_t size)
{
	char found[64];

	if (read_state(path, found, sizeof(found)) && strstr(found, "[integrity]"))
		snprintf(ret, size,
			 "it is locked down (%s), and some kernels forbid it then: boot with lockdown=none; or "
			 FORBIDDEN, found);
	else
		snprintf(ret, size, FORBIDDEN);
}

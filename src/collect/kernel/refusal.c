/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/kernel/refusal.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * All kernels that Spoor runs on know both functions; a locked down one hides that which reads kernel memory.
 * Without the privileges to ask, both are refused.
 */
static bool only_kernel_reads_refused(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, BPF_FUNC_probe_read_user, NULL) == 1 &&
	       libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, BPF_FUNC_probe_read_kernel, NULL) == 0;
}

bool spoor_kernel_locked_down(const char *path, char *found, size_t size)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen(path, "re");
	bool refused;

	if (f && fgets(found, size, f)) {
		found[strcspn(found, "\n")] = 0;
		return strstr(found, "[confidentiality]");
	}
	refused = only_kernel_reads_refused();
	snprintf(found, size, refused ? "bpf_probe_read_kernel is refused" :
					"not in this kernel, or securityfs is not mounted");
	return refused;
}

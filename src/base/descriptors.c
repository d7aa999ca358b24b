/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/descriptors.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit before;
static bool raised;

void spoor_descriptors_raise(void)
{
	struct rlimit most;

	if (raised || getrlimit(RLIMIT_NOFILE, &before))
		return;
	most = (struct rlimit){ before.rlim_max, before.rlim_max };
	raised = !setrlimit(RLIMIT_NOFILE, &most);
}

void spoor_descriptors_restore(void)
{
	if (raised)
		setrlimit(RLIMIT_NOFILE, &before);
}

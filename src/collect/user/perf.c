/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/arena.h"

#define COUNTER(bit, name, field, type, config) { bit, name, type, config },
static const struct {
	unsigned bit;
	const char *name;
	uint32_t type, config;
} known[] = { SPOOR_PERF_CONTEXTS(COUNTER) };

static int try(uint32_t type, uint32_t config, int user_only)
{
	struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config = config };
	long fd;

	attr.exclude_kernel = attr.exclude_hv = user_only;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

static const char *why(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENODEV:
	case -EOPNOTSUPP:
		return "this machine has no such counter";
	case -EACCES:
	case -EPERM:
		return "not permitted, see /proc/sys/kernel/perf_event_paranoid";
	default:
		return strerror(-err);
	}
}

void spoor_user_perf_missing(uint32_t contexts, char *ret, size_t size)
{
	size_t n = 0;

	*ret = '\0';
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && n < size; i++) {
		int err = contexts & 1u << known[i].bit ? try(known[i].type, known[i].config, 0) : 0;

		if ((err == -EACCES || err == -EPERM) && !(SPOOR_PERF_KERNEL & 1u << known[i].bit))
			err = try(known[i].type, known[i].config, 1);
		if (err)
			n += snprintf(ret + n, size - n, "%sperf:%s stays 0: %s", n ? "; " : "", known[i].name,
				      why(err));
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "trace/syscalls.h"

struct errno_name {
	int err;
	const char *name;
};

/* The kernel's own, which a tracer sees where user space never does (include/linux/errno.h of the kernel). */
static const struct errno_name internal[] = {
	{ 512, "ERESTARTSYS" },
	{ 513, "ERESTARTNOINTR" },
	{ 514, "ERESTARTNOHAND" },
	{ 515, "ENOIOCTLCMD" },
	{ 516, "ERESTART_RESTARTBLOCK" },
	{ 517, "EPROBE_DEFER" },
	{ 518, "EOPENSTALE" },
	{ 519, "ENOPARAM" },
	{ 521, "EBADHANDLE" },
	{ 522, "ENOTSYNC" },
	{ 523, "EBADCOOKIE" },
	{ 524, "ENOTSUPP" },
	{ 525, "ETOOSMALL" },
	{ 526, "ESERVERFAULT" },
	{ 527, "EBADTYPE" },
	{ 528, "EJUKEBOX" },
	{ 529, "EIOCBQUEUED" },
	{ 530, "ERECALLCONFLICT" },
	{ 531, "ENOGRACE" },
};

/* Second names of the same number. */
static const struct errno_name aliases[] = {
	{ EWOULDBLOCK, "EWOULDBLOCK" },
	{ EDEADLOCK, "EDEADLOCK" },
	{ ENOTSUP, "ENOTSUP" },
	{ EOPNOTSUPP, "EOPNOTSUPP" },
};

#define N_ELEMENTS(a) (sizeof(a) / sizeof(*(a)))
#define LAST_ERRNO 4095

const char *spoor_errno_name(int err)
{
	for (size_t i = 0; i < N_ELEMENTS(internal); i++)
		if (internal[i].err == err)
			return internal[i].name;
	return err > 0 ? strerrorname_np(err) : NULL;
}

int spoor_errno_by_name(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(aliases); i++)
		if (!strcmp(aliases[i].name, name))
			return aliases[i].err;
	for (int err = 1; err <= LAST_ERRNO; err++) {
		const char *known = spoor_errno_name(err);

		if (known && !strcmp(known, name))
			return err;
	}
	return -ENOENT;
}

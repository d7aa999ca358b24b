/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs for which the user that we are could be anybody, since their user namespace has no such user: as they obey
 * root and their own user alone, they connect, see who is there, and hang up without a word. They are not recorded, and
 * that is told as of others that cannot be. Who has ended before we look is not seen.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/hub_internal.h"

#define NO_USER ((uid_t)-1)

static const char why[] =
	"it is of a user namespace in which this recorder's user is a stranger, whom it does not obey";

/* Where we may not look: false. */
static bool is_of_another_namespace(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return !stat("/proc/self/ns/user", &own) && !stat(path, &its) &&
	       (own.st_ino != its.st_ino || own.st_dev != its.st_dev);
}

/* Of another namespace than ours: there its lines tell of our users. */
static uid_t our_user_there(pid_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	unsigned there, here, n, us = geteuid();
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	f = fopen(path, "re");
	while (f && fscanf(f, "%u %u %u", &there, &here, &n) == 3)
		if (us >= here && us - here < n)
			return there + (us - here);
	return NO_USER;
}

bool spoor_stranger_is(const struct ucred *c)
{
	return c->uid != geteuid() && is_of_another_namespace(c->pid) && our_user_there(c->pid);
}

void spoor_stranger_left(struct hub_program *p)
{
	if (!p->spoke && !p->program && p->stranger)
		spoor_program_keep_out(p, why);
}

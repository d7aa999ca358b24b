/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/library.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libspoor-ust.so"

static int try(char *path, const char *dir, const char *below)
{
	char candidate[PATH_MAX + 64];

	snprintf(candidate, sizeof(candidate), "%s%s/" NAME, dir, below);
	return access(candidate, R_OK) || !realpath(candidate, path) ? -ENOENT : 0;
}

int spoor_ust_library(char *path)
{
	static const char *const places[] = { "", "/src/agent", "/../lib/x86_64-linux-gnu", "/../lib", "/../lib64" };
	const char *named = getenv("SPOOR_UST_LIBRARY");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (named && *named)
		return access(named, R_OK) || !realpath(named, path) ? -ENOENT : 0;
	if (n <= 0)
		return -ENOENT;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!try(path, self, places[i]))
			return 0;
	return -ENOENT;
}

/* What the environment has for `name` comes after `mine` if that is to be first, else before it. */
static void join(const char *name, const char *mine, bool first)
{
	const char *there = getenv(name);
	char *all = NULL;

	if (!there || !*there) {
		setenv(name, mine, 1);
		return;
	}
	if (asprintf(&all, "%s:%s", first ? mine : there, first ? there : mine) < 0)
		return;
	setenv(name, all, 1);
	free(all);
}

void spoor_ust_preload(const char *path)
{
	join("LD_PRELOAD", path, true);
	/* AddressSanitizer, where it is a library (gcc's), else ends a program whose first library is another. */
	join("ASAN_OPTIONS", "verify_asan_link_order=0", false);
}

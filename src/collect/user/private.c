/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/user/library.h"

int spoor_private_open(struct spoor_private_hub *p, void (*warn)(void *ctx, const char *text), void *ctx,
		       struct spoor_error *e)
{
	struct spoor_hub_options o = { .path = p->socket, .everybody = !geteuid(), .warn = warn, .ctx = ctx };
	const char *place = getenv("XDG_RUNTIME_DIR");
	int r;

	*p = (struct spoor_private_hub){};
	if (!place || strlen(place) > 40 || access(place, W_OK))
		place = "/tmp";
	snprintf(p->dir, sizeof(p->dir), "%s/spoor-ust-XXXXXX", place);
	if (!mkdtemp(p->dir)) {
		r = spoor_fail(e, errno, "%s: cannot be created: %s", p->dir, strerror(errno));
		p->dir[0] = '\0';
		return r;
	}
	if (!geteuid())
		chmod(p->dir, 0711); /* what the command runs under other users comes, too */
	snprintf(p->socket, sizeof(p->socket), "%s/socket", p->dir);
	r = spoor_hub_open(&o, &p->hub, e);
	if (r)
		spoor_private_close(p);
	return r;
}

int spoor_private_environment(const struct spoor_private_hub *p)
{
	char library[PATH_MAX];
	int r = spoor_ust_library(library);

	if (!r)
		spoor_ust_preload(library);
	setenv(SPOOR_CONTROL_VARIABLE, p->socket, 1);
	unsetenv("SPOOR_UST_OUTPUT");
	return r;
}

void spoor_private_close(struct spoor_private_hub *p)
{
	spoor_hub_close(p->hub);
	if (p->dir[0])
		rmdir(p->dir);
	*p = (struct spoor_private_hub){};
}

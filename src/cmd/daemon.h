/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The daemon, and the commands that it takes from `spoor ust`. */
#include <limits.h>

#include "collect/user/hub.h"

struct spoor_daemon {
	struct spoor_hub *hub;
	struct spoor_relay_client *relay; /* NULL: traces are written here */
	uint64_t saved; /* ns: when the state was written, or could not be */
	bool unsaved;   /* it could not */
	char socket[PATH_MAX], state[PATH_MAX + 8], cache[PATH_MAX];
};

/* Writes the state, for the next daemon; where that cannot be it is tried again. */
int spoor_daemon_save(struct spoor_daemon *d, struct spoor_error *e);
/* text: words separated by NULs, as typed behind `spoor ust`. */
void spoor_daemon_command(void *daemon, struct spoor_hub *h, const char *text, size_t len, struct spoor_hub_request *q);
/* The rest of an `end`: the relay has all, or was waited for. */
void spoor_daemon_ended(void *daemon, struct spoor_hub *h, struct spoor_ust_session *s, struct spoor_hub_request *q);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What a daemon must know to go on where another one stopped, or was killed: its sessions, in a file beside the socket
 * (SOCKET.state), replaced whole by a rename. A session goes on in its trace; if that is gone, in NAME-2.spoor.
 */
#include "collect/user/hub.h"

/* Writes all sessions of the hub; removes the file if there are none. */
int spoor_state_save(struct spoor_hub *h, const char *path, struct spoor_error *e);
/* Programs have come since, of which the file does not tell yet that they came late, or not at all. */
bool spoor_state_is_old(struct spoor_hub *h);
/*
 * Makes the sessions that the file tells of; those of a relay with this one (-EINVAL: it is NULL). 0 also if there is
 * no file. Their number. -EPERM: the file is another user's.
 */
int spoor_state_load(struct spoor_hub *h, const char *path, struct spoor_relay_client *relay,
		     struct spoor_error *e);

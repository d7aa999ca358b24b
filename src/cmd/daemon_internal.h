/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A command that the daemon carries out: daemon_commands.c what changes something, daemon_end.c, daemon_status.c. */
#include "cmd/daemon.h"
#include "cmd/ust.h"
#include "cmd/ust_command.h"

struct command {
	struct spoor_daemon *d;
	struct spoor_hub *h;
	struct spoor_hub_request *q;
	bool is_new; /* the session: programs are told once it is complete */
	bool later;  /* it is answered by another */
	struct spoor_ust_command w;
	bool shown[SPOOR_UST_MOST_WORDS]; /* of its processes: told of */
};

/* Where a session's trace goes, as a person is told it. */
void spoor_daemon_where(const struct command *c, const struct spoor_ust_session *s, char *text,
			size_t size);
/* Programs that cannot be in the session: says so. */
void spoor_daemon_tell_apart(struct command *c, const struct spoor_ust_apart *apart, const char *before);
void spoor_daemon_tell_away(struct command *c, unsigned n, const char *before);
/* What the keeper has of it, or had, if that is not known. */
void spoor_daemon_tell_held(struct command *c, enum spoor_ust_held held, const char *before);
void spoor_daemon_tell_undescribed(struct command *c, uint64_t n, const char *before);
/* Why its trace is another one than it was begun with, if it is: says so. */
void spoor_daemon_tell_elsewhere(struct command *c, const char *why, const char *before);
void spoor_daemon_tell_failed_once(struct command *c, const char *why, const char *before);
/* What a command has changed is kept for the next daemon. It is done, and where that cannot be it is said. */
void spoor_daemon_keep(struct command *c);
int spoor_daemon_status(struct command *c, struct spoor_error *e);
int spoor_daemon_end(struct command *c, struct spoor_error *e);
/* The session that is meant; NULL: there is none that could be told anything. */
struct spoor_ust_session *spoor_daemon_session(struct command *c, struct spoor_error *e);

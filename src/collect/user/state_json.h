/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A session as the state file (state.h) has it, written and read. What is read is checked; nothing is opened. */
#include <jansson.h>
#include <limits.h>

#include "collect/user/session.h"

struct spoor_state_session {
	char name[256], output[PATH_MAX], command[4096], app[1024], scope[1024];
	uint8_t token[16]; /* of a trace at a relay */
	bool there;        /* it is at one, and called `output` there */
	uint32_t id;
	bool recording, ruled;
	uint32_t changes, recorded;
	unsigned late; /* programs that joined late */
	unsigned turned_away, came;
	bool held_lost;
	char failed_once[sizeof(((struct spoor_ust_session *)NULL)->why)];
	char elsewhere[sizeof(((struct spoor_ust_session *)NULL)->elsewhere)];
	struct spoor_ust_apart apart; /* who that is: spoor_state_read_apart() */
	struct spoor_source_list unwritten; /* to be freed by spoor_state_done() */
	struct spoor_ust_options o; /* points into this */
};

/* NULL: there is no memory, or a text of it is not UTF-8. */
json_t *spoor_state_write(const struct spoor_ust_session *s);
/* What packets that could not be written would have told, and how many events that was. */
void spoor_state_add_unwritten(json_t *j, const struct spoor_source_list *unwritten, uint64_t lost);
/* -EBADMSG: it makes no sense. -ENOMEM. Also then spoor_state_done() is due. */
int spoor_state_read(const json_t *j, struct spoor_state_session *ret, struct spoor_error *e);
void spoor_state_done(struct spoor_state_session *s);
void spoor_state_read_apart(const json_t *j, struct spoor_ust_session *s);
/* Programs in whose buffers something made no sense. -EBADMSG, -ENOMEM. */
int spoor_state_read_damaged(const json_t *j, struct spoor_ust_session *s);
/* Which processes had come; of these are read that live. */
void spoor_state_add_came(json_t *j, const struct spoor_ust_process *p, enum spoor_coming how);
void spoor_state_read_came(const json_t *j, struct spoor_ust_session *s);
/* The same session's rules, and which single processes record: as spoor_ust_session_rule(), or -EBADMSG. */
int spoor_state_read_rules(const json_t *j, struct spoor_ust_session *s);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What the command says of itself, beside its system calls: the part `ust` of a recording (`record --ust`). */
#include "collect/user/private.h"

struct spoor_user_part {
	struct spoor_private_hub private;
	struct spoor_ust_session *session; /* NULL: not asked for */
};

struct spoor_user_part_options {
	uint32_t contexts; /* enum spoor_arena_context */
	unsigned stack_mode, stack_budget;
	const struct spoor_scope *app, *custom; /* of call stacks */
	const char *cache_dir;
	const char *command; /* the path of what is to be executed */
};

/* Before privileges are given up. w has lanes. Sets the environment of what is executed from now on. */
int spoor_user_part_open(struct spoor_user_part *u, const struct spoor_user_part_options *o, struct spoor_writer *w,
			 struct spoor_error *e);
/* To be polled; -1: none. */
int spoor_user_part_fd(const struct spoor_user_part *u);
/* Takes what there is. Returns ms until it wants to be called again; -1: never. */
int spoor_user_part_serve(struct spoor_user_part *u);
/* The writer has begun a segment. */
void spoor_user_part_segment(struct spoor_user_part *u);
/*
 * Before the writer is closed. NULL ret is fine. meanwhile (NULL: nothing) is called while programs are waited for.
 * close() waits for those that have not read yet that it is over: when nothing else is to be done.
 */
void spoor_user_part_end(struct spoor_user_part *u, struct spoor_hub_result *ret, void (*meanwhile)(void *ctx),
			 void *ctx);
void spoor_user_part_close(struct spoor_user_part *u);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/user_part.h"

#include <errno.h>
#include <string.h>

static void warn(void *ctx, const char *text)
{
	struct spoor_user_part *u = ctx;

	if (u->session)
		spoor_ust_session_fails(u->session, text);
}

int spoor_user_part_open(struct spoor_user_part *u, const struct spoor_user_part_options *wish, struct spoor_writer *w,
			 struct spoor_error *e)
{
	struct spoor_ust_options o = {
		.name = "record",
		.writer = w,
		.n_channels = 1,
		.channels = { { .name = "default",
				.mode = SPOOR_ARENA_DISCARD,
				.share = 1,
				.contexts = wish->contexts,
				.stack_mode = wish->stack_mode,
				.stack_budget = wish->stack_budget } },
	};
	struct spoor_ust_rule all = { .rule = {
					      .enable = 1, .channels = 1, .level = SPOOR_LEVEL_NONE, .pattern = "*" } };
	struct spoor_error why = { "" };
	int r = spoor_private_open(&u->private, wish->cache_dir, warn, u, e);

	if (!r)
		r = spoor_ust_session_new(&o, 0, &u->session, e);
	if (!r)
		r = spoor_scope_copy(wish->app, &u->session->app);
	if (!r)
		r = spoor_scope_copy(wish->custom, &u->session->custom);
	if (!r)
		r = spoor_ust_session_rule(u->session, &all, e);
	if (r)
		return r;
	u->session->recording = true;
	spoor_hub_add(u->private.hub, u->session);
	if (wish->contexts & (SPOOR_CONTEXT_STACK | SPOOR_CONTEXT_IP))
		spoor_hub_begin_rows(u->private.hub);
	r = spoor_private_environment(&u->private, wish->command, &why);
	if (r == -ENOENT)
		return spoor_fail(e, ENOENT, "--ust: %s; SPOOR_UST_LIBRARY can name it", why.text);
	return r ? spoor_fail(e, -r, "--ust: %s, or leave --ust out", why.text) : 0;
}

int spoor_user_part_fd(const struct spoor_user_part *u)
{
	return u->session ? spoor_hub_fd(u->private.hub) : -1;
}

int spoor_user_part_serve(struct spoor_user_part *u)
{
	if (!u->session)
		return -1;
	spoor_hub_serve(u->private.hub);
	return spoor_hub_tick(u->private.hub);
}

void spoor_user_part_segment(struct spoor_user_part *u)
{
	if (u->session)
		spoor_hub_segment(u->private.hub, u->session);
}

void spoor_user_part_end(struct spoor_user_part *u, struct spoor_hub_result *ret, void (*meanwhile)(void *ctx),
			 void *ctx)
{
	if (!u->session)
		return;
	spoor_hub_serve(u->private.hub);
	spoor_private_call_heirs(&u->private, u->session, meanwhile, ctx);
	spoor_hub_catch_up(u->private.hub, NULL);
	spoor_hub_end(u->private.hub, u->session, ret, NULL);
	u->session = NULL; /* it is free: what the hub has to say from here on is nobody's */
	spoor_private_dismiss(&u->private);
}

void spoor_user_part_close(struct spoor_user_part *u)
{
	spoor_user_part_end(u, NULL, NULL, NULL);
	spoor_private_close(&u->private);
}

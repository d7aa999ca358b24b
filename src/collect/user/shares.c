/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/shares.h"

#include <stdlib.h>
#include <unistd.h>

struct spoor_share {
	uid_t uid;
	size_t n;
	bool said;
};

static bool is_exempt(uid_t uid)
{
	return !uid || uid == geteuid();
}

static struct spoor_share *find(struct spoor_shares *s, uid_t uid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].uid == uid)
			return &s->all[i];
	return NULL;
}

static struct spoor_share *add(struct spoor_shares *s, uid_t uid)
{
	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 8;
		void *grown = reallocarray(s->all, room, sizeof(*s->all));

		if (!grown)
			return NULL;
		s->all = grown;
		s->room = room;
	}
	s->all[s->n] = (struct spoor_share){ .uid = uid };
	return &s->all[s->n++];
}

bool spoor_shares_take(struct spoor_shares *s, uid_t uid, size_t unused)
{
	struct spoor_share *share;

	if (is_exempt(uid))
		return true;
	share = find(s, uid);
	if ((share ? share->n : 0) >= unused)
		return false;
	if (!share)
		share = add(s, uid);
	if (share)
		share->n++;
	return share;
}

void spoor_shares_give_back(struct spoor_shares *s, uid_t uid)
{
	struct spoor_share *share = is_exempt(uid) ? NULL : find(s, uid);

	if (share && !--share->n)
		*share = s->all[--s->n];
}

bool spoor_shares_say(struct spoor_shares *s, uid_t uid)
{
	struct spoor_share *share = find(s, uid);
	bool now = share && !share->said;

	if (share)
		share->said = true;
	return now;
}

void spoor_shares_done(struct spoor_shares *s)
{
	free(s->all);
	*s = (struct spoor_shares){};
}

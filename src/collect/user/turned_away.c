/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/turned_away.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/process.h"

#define SLOTS 32768 /* by process */

struct spoor_away {
	uint32_t pid;
	uint64_t start_time;
};

static bool left_silently(int sock)
{
	char byte;

	return !recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* Who has ended when we get to him is taken for the one who had his pid. */
static bool was_turned_away(struct spoor_turned_away *t, uint32_t pid)
{
	struct spoor_away now = { pid, spoor_process_start(pid) }, *slot;
	bool before;

	if (!t->last)
		t->last = calloc(SLOTS, sizeof(*t->last));
	if (!t->last)
		return false;
	slot = &t->last[pid % SLOTS];
	before = slot->pid == pid && (!now.start_time || slot->start_time == now.start_time);
	if (!before)
		*slot = now;
	return before;
}

bool spoor_turned_away_counts(struct spoor_turned_away *t, int sock, uint32_t pid)
{
	return !left_silently(sock) && !was_turned_away(t, pid);
}

void spoor_turned_away_forget(struct spoor_turned_away *t)
{
	free(t->last);
	*t = (struct spoor_turned_away){};
}

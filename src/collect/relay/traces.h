/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The traces that a relay writes: DIR/HOST/NAME.spoor. Who begins one names it; if there is one of that name already
 * that is not its own, it gets NAME-2.spoor and so on. Those of senders that are away are kept open for a while.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/relay/owner.h"
#include "collect/relay/protocol.h"
#include "trace/replica.h"

struct relay_trace {
	struct relay_trace *next;
	char host[SPOOR_RELAY_HOST], name[SPOOR_RELAY_NAME];
	struct relay_owner owner;
	struct spoor_replica *replica; /* NULL: unlocked, for its sender stays away */
	uint64_t applied;              /* the last operation of this incarnation */
	bool ended;
	bool in_order; /* then */
	void *client;  /* NULL: its sender is away */
	uint64_t left; /* ns: since when */
};

struct relay_traces {
	int dir_fd;
	char path[4096];
	struct relay_trace *first;
};

int relay_traces_open(const char *path, struct relay_traces *ret, struct spoor_error *e);
void relay_traces_close(struct relay_traces *t);

/*
 * The trace of a HELLO, begun or found. e says why not: -EACCES: another's; -ENOENT: it is not there any more; -ESTALE:
 * another sender goes on with it; errors of files. peer: who is there. digest: of one that is gone on with.
 */
int relay_traces_take(struct relay_traces *t, const struct spoor_relay_hello *h, const char *peer,
		      struct relay_trace **ret, void **ret_digest, size_t *ret_len, struct spoor_error *e);
/* One operation. 0 or -errno as of trace/replica.h. */
int relay_trace_apply(struct relay_trace *t, const struct spoor_relay_op *op);
/* Its sender has left: it is unlocked after a while (relay_traces_tick()), at once if it has ended. */
void relay_trace_leave(struct relay_traces *all, struct relay_trace *t, uint64_t now);
/* each() for those whose senders have stayed away. */
void relay_traces_tick(struct relay_traces *t, uint64_t now, uint64_t patience,
		       void (*each)(void *ctx, const struct relay_trace *t), void *ctx);
/* Of more than `most` whose senders are away those that were left first are unlocked at once. */
void relay_traces_limit(struct relay_traces *t, unsigned most, void (*each)(void *ctx, const struct relay_trace *t),
			void *ctx);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Event classes: what an arena defines under its own numbers, checked and known to the trace under one id for each
 * different class, whichever programs it came from. Not thread-safe.
 */
#include <stddef.h>
#include <stdint.h>

#include "collect/user/shares.h"
#include "trace/class.h"
#include "trace/writer.h"

struct spoor_user_class {
	struct spoor_class *def;     /* encoded */
	struct spoor_event_class *c; /* decoded from def, which it borrows from */
	uint64_t hash;
	uint16_t id; /* in the trace */
	uint16_t stack_at; /* of its events: where the id of the call stack is; 0: there is none */
	uint32_t length;   /* of its events, in bytes without padding; 0: not all have the same */
};

/* Of a class whose description makes no sense, or cannot be stored: its events, whose sizes they tell, are lost. */
extern const struct spoor_user_class spoor_user_undescribed;

/* All classes of a trace. */
struct spoor_user_classes {
	struct spoor_writer *w; /* NULL: ids are given, and nobody is told */
	uint64_t now; /* CLOCK_MONOTONIC ns: when new classes become known */
	struct spoor_user_class **all;
	size_t n, room;
	uid_t uid; /* whose the next one is */
	struct spoor_shares shares; /* of the numbers that there are */
};
void spoor_user_classes_done(struct spoor_user_classes *r);
/* Those that the writer knows already: it goes on with a trace. -ENOMEM. */
int spoor_user_classes_resume(struct spoor_user_classes *r);

/*
 * One record of definitions (`size` bytes at def, which nobody changes meanwhile) of type SPOOR_DEF_CLASS. ret: the
 * registry's. -EBADMSG: it makes no sense; -E2BIG, -EINVAL as spoor_writer_class(); -EDQUOT: its user has as many as he
 * may; -ENOMEM.
 */
int spoor_user_classes_take(struct spoor_user_classes *r, const uint8_t *def, size_t size,
			    const struct spoor_user_class **ret);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What Spoor has not yet taken from the rings when it is killed is written by another process: the rescuer, forked when
 * the recording begins. It sleeps until Spoor is no more, with the rings' memory, the trace's directories, and nothing
 * else: no descriptor of a map, a program or a link, no privileges, a session of its own.
 */
#include "base/error.h"
#include "collect/kernel/kernel.h"
#include "collect/session/ledger.h"
#include "trace/writer.h"

struct spoor_rescue {
	pid_t pid; /* 0: there is none */
};

/* While this process has one thread, nothing is attached, and nothing written but the begin. */
int spoor_rescue_start(struct spoor_rescue *r, struct spoor_kernel *k, struct spoor_writer *w, struct spoor_ledger *l,
		       struct spoor_error *e);
/* Whether it was killed since the last call. */
bool spoor_rescue_killed(struct spoor_rescue *r);
/* What there was is written: it is needed no more. */
void spoor_rescue_stop(struct spoor_rescue *r);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What verbs that serve until they are told to end have in common. */
#include "base/error.h"

/*
 * Blocks the signals that end it and returns a descriptor that is readable when one has come. A peer that is gone is
 * an error of a call, not a signal: SIGPIPE is ignored. Else -errno.
 */
int spoor_server_signals(struct spoor_error *e);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* NAME.spill beside NAME.arena: packets that a program without a daemon wrote out (agent/core/arena.h). */
#include "collect/user/arena.h"

/*
 * Adds the spilled packets to a dead arena that was read from path. *ret_fd stays open as long as the arena lives; -1:
 * there is no such file, which is no error. A packet that is in both files counts once. What is torn at the end is left
 * out; garbage ends it and is counted.
 */
int spoor_spill_add(struct spoor_user_arena *a, const char *path, int *ret_fd, struct spoor_error *e);

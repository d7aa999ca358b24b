/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The library's functions before libc's that end a program without exit() (ends.c). */
#include "agent/core/sys.h"

/* Finds those behind them, and whether the program calls ours; first: it came with them. Before an arena is made. */
void ends_begin(bool first) HIDDEN;

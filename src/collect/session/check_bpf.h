/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdbool.h>

#include "collect/session/check.h"

/* Those of the checks that load BPF programs. As spoor_check_machine(). */
size_t spoor_check_bpf(struct spoor_check *ret, size_t max);

/* Fill one result. */
void spoor_check_set(struct spoor_check *c, enum spoor_check_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void spoor_check_advise(struct spoor_check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

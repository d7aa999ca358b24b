/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A recorder's socket for programs that have called chroot(), where its path leads elsewhere: the same name without a
 * file, an abstract address. Root alone calls chroot(): it is for root's recorders.
 */
#include <stdbool.h>

#include "base/error.h"

/* The socket, which is not listened to yet, or -errno. */
int spoor_beyond_root_bind(const char *path, struct spoor_error *e);
/*
 * Such an address has no permissions: who comes by it may come if those of the path would let him. True for all other
 * listeners.
 */
bool spoor_beyond_root_lets_in(int listener, int sock);

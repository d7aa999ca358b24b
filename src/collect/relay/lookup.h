/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The addresses of a host, asked for by a thread of their own: a resolver that does not answer for half a minute holds
 * up nobody who wants to end. One thread asks, and frees.
 */
#include <netdb.h>

#include "collect/relay/endpoint.h"

struct spoor_lookup;

/* 0, or -errno. Signals are blocked in the thread as they are in the caller. */
int spoor_lookup_begin(const struct spoor_endpoint *of, struct spoor_lookup **ret);
/* Readable once there is an answer. */
int spoor_lookup_fd(const struct spoor_lookup *l);
/* Is there an answer? Then what getaddrinfo(3) returned, and the addresses, which stay its own. */
bool spoor_lookup_answered(const struct spoor_lookup *l, int *ret, const struct addrinfo **addresses);
/* The thread may go on: the last of the two frees. NULL is accepted. */
void spoor_lookup_free(struct spoor_lookup *l);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What is different in a session whose trace goes to a relay. */
#include "collect/user/session.h"

/* Sets s->sender. Of a trace that is gone on with: waits for the relay, until a signal that ends us is pending. */
int spoor_network_open(struct spoor_ust_session *s, struct spoor_error *e);
/*
 * Gives back to programs what is there. Returns how much a round may take now; 0: none is worth it, they keep it for a
 * while.
 */
size_t spoor_network_room(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n);
/* Gives back to programs what is there. */
void spoor_network_release(struct spoor_ust_session *s);
/* A round was written, or a piece of it: gives back to programs what is there. */
void spoor_network_round(struct spoor_ust_session *s);
/* What all its programs have discarded since the last look, while the relay did not have what was before. */
void spoor_network_losses(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n);
void spoor_network_counters(struct spoor_ust_session *s);
/* Something new to say about the relay? One line; s remembers that it was said. */
bool spoor_network_trouble(struct spoor_ust_session *s, char *text, size_t size);

/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* User events, as text and as JSON. */
#include "present/present.h"

/* Of a log line its words, in quotes. */
void spoor_put_format(FILE *out, const char *before, const struct spoor_event_class *c);
/* "provider:event number=5 text=\"hello\" colour=RED {cpu=3}" */
void spoor_put_user(FILE *out, const struct spoor_event *ev);
/* The id of its stack, if it has one: 0 none, or lost. */
uint32_t spoor_user_stack(const struct spoor_event *ev);
/* One event as a line of JSON. 0 or -EPIPE. */
int spoor_put_user_json(struct spoor_view *v, const struct spoor_event *ev);

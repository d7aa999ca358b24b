/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Who the threads of a traced program are: the host's tid of each, and its SPOOR_EV_THREAD in the trace. */
#include "collect/user/taker.h"

/* A number that the kernel gives to no thread, and never the same. */
uint32_t spoor_nobodys_tid(void);
/* The host's tid of what the program calls `tid`. Notes it, if it is new, for spoor_source_define(). */
uint32_t spoor_source_tid(struct spoor_source *s, uint32_t tid);
/* Writes definitions of threads that were noted since. ts: of them, ns. */
void spoor_source_define(struct spoor_source *s, struct spoor_writer *w, uint64_t ts);
/* A segment began: a thread is defined again when its next event comes, under the number that it had. */
void spoor_source_forget(struct spoor_source *s);

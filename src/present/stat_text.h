/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Counters of system calls as tables, histograms, a tree of processes, JSON. */
#include <stdio.h>

#include "analyze/counters.h"

struct spoor_stat_view {
	enum spoor_stat_level level;
	enum spoor_stat_sort sort;
	uint8_t histogram;
	uint8_t errors;
	uint8_t by_site;
	uint8_t json;    /* one object, in one line */
	uint8_t blocked; /* time blocked was measured: show it */
	uint8_t delta;   /* the counters are a difference: say which span */
	uint8_t colour;
	uint8_t utf8;   /* the reader's terminal takes it: spoor_stat_utf8() */
	unsigned width; /* columns; 0: as wide as it comes */

	/*
	 * For by_site: the name of a call site (malloc()ed, any bytes; NULL: out of memory), and its frames as the
	 * value of a JSON member (may be NULL). present/stat_sites.h has both for stacks of a segment.
	 */
	char *(*site)(void *p, pid_t pid, uint32_t stack);
	void (*site_json)(void *p, FILE *out, pid_t pid, uint32_t stack);
	void *p;
};

/* Prints what c, thread by thread as it was taken, is when folded and sorted as the view says. 0 or -ENOMEM. */
int spoor_stat_print(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v);

/* Is this process's locale (of its environment) UTF-8? */
int spoor_stat_utf8(void);

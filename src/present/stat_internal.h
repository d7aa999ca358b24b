/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What the forms of `spoor stat` share. */
#include "present/stat_text.h"

/* Call sites by number, which then stands where stack ids stood: 1 is the first in the order of their labels. */
struct spoor_stat_labels {
	char **labels; /* owned; not yet escaped */
	size_t n;
	struct spoor_stat_stack { /* one that has this label: for its frames */
		pid_t pid;
		uint32_t stack;
	} * stacks;
};

/* c with sites for stacks. 0 or -ENOMEM. */
int spoor_stat_label(const struct spoor_counters *c, const struct spoor_stat_view *v, struct spoor_counters *ret,
		     struct spoor_stat_labels *ret_labels);
void spoor_stat_labels_done(struct spoor_stat_labels *l);
const char *spoor_stat_label_of(const struct spoor_stat_labels *l, uint32_t site);

enum spoor_stat_column {
	SPOOR_STAT_SHARE,
	SPOOR_STAT_SECONDS,
	SPOOR_STAT_USECS,
	SPOOR_STAT_CALLS,
	SPOOR_STAT_ERRORS,
	SPOOR_STAT_NAME,
	SPOOR_STAT_ON_CPU,
	SPOOR_STAT_BLOCKED,
	SPOOR_STAT_MAX,
	SPOOR_STAT_COLUMNS,
};
extern const char *const spoor_stat_headings[SPOOR_STAT_COLUMNS];

/* One row's text, all of it plain ASCII. */
struct spoor_stat_row {
	char cells[SPOOR_STAT_COLUMNS][48];
	char note[160]; /* "(1 in flight, 3.02 s so far)" or "" */
};
/* share: in hundredths of a per cent. */
void spoor_stat_format(const struct spoor_call_counters *c, uint32_t share, struct spoor_stat_row *ret);
/* Is this column shown, and is it aligned to the left? */
int spoor_stat_has_column(const struct spoor_stat_view *v, unsigned column);
int spoor_stat_is_left(unsigned column);

/* Bytes of the traced side for a terminal; what is not ASCII only if it can show it. */
size_t spoor_stat_escape(const char *s, size_t len, int utf8, char *buf, size_t size);
void spoor_stat_put_text(FILE *out, const struct spoor_stat_view *v, const char *s, size_t len);

/* The forms; c is folded and sorted. 0 or -ENOMEM. */
int spoor_stat_put_table(FILE *out, const struct spoor_task_counters *t, const struct spoor_stat_view *v,
			 const struct spoor_stat_labels *labels);
int spoor_stat_put_tree(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v);
void spoor_stat_put_histogram(FILE *out, const struct spoor_call_counters *c, const char *site,
			      const struct spoor_stat_view *v);
/* by_site: the same tasks with their calls by site; else NULL. */
void spoor_stat_put_json(FILE *out, const struct spoor_counters *c, const struct spoor_counters *by_site,
			 const struct spoor_stat_view *v, const struct spoor_stat_labels *labels);

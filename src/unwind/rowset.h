/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What the readers of unwind information fill and the table is made of: ranges of code, each with its rows, in any
 * order and overlapping as the file pleases; and the rules, each once.
 */
#include <stdbool.h>

#include "unwind/rows.h"

/* Addresses are relative to text_base: 4 GiB of text is the most an object may span. */
struct rowset_row {
	__u32 start;
	__u32 rule;
};

struct rowset_range {
	__u32 start, end;
	__u32 first, count; /* rows */
};

struct rowset {
	__u64 text_base;
	__u64 text_first; /* lowest executable address */
	__u32 n_pages;
	__u32 text_size; /* n_pages in bytes */

	struct spoor_rule *rules;
	__u32 n_rules, room_rules;
	__u32 *rule_hash; /* open addressing, 2 * SPOOR_MAX_RULES */

	struct rowset_row *rows;
	__u32 n_rows, room_rows;
	struct rowset_range *ranges;
	__u32 n_ranges, room_ranges;

	__u32 n_fdes, n_unsupported;
	bool keeps_rbx; /* rules say where rbx is */
	__u64 work; /* steps left: bounds what a small hostile file can cost */
};

#define SPOOR_MAX_RULES 65536

/* Text lies in [first, end), which spans at most 4 GiB - 64 KiB: -EBADMSG otherwise; -ENOMEM. */
int spoor_rowset_init(struct rowset *s, __u64 first, __u64 end, __u64 work);
void spoor_rowset_free(struct rowset *s);

/* Index of the rule, which is added when new; 0 (NONE) when there are too many or no work is left; -ENOMEM. */
int spoor_rowset_rule(struct rowset *s, const struct spoor_rule *rule);

/*
 * Opens the range [start, end); rows then belong to it. Returns -ERANGE when it is empty or does not begin within
 * the text; an end beyond the text is cut.
 */
int spoor_rowset_open(struct rowset *s, __u64 start, __u64 end);
/* From vaddr on, this rule. Rows of one range come in ascending order; what lies beyond the range is dropped. */
int spoor_rowset_add(struct rowset *s, __u64 vaddr, __u32 rule);

/*
 * The ranges before `first` are settled: sorted and disjoint. Settles the rest too: of two that overlap, the one that
 * begins later wins, as in a search for the nearest start; what is settled already always wins.
 */
int spoor_rowset_settle(struct rowset *s, __u32 first);

/* Makes the table in one mapping. All ranges must be settled. */
int spoor_rowset_table(const struct rowset *s, struct spoor_rows *ret);

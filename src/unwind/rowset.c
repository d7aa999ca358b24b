/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/rowset.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define HASH_SIZE (2u * SPOOR_MAX_RULES)
#define TEXT_PAGE ((__u64)1 << SPOOR_TEXT_PAGE_SHIFT)
#define MAX_TEXT (((__u64)1 << 32) - TEXT_PAGE)

static int grow(void *array, __u32 *room, __u32 needed, size_t size)
{
	void **at = array, *p;
	__u64 n = *room ? *room : 1024;

	if (needed <= *room)
		return 0;
	while (n < needed)
		n *= 2;
	if (n > UINT32_MAX)
		return -ENOMEM;
	p = realloc(*at, n * size);
	if (!p)
		return -ENOMEM;
	*at = p;
	*room = n;
	return 0;
}

int spoor_rowset_init(struct rowset *s, __u64 first, __u64 end, __u64 work)
{
	static const struct spoor_rule none;
	__u64 base = first & -TEXT_PAGE, n_pages = (end - base + TEXT_PAGE - 1) / TEXT_PAGE;
	int r;

	if (end <= first || end - base > MAX_TEXT)
		return -EBADMSG;
	*s = (struct rowset){
		.text_base = base,
		.text_first = first,
		.n_pages = n_pages,
		.text_size = n_pages * TEXT_PAGE,
		.work = work,
		.rule_hash = calloc(HASH_SIZE, sizeof(*s->rule_hash)),
	};
	r = s->rule_hash ? spoor_rowset_rule(s, &none) : -ENOMEM;
	if (r < 0)
		spoor_rowset_free(s);
	return r;
}

void spoor_rowset_free(struct rowset *s)
{
	free(s->rules);
	free(s->rule_hash);
	free(s->rows);
	free(s->ranges);
	*s = (struct rowset){ 0 };
}

int spoor_rowset_rule(struct rowset *s, const struct spoor_rule *rule)
{
	__u64 key;
	__u32 at;
	int r;

	memcpy(&key, rule, sizeof(key));
	for (at = (key * 0x9e3779b97f4a7c15) >> 47; s->rule_hash[at]; at = (at + 1) % HASH_SIZE) {
		if (!memcmp(&s->rules[s->rule_hash[at] - 1], rule, sizeof(*rule)))
			return s->rule_hash[at] - 1;
		/* Collisions may be the file's intention. */
		if (!s->work)
			return 0;
		s->work--;
	}
	if (s->n_rules == SPOOR_MAX_RULES)
		return 0;
	r = grow(&s->rules, &s->room_rules, s->n_rules + 1, sizeof(*s->rules));
	if (r < 0)
		return r;
	s->rules[s->n_rules++] = *rule;
	s->rule_hash[at] = s->n_rules;
	return s->n_rules - 1;
}

int spoor_rowset_open(struct rowset *s, __u64 start, __u64 end)
{
	int r;

	if (start < s->text_first || start - s->text_base >= s->text_size || end <= start)
		return -ERANGE;
	if (end - s->text_base > s->text_size)
		end = s->text_base + s->text_size;
	r = grow(&s->ranges, &s->room_ranges, s->n_ranges + 1, sizeof(*s->ranges));
	if (r < 0)
		return r;
	s->ranges[s->n_ranges++] = (struct rowset_range){
		.start = start - s->text_base,
		.end = end - s->text_base,
		.first = s->n_rows,
	};
	return 0;
}

int spoor_rowset_add(struct rowset *s, __u64 vaddr, __u32 rule)
{
	struct rowset_range *range = &s->ranges[s->n_ranges - 1];
	struct rowset_row *last = range->count ? &s->rows[s->n_rows - 1] : NULL;
	__u64 at = vaddr - s->text_base;
	int r;

	if (vaddr < s->text_base || at < range->start || at >= range->end || (last && at < last->start))
		return 0;
	if (last && last->rule == rule)
		return 0;
	if (last && last->start == at) {
		last->rule = rule;
		return 0;
	}
	r = grow(&s->rows, &s->room_rows, s->n_rows + 1, sizeof(*s->rows));
	if (r < 0 || !s->rows)
		return -ENOMEM;
	s->rows[s->n_rows++] = (struct rowset_row){ at, rule };
	range->count++;
	return 0;
}

static int by_start(const void *va, const void *vb)
{
	const struct rowset_range *a = va, *b = vb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static void sort_ranges(struct rowset_range *ranges, __u32 n)
{
	__u32 i;

	for (i = 1; i < n; i++)
		if (by_start(&ranges[i - 1], &ranges[i]) > 0)
			break;
	if (i < n)
		qsort(ranges, n, sizeof(*ranges), by_start);
}

/* Of equal starts the first stays. Returns how many are left. */
static __u32 remove_overlaps(struct rowset_range *ranges, __u32 n)
{
	__u32 i, kept = 0;

	for (i = 0; i < n; i++) {
		if (kept && ranges[kept - 1].start == ranges[i].start)
			continue;
		if (kept && ranges[kept - 1].end > ranges[i].start)
			ranges[kept - 1].end = ranges[i].start;
		ranges[kept++] = ranges[i];
	}
	return kept;
}

/* Appends to out what `range` covers and the sorted `old` do not; *from moves up in old. Returns the new length. */
static __u32 subtract(const struct rowset_range *range, const struct rowset_range *old, __u32 n_old, __u32 *from,
		      struct rowset_range *out, __u32 n_out)
{
	struct rowset_range rest = *range;
	__u32 i;

	while (*from < n_old && old[*from].end <= rest.start)
		(*from)++;
	for (i = *from; i < n_old && old[i].start < rest.end; i++) {
		if (old[i].start > rest.start) {
			out[n_out] = rest;
			out[n_out++].end = old[i].start;
		}
		rest.start = old[i].end;
		if (rest.start >= rest.end)
			return n_out;
	}
	out[n_out++] = rest;
	return n_out;
}

int spoor_rowset_settle(struct rowset *s, __u32 first)
{
	_cleanup_(spoor_freep) struct rowset_range *all = NULL;
	__u32 i, n, from = 0, n_more;

	if (s->n_ranges == first)
		return 0;
	sort_ranges(s->ranges + first, s->n_ranges - first);
	n_more = remove_overlaps(s->ranges + first, s->n_ranges - first);
	if (!first) {
		s->n_ranges = n_more;
		return 0;
	}

	/* Each piece ends where a new or an old range ends or an old one begins. */
	all = calloc(2 * (size_t)first + n_more, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, s->ranges, first * sizeof(*all));
	for (n = first, i = first; i < first + n_more; i++)
		n = subtract(&s->ranges[i], s->ranges, first, &from, all, n);
	sort_ranges(all, n);
	free(s->ranges);
	s->ranges = TAKE_PTR(all);
	s->n_ranges = s->room_ranges = n;
	return 0;
}

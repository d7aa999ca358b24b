/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <sys/mman.h>

#include "agent/core/output.h"
#include "agent/core/ranges.h"

#define MOST 32 /* more are left lying: they are only addresses */

static struct range {
	char *begin;
	uint64_t size;
	unsigned first_slot, n_slots;
	uint32_t generations[SPOOR_SLOTS]; /* as of then */
} ranges[MOST];
static unsigned n_ranges;

/* Who was taking a packet there has done so: his slot is nobody's, or has been another arena's meanwhile. */
static bool slots_left(const struct range *r)
{
	unsigned i;

	for (i = 0; i < r->n_slots; i++) {
		const struct slot *s = &slots[r->first_slot + i];

		if (slot_generation(s) == r->generations[i] && __atomic_load_n(&s->users, __ATOMIC_SEQ_CST))
			return false;
	}
	return true;
}

char *range_take(uint64_t size, uint64_t *ret_size)
{
	unsigned i;

	for (i = 0; i < n_ranges; i++) {
		struct range r = ranges[i];

		if (r.size < size || !slots_left(&r) || !blocks_left(r.begin, r.begin + r.size))
			continue;
		ranges[i] = ranges[--n_ranges];
		*ret_size = r.size;
		return r.begin;
	}
	return NULL;
}

void range_blank(char *begin, uint64_t size)
{
	sys6(SYS_mmap, (long)begin, (long)size, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* The smallest, if it is smaller: who comes finds room in the larger one, and none has to be had anew each time. */
static struct range *smallest_below(uint64_t size)
{
	struct range *found = NULL;
	unsigned i;

	for (i = 0; i < n_ranges; i++)
		if (ranges[i].size < (found ? found->size : size))
			found = &ranges[i];
	return found;
}

void range_retire(char *begin, uint64_t size, unsigned first_slot, unsigned n_slots)
{
	struct range *r = n_ranges < MOST ? &ranges[n_ranges] : smallest_below(size);
	unsigned i;

	range_blank(begin, size);
	if (!r)
		return;
	*r = (struct range){ .begin = begin, .size = size, .first_slot = first_slot, .n_slots = n_slots };
	for (i = 0; i < n_slots; i++)
		r->generations[i] = slot_generation(&slots[first_slot + i]);
	if (n_ranges < MOST)
		n_ranges++;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/written.h"

#include <string.h>

void spoor_written_sum(struct spoor_source_list *w, struct spoor_written_sum *ret)
{
	static const uint8_t none[16];

	*ret = (struct spoor_written_sum){ .events = spoor_source_list_find(w, none, SPOOR_SOURCE_EVENTS),
					   .overwritten = spoor_source_list_find(w, none, SPOOR_SOURCE_OVERWRITTEN),
					   .late = spoor_source_list_find(w, none, SPOOR_SOURCE_LATE),
					   .undescribed = spoor_source_list_find(w, none, SPOOR_SOURCE_UNDESCRIBED) };
	for (size_t i = 0; i < w->n; i++) {
		const uint8_t *uuid = w->all[i].arena;

		if (!memcmp(uuid, none, 16) || (i && !memcmp(uuid, w->all[i - 1].arena, 16)))
			continue;
		ret->programs++;
		ret->lost += spoor_source_list_find(w, uuid, SPOOR_SOURCE_LOST);
	}
}

void spoor_written_apply(struct spoor_source_list *w, struct spoor_user_arena *a)
{
	uint64_t taken = w->n ? spoor_source_list_find(w, a->head.uuid, SPOOR_SOURCE_TAKEN) : 0;

	if (taken > a->taken)
		a->taken = taken;
	for (unsigned i = 0; i < a->n_packets && w->n; i++) {
		uint64_t serial = __atomic_load_n(&a->headers[i].serial, __ATOMIC_ACQUIRE);
		uint64_t position = serial ? spoor_source_list_find(w, a->head.uuid, serial) : 0;

		if (!position || position % 8 || position > a->packets[i].size)
			continue;
		spoor_user_packet_resume(a, i, serial, position);
	}
}

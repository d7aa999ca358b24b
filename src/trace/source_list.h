/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Where the events of a trace were taken from, as its packets say: of each packet of a buffer how far, and of each
 * count the greatest. {} is an empty list. Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/schema.h"

struct spoor_source_list {
	struct spoor_packet_source *all;
	size_t n, room;
	bool unsorted; /* there may be several of one packet */
};
/* One more. list: the list; so it can be what is called for each source of a trace. 0 or -ENOMEM. */
int spoor_source_list_add(const struct spoor_packet_source *source, void *list);
/* All of another list. */
int spoor_source_list_add_all(struct spoor_source_list *l, const struct spoor_source_list *from);
/* By buffer and serial, one of each. */
void spoor_source_list_sort(struct spoor_source_list *l);
/* The position of that packet or count; 0: there is none. */
uint64_t spoor_source_list_find(struct spoor_source_list *l, const uint8_t arena[16], uint64_t serial);
/* Is there anything of this buffer? */
bool spoor_source_list_knows(struct spoor_source_list *l, const uint8_t arena[16]);
/* Nothing is left of this buffer. */
void spoor_source_list_forget(struct spoor_source_list *l, const uint8_t arena[16]);
/* Leaves only the counts. */
void spoor_source_list_forget_packets(struct spoor_source_list *l);
/* Frees what is in it. */
void spoor_source_list_done(struct spoor_source_list *l);

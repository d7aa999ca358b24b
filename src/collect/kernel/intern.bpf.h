/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Interning: content is known by a 64-bit hash, events name it by a small id, and the definition is emitted once per
 * segment. Which id a hash has stands in a table that all CPUs share: a hash may lie in eight slots, four of a cache
 * line, and without a lock:
 *
 *     slot   +--------------------+---------------+---------------+
 *            | check: hash ^ data | data: id      | segment       |
 *            +--------------------+---------------+---------------+
 *
 * Where two CPUs write the same slot at once, check and data of different ones may meet: that is no hash's slot any
 * more (Hyatt, Mann: A lockless transposition table, 2002). What is displaced or lost so is defined again under another
 * id.
 */
#include "collect/kernel/emit.bpf.h"

#define ID_WAYS 4

struct id_bucket {
	struct {
		u64 check, data;
	} slots[ID_WAYS];
};

#define STACK_BUCKETS (1 << 16)
#define FILE_BUCKETS (1 << 14)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STACK_BUCKETS);
	__type(key, u32);
	__type(value, struct id_bucket);
} stack_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FILE_BUCKETS);
	__type(key, u32);
	__type(value, struct id_bucket);
} file_ids SEC(".maps");

static __always_inline u64 bucket_get(struct id_bucket *b, u64 hash)
{
	u64 data;
	int i;

#pragma unroll
	for (i = 0; i < ID_WAYS; i++) {
		data = *(volatile u64 *)&b->slots[i].data;
		if ((*(volatile u64 *)&b->slots[i].check ^ data) == hash && data)
			return data;
	}
	return 0;
}

static __always_inline bool bucket_put(struct id_bucket *b, u64 hash, u64 data, bool displace)
{
	u32 i, at = ID_WAYS;

#pragma unroll
	for (i = 0; i < ID_WAYS; i++)
		if (!b->slots[i].data || (b->slots[i].check ^ b->slots[i].data) == hash)
			at = i;
	if (at == ID_WAYS && !displace)
		return false;
	at = at == ID_WAYS ? hash >> 62 : at;
	at &= ID_WAYS - 1;
	*(volatile u64 *)&b->slots[at].data = data;
	*(volatile u64 *)&b->slots[at].check = hash ^ data;
	return true;
}

static __always_inline u32 first_bucket(u64 hash, u32 buckets)
{
	return hash & (buckets - 1);
}

static __always_inline u32 second_bucket(u64 hash, u32 buckets)
{
	return (hash >> 32 ^ 1) & (buckets - 1);
}

/* The id of the content with this hash, and the segment that has its definition in ret_epoch; 0: unknown. */
static __always_inline u32 id_get(void *map, u32 buckets, u64 hash, u32 *ret_epoch)
{
	u32 key = first_bucket(hash, buckets);
	struct id_bucket *b = bpf_map_lookup_elem(map, &key);
	u64 data = b ? bucket_get(b, hash) : 0;

	if (!data) {
		key = second_bucket(hash, buckets);
		b = bpf_map_lookup_elem(map, &key);
		data = b ? bucket_get(b, hash) : 0;
	}
	*ret_epoch = data >> 32;
	return data;
}

static __always_inline void id_put(void *map, u32 buckets, u64 hash, u32 id, u32 in_epoch)
{
	u32 first = first_bucket(hash, buckets), second = second_bucket(hash, buckets);
	struct id_bucket *b = bpf_map_lookup_elem(map, &first), *b2 = bpf_map_lookup_elem(map, &second);
	u64 data = (u64)in_epoch << 32 | id;

	if (!b || !b2)
		return;
	/* Where it stands already; else where there is room. */
	if (bucket_get(b2, hash))
		bucket_put(b2, hash, data, false);
	else if (!bucket_put(b, hash, data, false) && !bucket_put(b2, hash, data, false))
		bucket_put(b, hash, data, true);
}

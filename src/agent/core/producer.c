/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <linux/membarrier.h>
#include <string.h>

#include "agent/core/producer.h"
#include "agent/core/process.h"

#define BLOCKS_A_CHUNK 128
#define MAX_CHUNKS 1024
#define DEAD_EVERY 100000000 /* ns between two looks: that is a system call for each thread */

struct block nobody;
__thread struct block *block = &nobody;

static struct block *chunks[MAX_CHUNKS];
static char *scratches[MAX_CHUNKS]; /* SPOOR_SCRATCH for each block of a chunk; takes memory where it is used */
static uint32_t hint;

/* What is at *at, made if it is not there: whoever comes first. */
static void *made(void **at, size_t size)
{
	void *p = __atomic_load_n(at, __ATOMIC_ACQUIRE), *none = NULL;

	if (p)
		return p;
	p = agent_memory(size, true);
	if (p && !__atomic_compare_exchange_n(at, &none, p, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		sys3(SYS_munmap, p, size, 0);
		p = none;
	}
	return p;
}

static struct block *chunk(unsigned i)
{
	return made((void **)&chunks[i], BLOCKS_A_CHUNK * sizeof(struct block));
}

void *block_scratch(struct block *b)
{
	unsigned i;
	char *s;

	for (i = 0; !b->scratch && i < MAX_CHUNKS && chunks[i]; i++) {
		if (b < chunks[i] || b >= chunks[i] + BLOCKS_A_CHUNK)
			continue;
		s = made((void **)&scratches[i], (size_t)BLOCKS_A_CHUNK * SPOOR_SCRATCH);
		if (s)
			b->scratch = s + (size_t)(b - chunks[i]) * SPOOR_SCRATCH;
	}
	return b->scratch;
}

/* from_dead: also of threads that ended without their destructors. */
static struct block *take(uint32_t tid, unsigned n_chunks, bool from_dead)
{
	uint32_t n = n_chunks * BLOCKS_A_CHUNK, begin = __atomic_load_n(&hint, __ATOMIC_RELAXED), i;

	for (i = 0; i < n; i++) {
		uint32_t at = (begin + i) % n, owner;
		struct block *b = chunk(at / BLOCKS_A_CHUNK);

		if (!b)
			return NULL;
		b += at % BLOCKS_A_CHUNK;
		owner = block_tid(b);
		if (owner && !(from_dead && thread_is_dead(owner)))
			continue;
		if (!__atomic_compare_exchange_n(&b->tid, &owner, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		if (owner) {
			b->deeper = NULL; /* is found by itself */
			b->drafting = 0;
			memset(b->slot, 0, sizeof(b->slot));
		}
		b->index = at;
		__atomic_store_n(&hint, at + 1, __ATOMIC_RELAXED);
		return b;
	}
	return NULL;
}

static struct block *new_block(uint32_t tid, uint32_t level)
{
	struct block *b = NULL;
	unsigned n;

	for (n = 1; n < MAX_CHUNKS && __atomic_load_n(&chunks[n], __ATOMIC_ACQUIRE); n++)
		;
	b = take(tid, n, false);
	if (!b && now_and_then(&process->next_dead, DEAD_EVERY))
		b = take(tid, n, true);
	if (!b && n < MAX_CHUNKS)
		b = take(tid, n + 1, false);
	if (!b)
		return NULL;
	b->level = level;
	b->flags = 0;
	if (b->scratch)
		memset(b->scratch, 0, SPOOR_SCRATCH_OWN);
	return b;
}

struct block *block_own(void)
{
	struct block *b = block;
	unsigned i;

	if (b != &nobody && block_tid(b))
		return b;
	for (i = 0; i < SPOOR_SLOTS; i++) /* all mark it as busy on their way here */
		__atomic_store_n(&nobody.slot[i].p.busy, 0, __ATOMIC_RELAXED);
	b = new_block(sys_tid(), 0);
	if (b)
		block = b;
	return b;
}

struct block *block_deeper(struct block *b)
{
	if (!b->deeper || !block_tid(b->deeper))
		b->deeper = new_block(block_tid(b), b->level + 1);
	return b->deeper;
}

void block_share(struct block *b)
{
	unsigned i;

	__atomic_fetch_or(&b->flags, BLOCK_SHARED_TLS, __ATOMIC_RELAXED);
	for (; b; b = b->deeper)
		for (i = 0; i < SPOOR_SLOTS; i++)
			__atomic_store_n(&b->slot[i].p.end, NULL, __ATOMIC_RELAXED);
}

void blocks_free(struct block *b)
{
	while (b) {
		struct block *deeper = b->deeper;

		b->deeper = NULL;
		b->drafting = 0;
		memset(b->slot, 0, sizeof(b->slot));
		__atomic_store_n(&b->tid, 0, __ATOMIC_RELEASE);
		b = deeper;
	}
}

/* `end` is written by its owner only when it takes a packet, and a producer without it cannot write. */
void blocks_forget(unsigned first_slot, unsigned n)
{
	struct block *b;
	unsigned i, j, k;

	for (i = 0; i < MAX_CHUNKS && (b = __atomic_load_n(&chunks[i], __ATOMIC_ACQUIRE)); i++)
		for (j = 0; j < BLOCKS_A_CHUNK; j++)
			for (k = 0; block_tid(&b[j]) && k < n; k++)
				__atomic_store_n(&b[j].slot[first_slot + k].p.end, NULL, __ATOMIC_RELAXED);
}

static bool is_left(const struct block *b, const char *begin, const char *end)
{
	unsigned k;

	for (k = 0; k < SPOOR_SLOTS; k++) {
		const struct spoor_producer *p = &b->slot[k].p;

		bool busy = __atomic_load_n(&p->busy, __ATOMIC_ACQUIRE);
		const char *at = __atomic_load_n(&p->begin, __ATOMIC_RELAXED);

		if (busy && at >= begin && at < end)
			return false;
	}
	return true;
}

/* `busy` is stored before the room is looked at: whom we do not see as busy will find none. */
bool blocks_left(const char *begin, const char *end)
{
	const struct block *b;
	unsigned i, j;

	if (sys_failed(sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)))
		return false;
	for (i = 0; i < MAX_CHUNKS && (b = __atomic_load_n(&chunks[i], __ATOMIC_ACQUIRE)); i++)
		for (j = 0; j < BLOCKS_A_CHUNK; j++)
			if (block_tid(&b[j]) && !is_left(&b[j], begin, end))
				return false;
	return true;
}

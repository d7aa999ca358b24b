/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading the kernel's ring: what passes its end, wherever the kernel was when it was looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect/kernel/ring.h"

#define RING 1024

static struct spoor_kernel kernel = { .ring_size = RING };

static struct spoor_ring *new_ring(void)
{
	struct spoor_ring *ring = calloc(1, SPOOR_RING_DATA + RING + SPOOR_RING_SLACK);

	assert_non_null(ring);
	return ring;
}

/* As ring_commit() of emit.bpf.h. */
static void produce(struct spoor_ring *ring, uint32_t tid, uint16_t size)
{
	uint64_t begin = ring->head & (RING - 1);
	struct spoor_event_header *h = (void *)((uint8_t *)ring + SPOOR_RING_DATA + begin);

	*h = (struct spoor_event_header){ .size4 = size / 4, .tid = tid };
	ring->head = begin + size > RING - 1 ? (ring->head | (RING - 1)) + 1 : ring->head + size;
}

/* Reads all; how many there were, each numbered one more than the one before. */
static unsigned consume(struct spoor_ring *ring, uint32_t first, bool *ret_damaged)
{
	struct spoor_ring_reader r = spoor_ring_begin(&kernel, ring);
	const struct spoor_event_header *h;
	unsigned n = 0;

	while ((h = spoor_ring_peek(&r))) {
		assert_int_equal(h->tid, first + n++);
		spoor_ring_skip(&r, h);
	}
	*ret_damaged = r.damaged;
	spoor_ring_release(&r);
	assert_int_equal(ring->tail, ring->head);
	return n;
}

/* Records of every size that pass the end by every distance, alone and with others before and behind. */
static void test_end_of_the_ring(void **state)
{
	bool damaged;

	for (unsigned before = 0; before < 3; before++)
		for (unsigned behind = 0; behind < 3; behind++)
			for (unsigned at = RING - 256; at < RING; at += 4)
				for (unsigned size = 16; size <= 512; size += 4) {
					struct spoor_ring *ring = new_ring();

					ring->head = ring->tail = at - 16 * before;
					for (unsigned i = 0; i < before; i++)
						produce(ring, i, 16);
					produce(ring, before, size);
					for (unsigned i = 0; i < behind; i++)
						produce(ring, before + 1 + i, 28);
					assert_int_equal(consume(ring, 0, &damaged), before + 1 + behind);
					assert_false(damaged);
					free(ring);
				}
}

static void test_nonsense(void **state)
{
	struct spoor_ring *ring = new_ring();
	bool damaged;

	produce(ring, 0, 64);
	produce(ring, 1, 64);
	((struct spoor_event_header *)((uint8_t *)ring + SPOOR_RING_DATA + 64))->size4 = 2;
	assert_int_equal(consume(ring, 0, &damaged), 1);
	assert_true(damaged);
	produce(ring, 2, 64);
	((struct spoor_event_header *)((uint8_t *)ring + SPOOR_RING_DATA + 128))->size4 = 18;
	assert_int_equal(consume(ring, 2, &damaged), 0);
	assert_true(damaged);
	produce(ring, 3, 64);
	assert_int_equal(consume(ring, 3, &damaged), 1);
	assert_false(damaged);
	free(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end_of_the_ring),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

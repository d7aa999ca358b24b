/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations on their way to a relay: what is taken back was never added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "collect/relay/queue.h"

static void add(struct relay_queue *q, bool events)
{
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_PACKET };
	struct relay_cursor c = { &(struct iovec){ (void *)"1009", 4 }, 1, 0 };

	assert_int_equal(relay_queue_add(q, &op, events, &c), 0);
}

static void check(const struct relay_queue *q, uint64_t first, uint64_t last)
{
	uint64_t number = first;

	for (const struct relay_queued *k = q->first; k; k = k->next)
		assert_int_equal(k->op.head.number, number++);
	assert_int_equal(number, last + 1);
	assert_int_equal(q->added, last);
	assert_int_equal(q->last ? q->last->op.head.number : 0, first <= last ? last : 0);
	assert_int_equal(q->bytes, (last + 1 - first) * (sizeof(struct relay_queued) + 4));
}

static void test_take_back(void **state)
{
	struct relay_queue q = {};

	for (int i = 0; i < 5; i++)
		add(&q, i & 1);
	q.unsent = q.first->next->next; /* two were sent */
	assert_int_equal(relay_queue_remove(&q, 1), 0);
	relay_queue_take_back(&q, 3);
	check(&q, 2, 3);
	assert_int_equal(q.events, sizeof(struct relay_queued) + 4);
	assert_int_equal(q.unsent->op.head.number, 3);
	relay_queue_take_back(&q, 2);
	check(&q, 2, 2);
	assert_null(q.unsent);
	add(&q, true);
	check(&q, 2, 3);
	assert_ptr_equal(q.unsent, q.last);
	relay_queue_take_back(&q, 3);
	check(&q, 2, 3);
	relay_queue_clear(&q);
	check(&q, 4, 3);
	add(&q, false);
	relay_queue_take_back(&q, 3);
	check(&q, 4, 3);
	assert_null(q.first);
	assert_null(q.unsent);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_take_back) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

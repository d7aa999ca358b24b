/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Address space of arenas whose sessions are over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/membarrier.h>
#include <stdio.h>

#include "agent/core/output.h"
#include "agent/core/process.h"

#define LARGE (1ULL << 30)

static uint64_t pages_mapped(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &n), 1);
	fclose(f);
	return n;
}

/* `n` at once, which are then ended. */
static void come_and_go(uint64_t size, unsigned n)
{
	struct arena_wish wish = { .size = size, .n_channels = 1, .channels = { { .share = 1 } } };
	struct output *made[SPOOR_OUTPUTS];
	unsigned i;

	for (i = 0; i < n; i++)
		assert_int_equal(output_open(&wish, &made[i]), 0);
	while (n--)
		output_close(made[n]);
}

/* However many small ones there were before: no large one leaves its addresses lying. */
static void test_large_after_small(void **state)
{
	uint64_t before = pages_mapped();
	unsigned i;

	assert_true(process_lock());
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	for (i = 1; i <= 5; i++)
		come_and_go(i << 16, SPOOR_OUTPUTS);
	for (i = 0; i < 20; i++)
		come_and_go(LARGE, 1);
	process_unlock();
	assert_in_range(pages_mapped() - before, 0, 2 * LARGE / 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_after_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

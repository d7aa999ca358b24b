/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From rings to segments: which one an event is written to. */
#include "trace_fixture.h"

#include "base/time.h"
#include "collect/kernel/control.h"
#include "collect/session/consumer.h"
#include "collect/session/objects_internal.h"

#define RING 4096
#define STRIDE (SPOOR_RING_DATA + RING + SPOOR_RING_SLACK)

struct rings {
	struct spoor_kernel kernel;
	uint64_t epoch;
	struct spoor_objects *objects;
	struct spoor_consumer *consumer;
};

static void open_rings(struct rings *r, struct spoor_writer *w)
{
	*r = (struct rings){ .kernel = { .n_cpus = 1, .ring_size = RING, .ring_stride = STRIDE } };
	r->kernel.c.epoch = &r->epoch;
	r->kernel.rings = calloc(SPOOR_LEVELS, STRIDE);
	r->objects = calloc(1, sizeof(*r->objects));
	assert_non_null(r->kernel.rings);
	assert_non_null(r->objects);
	spoor_objects_init(r->objects);
	assert_int_equal(spoor_consumer_new(&r->kernel, r->objects, w, true, &r->consumer), 0);
}

static void close_rings(struct rings *r)
{
	spoor_consumer_free(r->consumer);
	free(r->objects);
	free(r->kernel.rings);
}

static void produce(struct rings *r, const void *record)
{
	struct spoor_ring *ring = spoor_kernel_ring(&r->kernel, 0, 0);

	memcpy((uint8_t *)ring + SPOOR_RING_DATA + ring->head, record, spoor_event_size(record));
	ring->head += spoor_event_size(record);
}

/* As the kernel side: before its first record in a segment the ring says so. */
static void produce_clock(struct rings *r, uint64_t boottime)
{
	struct spoor_ring *ring = spoor_kernel_ring(&r->kernel, 0, 0);
	struct spoor_ctl_mark mark = { .h = { .id = SPOOR_CTL_MARK, .size4 = sizeof(mark) / 4 }, .epoch = r->epoch };
	struct spoor_clock clock = { .h = { .id = SPOOR_EV_CLOCK, .size4 = sizeof(clock) / 4 }, .boottime = boottime };

	clock.h.ts = spoor_now_monotonic();
	if (ring->epoch != r->epoch)
		produce(r, &mark);
	ring->epoch = r->epoch;
	produce(r, &clock);
}

static void rotate(struct fixture *f, struct rings *r)
{
	assert_int_equal(spoor_consumer_rotate(r->consumer, &f->e), 0);
}

static void finish(struct fixture *f, struct rings *r)
{
	while (spoor_consumer_rotating(r->consumer)) {
		assert_true(spoor_consumer_drain(r->consumer, &f->e) >= 0);
		usleep(1000);
	}
}

/* A ring that says that its second segment has begun when the third one has. */
static void test_idle_for_a_segment(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	unsigned n = 0;
	struct rings r;

	open_writer(f, (struct spoor_writer_options){ .n_cpus = 1 });
	open_rings(&r, f->w);
	r.epoch = 1;
	spoor_kernel_ring(&r.kernel, 0, 0)->epoch = 1;
	rotate(f, &r);
	finish(f, &r);
	define_stack(f, spoor_now_monotonic(), 2); /* tells this segment from the others */
	produce_clock(&r, 2);
	rotate(f, &r);
	produce_clock(&r, 3);
	finish(f, &r);
	produce_clock(&r, 3);
	assert_true(spoor_consumer_drain(r.consumer, &f->e) >= 0);
	close_writer(f);
	close_rings(&r);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 3);
	while (spoor_trace_next(t, &ev) > 0) {
		const struct spoor_clock *clock = (const void *)ev.h;

		if (ev.h->id != SPOOR_EV_CLOCK || clock->realtime)
			continue; /* of the consumer's own */
		assert_int_equal(spoor_segment_stack(ev.segment, 2) != NULL, clock->boottime == 2);
		n++;
	}
	assert_int_equal(n, 3);
	spoor_trace_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_idle_for_a_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

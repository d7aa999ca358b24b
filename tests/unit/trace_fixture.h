/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A trace of our own making in a directory of its own, for tests of writer and reader. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/reader.h"
#include "trace/writer.h"

struct fixture {
	char dir[64], path[96];
	struct spoor_error e;
	struct spoor_writer *w;
};

/* A test that has one: its state is the fixture. */
#define TEST_OF_TRACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/spoor-test-XXXXXX");
	if (!f || !mkdtemp(f->dir))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/t.spoor", f->dir);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
	assert_int_equal(system(cmd), 0);
	free(f);
	return 0;
}

static inline void open_writer(struct fixture *f, struct spoor_writer_options o)
{
	o.path = f->path;
	o.n_cpus = o.n_cpus ? o.n_cpus : 2;
	assert_int_equal(spoor_writer_open(&o, &f->w, &f->e), 0);
}

static inline struct spoor_trace *open_trace(struct fixture *f)
{
	struct spoor_trace *t = NULL;

	if (spoor_trace_open(f->path, &t, &f->e) < 0)
		fail_msg("%s", f->e.text);
	return t;
}

/* read(fd 3, ..., 5): an odd number of words, so that packets need padding */
#define CALL_SIZE 68
static inline void write_calls_on(struct fixture *f, unsigned cpu, uint64_t ts, unsigned n)
{
	struct {
		struct spoor_syscall s;
		uint8_t more[CALL_SIZE - sizeof(struct spoor_syscall)];
	} *calls = calloc(n, sizeof(*calls));
	struct iovec iov = { calls, n * sizeof(*calls) };

	_Static_assert(sizeof(*calls) == CALL_SIZE, "");
	for (unsigned i = 0; i < n; i++) {
		uint8_t *data = (uint8_t *)&calls[i] + SPOOR_SYSCALL_FIXED;

		calls[i].s = (struct spoor_syscall){ .h = { .ts = ts + i, .id = 0, .size4 = CALL_SIZE / 4, .tid = 7 },
						     .pid = 7,
						     .data_len = 7,
						     .stack = 1,
						     .dur = 10,
						     .ret = -11 };
		memcpy(data, &(int32_t){ -100 }, 4);
		memcpy(data + 4, &(uint64_t){ 0x1234 }, 8);
		memcpy(data + 12, &(uint64_t){ 5 }, 8);
		memcpy(data + 20, &(uint32_t){ 9 }, 4);
		memcpy(data + 24, "abcdefg", 7);
	}
	assert_int_equal(spoor_writer_packet(f->w, cpu, 0, &iov, 1, ts, ts + n - 1, 0, &f->e), 0);
	free(calls);
}

static inline void define_thread(struct fixture *f, uint64_t ts, uint64_t start, unsigned why, const char *comm)
{
	struct {
		struct spoor_thread t;
		uint8_t pad[7];
	} b = { .t = { .h = { .ts = ts, .id = SPOOR_EV_THREAD, .size4 = 17, .tid = 7 },
		       .pid = 7,
		       .start = start,
		       .why = why } };

	strcpy(b.t.comm, comm);
	assert_int_equal(spoor_writer_define(f->w, (void *)&b), 0);
}

static inline void define_stack(struct fixture *f, uint64_t ts, uint32_t id)
{
	struct {
		struct spoor_stack s;
		uint64_t frames[2];
	} b = { .s = { .h = { .ts = ts, .id = SPOOR_EV_STACK, .size4 = 10 }, .id = id, .n = 2 },
		.frames = { SPOOR_FRAME(2, 0x1000), SPOOR_FRAME(3, 0x2000) } };

	assert_int_equal(spoor_writer_define(f->w, &b.s.h), 0);
}

static inline unsigned count(struct spoor_trace *t)
{
	struct spoor_event ev;
	unsigned n = 0;
	int r;

	while ((r = spoor_trace_next(t, &ev)) > 0)
		n++;
	assert_int_equal(r, 0);
	return n;
}

static inline void close_writer(struct fixture *f)
{
	assert_int_equal(spoor_writer_close(f->w, &f->e), 0);
}

/* What the directory of this machine's streams is called. */
static inline void host_name(char *ret, size_t size)
{
	assert_int_equal(gethostname(ret, size), 0);
	if (!*ret) /* it has no name */
		snprintf(ret, size, "localhost");
}

/* A stream file of the trace's only host. */
static inline void stream_path(struct fixture *f, unsigned segment, const char *name, char *ret, size_t size)
{
	char host[256];

	host_name(host, sizeof(host));
	snprintf(ret, size, "%s/%s/kernel/seg-%06u/%s", f->path, host, segment, name);
}

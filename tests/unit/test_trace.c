/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writer and reader together; damage; rotation; what calls and threads look like to a user. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/syscalls.h"
#include "trace/writer.h"

struct fixture {
	char dir[64], path[96];
	struct spoor_error e;
	struct spoor_writer *w;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/spoor-test-XXXXXX");
	if (!f || !mkdtemp(f->dir))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/t.spoor", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
	assert_int_equal(system(cmd), 0);
	free(f);
	return 0;
}

static void open_writer(struct fixture *f, struct spoor_writer_options o)
{
	o.path = f->path;
	o.n_cpus = o.n_cpus ? o.n_cpus : 2;
	assert_int_equal(spoor_writer_open(&o, &f->w, &f->e), 0);
}

static struct spoor_trace *open_trace(struct fixture *f)
{
	struct spoor_trace *t = NULL;

	if (spoor_trace_open(f->path, &t, &f->e) < 0)
		fail_msg("%s", f->e.text);
	return t;
}

/* read(fd 3, ..., 5), 9 words long */
#define CALL_SIZE 72
static void write_calls_on(struct fixture *f, unsigned cpu, uint64_t ts, unsigned n)
{
	struct {
		struct spoor_syscall s;
		uint8_t data[CALL_SIZE - sizeof(struct spoor_syscall)];
	} *calls = calloc(n, sizeof(*calls));
	struct iovec iov = { calls, n * sizeof(*calls) };

	_Static_assert(sizeof(*calls) == CALL_SIZE, "");
	for (unsigned i = 0; i < n; i++) {
		calls[i].s = (struct spoor_syscall){ .h = { .ts = ts + i, .id = 0, .size8 = CALL_SIZE / 8, .tid = 7 },
						     .pid = 7,
						     .stack = 1,
						     .dur = 10,
						     .ret = -11 };
		memcpy(calls[i].data, &(int32_t){ -100 }, 4);
		memcpy(calls[i].data + 4, &(uint64_t){ 0x1234 }, 8);
		memcpy(calls[i].data + 12, &(uint64_t){ 5 }, 8);
		memcpy(calls[i].data + 20, &(uint32_t){ 9 }, 4);
		memcpy(calls[i].data + 24, "\3\0abc", 5);
	}
	assert_int_equal(spoor_writer_packet(f->w, cpu, 0, &iov, 1, ts, ts + n - 1, 0, &f->e), 0);
	free(calls);
}

static void define_thread(struct fixture *f, uint64_t ts, uint64_t start, unsigned why, const char *comm)
{
	struct {
		struct spoor_thread t;
		uint8_t pad[7];
	} b = { .t = { .h = { .ts = ts, .id = SPOOR_EV_THREAD, .size8 = 9, .tid = 7 },
		       .pid = 7,
		       .start = start,
		       .why = why } };

	strcpy(b.t.comm, comm);
	assert_int_equal(spoor_writer_define(f->w, (void *)&b), 0);
}

static void define_stack(struct fixture *f, uint64_t ts, uint32_t id)
{
	struct {
		struct spoor_stack s;
		uint64_t frames[2];
	} b = { .s = { .h = { .ts = ts, .id = SPOOR_EV_STACK, .size8 = 5 }, .id = id, .n = 2 },
		.frames = { SPOOR_FRAME(2, 0x1000), SPOOR_FRAME(3, 0x2000) } };

	assert_int_equal(spoor_writer_define(f->w, &b.s.h), 0);
}

static unsigned count(struct spoor_trace *t)
{
	struct spoor_event ev;
	unsigned n = 0;
	int r;

	while ((r = spoor_trace_next(t, &ev)) > 0)
		n++;
	assert_int_equal(r, 0);
	return n;
}

static void close_writer(struct fixture *f)
{
	assert_int_equal(spoor_writer_close(f->w, &f->e), 0);
}

/* A stream file of the trace's only host. */
static void stream_path(struct fixture *f, unsigned segment, const char *name, char *ret, size_t size)
{
	char host[256];

	gethostname(host, sizeof(host));
	snprintf(ret, size, "%s/%s/kernel/seg-%06u/%s", f->path, host, segment, name);
}

static void test_round_trip(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	struct spoor_call c;

	open_writer(f, (struct spoor_writer_options){ .command = "cmd", .mode = "app" });
	define_stack(f, 90, 1);
	write_calls_on(f, 0, 100, 3);
	write_calls_on(f, 1, 101, 1);
	close_writer(f);
	t = open_trace(f);
	assert_string_equal(spoor_trace_info(t)->command, "cmd");
	assert_string_equal(spoor_trace_info(t)->mode, "app");
	assert_true(spoor_trace_info(t)->ended && !spoor_trace_info(t)->live);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_int_equal(ev.h->id, SPOOR_EV_STACK);
	assert_int_equal(spoor_call_decode(&ev, &c), -EINVAL);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_int_equal(ev.h->ts, 100);
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_string_equal(c.info->name, "read");
	assert_int_equal(c.start, 90);
	assert_int_equal(c.ret, -11);
	assert_int_equal(c.n_args, 3);
	assert_true((int64_t)c.args[0].value == -100);
	assert_int_equal(c.args[0].file, 9);
	assert_int_equal(c.args[1].value, 0x1234);
	assert_int_equal(c.args[1].len, 3);
	assert_memory_equal(c.args[1].bytes, "abc", 3);
	assert_int_equal(spoor_segment_stack(ev.segment, c.stack)->n, 2);
	assert_null(spoor_segment_stack(ev.segment, 2));
	assert_int_equal(count(t), 3);
	spoor_trace_rewind(t);
	assert_int_equal(count(t), 5);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

static void test_exists_already(void **state)
{
	struct fixture *f = *state;
	struct spoor_writer_options o = { .path = f->path, .n_cpus = 1 };

	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_int_equal(spoor_writer_open(&o, &f->w, &f->e), -EEXIST);
	assert_non_null(strstr(f->e.text, "exists"));
	assert_int_equal(spoor_writer_close(NULL, NULL), 0);
}

static void test_not_a_trace(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t = NULL;

	assert_int_equal(spoor_trace_open(f->path, &t, &f->e), -ENOENT);
	assert_int_equal(spoor_trace_open(f->dir, &t, &f->e), -ENOENT);
	assert_non_null(strstr(f->e.text, "not a trace"));
	assert_int_equal(spoor_trace_open("/etc/passwd", &t, &f->e), -ENOTDIR);
	assert_null(t);
}

static void test_order_is_checked(void **state)
{
	struct fixture *f = *state;
	struct spoor_event_header h = { .ts = 5, .size8 = 2 };
	struct iovec iov = { &h, sizeof(h) };

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 3);
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, &iov, 1, 5, 5, 0, &f->e), -EINVAL);
	assert_int_equal(spoor_writer_packet(f->w, 2, 0, &iov, 1, 200, 200, 0, &f->e), -EINVAL);
	iov.iov_len = 12;
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, &iov, 1, 200, 200, 0, &f->e), -EINVAL);
	write_calls_on(f, 0, 200, 1);
	close_writer(f);
	struct spoor_trace *t = open_trace(f);

	assert_int_equal(count(t), 4);
	assert_int_equal(spoor_trace_discarded(t), 1); /* what was refused is not forgotten */
	spoor_trace_close(t);
}

/* 2,500 spans are several packets, 1,000 of them in each. */
static void test_many_spans(void **state)
{
	struct fixture *f = *state;
	struct spoor_syscall s[2500];
	struct iovec iov[2500];
	struct spoor_trace *t;

	for (int i = 0; i < 2500; i++) {
		s[i] = (struct spoor_syscall){ .h = { .ts = 10 + i, .id = 39, .size8 = 5 } };
		iov[i] = (struct iovec){ &s[i], i % 7 ? sizeof(s[i]) : 0 };
	}
	open_writer(f, (struct spoor_writer_options){});
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, iov, 2500, 11, 2509, 0, &f->e), 0);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 2500 - 2500 / 7 - 1);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

static void test_who_a_thread_was(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;

	open_writer(f, (struct spoor_writer_options){});
	define_thread(f, 100, 50, SPOOR_THREAD_FORK, "a");
	define_thread(f, 200, 50, SPOOR_THREAD_EXEC, "b");
	define_thread(f, 400, 300, SPOOR_THREAD_FORK, "c"); /* the tid reused; known late */
	for (int i = 0; i < 20; i++)
		define_thread(f, 500 + i, 500 + i, SPOOR_THREAD_FORK, "d");
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_null(spoor_segment_thread(ev.segment, 7, 49));
	assert_null(spoor_segment_thread(ev.segment, 8, 100));
	assert_string_equal(spoor_segment_thread(ev.segment, 7, 50)->comm, "a");
	assert_string_equal(spoor_segment_thread(ev.segment, 7, 199)->comm, "a");
	assert_string_equal(spoor_segment_thread(ev.segment, 7, 200)->comm, "b");
	assert_string_equal(spoor_segment_thread(ev.segment, 7, 299)->comm, "b");
	assert_string_equal(spoor_segment_thread(ev.segment, 7, 300)->comm, "c");
	for (int i = 0; i < 20; i++)
		assert_int_equal(spoor_segment_thread(ev.segment, 7, 500 + i)->start, 500 + i);
	assert_int_equal(spoor_segment_thread(ev.segment, 7, UINT64_MAX)->start, 519);
	spoor_trace_close(t);
}

/* Definitions are put in order within a batch, and raised across batches. */
static void test_definitions_in_order(void **state)
{
	struct fixture *f = *state;
	static const uint64_t expected[] = { 100, 200, 300, 301, 400 };
	struct spoor_trace *t;
	struct spoor_event ev;

	open_writer(f, (struct spoor_writer_options){});
	define_stack(f, 300, 1);
	define_stack(f, 100, 2);
	define_stack(f, 200, 3);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	define_stack(f, 400, 4);
	define_stack(f, 250, 5);
	close_writer(f);
	t = open_trace(f);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(spoor_trace_next(t, &ev), 1);
		assert_int_equal(ev.h->ts, expected[i]);
	}
	assert_int_equal(spoor_trace_next(t, &ev), 0);
	spoor_trace_close(t);
}

static void test_rotation(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	unsigned n = 0;

	open_writer(f, (struct spoor_writer_options){ .segment_size = 1000, .segment_ns = 5000 });
	assert_false(spoor_writer_should_rotate(f->w, 1000000));
	write_calls_on(f, 0, 100, 3);
	define_stack(f, 100, 1);
	assert_true(spoor_writer_should_rotate(f->w, 5100));
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), -EBUSY);
	define_stack(f, 300, 2);
	assert_int_equal(spoor_writer_switch_stream(f->w, 1, 0), 0);
	write_calls_on(f, 0, 400, 1); /* still the old one */
	write_calls_on(f, 1, 400, 1); /* the new one */
	assert_int_equal(spoor_writer_switch_stream(f->w, 0, 0), 0);
	write_calls_on(f, 0, 500, 1);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), -EINVAL);
	define_stack(f, 600, 3);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 2);
	for (; spoor_trace_next(t, &ev) > 0; n++) {
		int old = ev.h->ts < 400 || (ev.h->ts == 400 && ev.cpu == 0);

		if (ev.h->id != 0)
			continue;
		assert_int_equal(spoor_segment_stack(ev.segment, 1) != NULL, old);
		assert_non_null(spoor_segment_stack(ev.segment, 2));
		assert_int_equal(spoor_segment_stack(ev.segment, 3) != NULL, !old);
	}
	assert_int_equal(n, 6 + 4);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

/* ---- snapshots ---- */

static void rotate(struct fixture *f)
{
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
}

static unsigned count_in(struct fixture *f, const char *path)
{
	struct spoor_trace *t = NULL;
	unsigned n;

	if (spoor_trace_open(path, &t, &f->e) < 0)
		fail_msg("%s", f->e.text);
	assert_true(spoor_trace_info(t)->ended && !spoor_trace_info(t)->live);
	assert_string_equal(spoor_trace_info(t)->command, "cmd");
	n = count(t);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	return n;
}

/* It has the closed segments, the recording goes on, and what --max-size removes there stays here. */
static void test_snapshot(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[128];

	snprintf(path, sizeof(path), "%s/s.spoor", f->dir);
	open_writer(f, (struct spoor_writer_options){ .command = "cmd", .max_size = 1 << 20 });
	write_calls_on(f, 0, 100, 30);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), -ENODATA);
	assert_int_equal(access(path, F_OK), -1);
	rotate(f);
	write_calls_on(f, 1, 200, 30);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), 0); /* while one hands over: only what is closed */
	assert_int_equal(count_in(f, path), 30);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), -EEXIST);
	assert_int_equal(count_in(f, path), 30);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	strcat(path, "2");
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), 0);
	assert_int_equal(count_in(f, path), 60);
	for (int i = 0; i < 5; i++) {
		write_calls_on(f, 0, 10000 + i * 10000, 5000);
		rotate(f);
	}
	write_calls_on(f, 0, 100000, 7);
	assert_int_equal(count_in(f, path), 60);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 2 * 5000 + 7); /* the others were dropped */
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	assert_int_equal(count_in(f, path), 60);
}

/* RLIMIT_FSIZE lets the links be made and the manifest fail. */
static void test_snapshot_no_space(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, limit;
	char path[128];
	int r;

	signal(SIGXFSZ, SIG_IGN);
	snprintf(path, sizeof(path), "%s/s.spoor", f->dir);
	open_writer(f, (struct spoor_writer_options){ .command = "cmd" });
	write_calls_on(f, 0, 100, 30);
	rotate(f);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	r = spoor_writer_snapshot(f->w, path, &f->e);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), 0);
	assert_int_equal(count_in(f, path), 30);
	close_writer(f);
}

static void test_snapshot_of_nothing(void **state)
{
	struct fixture *f = *state;
	char cmd[128], path[128];

	snprintf(path, sizeof(path), "%s/no/s.spoor", f->dir);
	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 10);
	rotate(f);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), -ENOENT);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->path);
	assert_int_equal(system(cmd), 0);
	snprintf(path, sizeof(path), "%s/s.spoor", f->dir);
	assert_int_equal(spoor_writer_snapshot(f->w, path, &f->e), -ENOENT);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(spoor_writer_close(f->w, &f->e), -ENOENT);
}

/* ---- bad days ---- */

/* RLIMIT_FSIZE stands for a full disk: write(2) then writes a part and fails. */
static void test_no_space(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, limit;
	struct spoor_syscall s[200] = {};
	struct iovec iov = { s, sizeof(s) };
	struct spoor_trace *t;
	int r;

	for (int i = 0; i < 200; i++)
		s[i].h = (struct spoor_event_header){ .ts = 1000, .id = 39, .size8 = 5 };
	signal(SIGXFSZ, SIG_IGN);
	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 10);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 4000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	r = spoor_writer_packet(f->w, 0, 0, &iov, 1, 1000, 1000, 0, &f->e);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	t = open_trace(f);
	assert_int_equal(count(t), 10);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	write_calls_on(f, 0, 2000, 1); /* there is room again */
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 11);
	assert_int_equal(spoor_trace_discarded(t), 200);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

static void test_directory_vanishes(void **state)
{
	struct fixture *f = *state;
	struct spoor_syscall s = { .h = { .ts = 500, .id = 39, .size8 = 5 } };
	struct iovec iov = { &s, sizeof(s) };
	char cmd[128];

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 10);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->path);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, &iov, 1, 500, 500, 0, &f->e), -ENOENT);
	assert_int_equal(spoor_writer_packet(f->w, 1, 0, &iov, 1, 500, 500, 0, &f->e), -ENOENT);
	assert_int_equal(spoor_writer_close(f->w, &f->e), -ENOENT);
}

static void test_live(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	uint64_t cut;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 10);
	t = open_trace(f);
	assert_true(spoor_trace_info(t)->live && !spoor_trace_info(t)->ended);
	assert_int_equal(count(t), 10);
	assert_int_equal(spoor_trace_repair(f->path, &cut, &f->e), -EBUSY);
	write_calls_on(f, 0, 200, 5);
	assert_int_equal(spoor_trace_rewind(t), 0);
	assert_int_equal(count(t), 15);
	spoor_trace_close(t);
	close_writer(f);
}

#define PACKETS 3
#define EVENTS_EACH 20
static size_t whole_events(size_t size)
{
	size_t packet = sizeof(struct spoor_packet) + EVENTS_EACH * CALL_SIZE, n = size / packet * EVENTS_EACH;
	size_t rest = size % packet;

	return rest < sizeof(struct spoor_packet) ? n : n + (rest - sizeof(struct spoor_packet)) / CALL_SIZE;
}

/* At every length: what is whole is given out, the damage is told, and a repair leaves whole packets. */
static void test_truncated(void **state)
{
	struct fixture *f = *state;
	char path[512];
	size_t packet = sizeof(struct spoor_packet) + EVENTS_EACH * CALL_SIZE;

	open_writer(f, (struct spoor_writer_options){});
	define_stack(f, 1, 1);
	for (int i = 0; i < PACKETS; i++) {
		write_calls_on(f, 0, 100 + i * 100, EVENTS_EACH);
		write_calls_on(f, 1, 100 + i * 100, EVENTS_EACH);
	}
	close_writer(f);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	for (size_t size = PACKETS * packet; size-- > 0; size -= size > 70 ? 12 : 0) {
		struct spoor_trace *t;

		assert_int_equal(truncate(path, size), 0);
		t = open_trace(f);
		assert_int_equal(count(t), 1 + PACKETS * EVENTS_EACH + whole_events(size));
		assert_int_equal(spoor_trace_info(t)->n_damages, size % packet != 0);
		if (size % packet)
			assert_non_null(strstr(spoor_trace_damage(t, 0), "/cpu0: offset "));
		spoor_trace_close(t);
	}
}

static void test_repair(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[512];
	uint64_t cut;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, EVENTS_EACH);
	write_calls_on(f, 0, 200, EVENTS_EACH);
	close_writer(f);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	assert_int_equal(truncate(path, 2 * (sizeof(struct spoor_packet) + EVENTS_EACH * CALL_SIZE) - 10), 0);
	assert_int_equal(spoor_trace_repair(f->path, &cut, &f->e), 0);
	assert_int_equal(cut, sizeof(struct spoor_packet) + EVENTS_EACH * CALL_SIZE - 10);
	assert_int_equal(spoor_trace_repair(f->path, &cut, &f->e), 0);
	assert_int_equal(cut, 0);
	t = open_trace(f);
	assert_int_equal(count(t), EVENTS_EACH);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

static void poke(const char *path, off_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	close(fd);
}

/* What stands behind a damaged event is lost up to the next packet, and no more. */
static void test_damaged_event(void **state)
{
	struct fixture *f = *state;
	size_t at = sizeof(struct spoor_packet) + 5 * CALL_SIZE;
	struct spoor_trace *t;
	char path[512], expected[600];

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, EVENTS_EACH);
	write_calls_on(f, 0, 200, EVENTS_EACH);
	close_writer(f);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	poke(path, at + offsetof(struct spoor_event_header, id) + 2, "\0\0", 2); /* size8 */
	t = open_trace(f);
	assert_int_equal(count(t), 5 + EVENTS_EACH);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	snprintf(expected, sizeof(expected), "%s: offset %zu: an event has no size", path, at);
	assert_string_equal(spoor_trace_damage(t, 0), expected);
	assert_null(spoor_trace_damage(t, 1));
	spoor_trace_rewind(t);
	assert_int_equal(count(t), 5 + EVENTS_EACH);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1); /* told once */
	spoor_trace_close(t);
}

static void test_odd_files(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[512];

	open_writer(f, (struct spoor_writer_options){ .n_cpus = 8 });
	write_calls_on(f, 0, 100, 4);
	close_writer(f);
	stream_path(f, 1, "cpu1", path, sizeof(path));
	assert_int_equal(mkfifo(path, 0600), 0);
	stream_path(f, 1, "cpu2", path, sizeof(path));
	assert_int_equal(mkdir(path, 0700), 0);
	stream_path(f, 1, "cpu3", path, sizeof(path));
	assert_int_equal(symlink("/dev/zero", path), 0);
	stream_path(f, 1, "cpu4", path, sizeof(path));
	close(open(path, O_CREAT | O_WRONLY, 0600)); /* empty: no damage */
	stream_path(f, 1, "cpu99999999999", path, sizeof(path));
	close(open(path, O_CREAT | O_WRONLY, 0600));
	t = open_trace(f);
	assert_int_equal(count(t), 4);
	assert_int_equal(spoor_trace_info(t)->n_damages, 3);
	spoor_trace_close(t);
}

/* A trace of a Spoor that knew read() otherwise: told, and not misread. */
static void test_other_layout(void **state)
{
	static char text[1 << 20];
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	struct spoor_call c;
	char path[512], *at;
	FILE *file;
	size_t n;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 1);
	close_writer(f);
	stream_path(f, 1, "metadata", path, sizeof(path));
	file = fopen(path, "r+");
	assert_non_null(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	at = strstr(text, "\tname = \"read\";");
	assert_true(n > 100000 && at);
	at = strstr(at, "x64 _buf");
	assert_non_null(at);
	poke(path, at - text, "x32", 3);
	fclose(file);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	assert_non_null(strstr(spoor_trace_damage(t, 0), "event 0 is laid out otherwise"));
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_int_equal(spoor_call_decode(&ev, &c), -EPROTO);
	spoor_trace_close(t);
}

/* ---- calls ---- */

static void test_call_too_short(void **state)
{
	struct {
		struct spoor_syscall s;
		uint8_t data[64];
	} b = { .s = { .h = { .id = 0 } } };
	struct spoor_event ev = { .h = &b.s.h };
	struct spoor_call c;

	for (unsigned size8 = 5; size8 < 14; size8++) {
		b.s.h.size8 = size8;
		assert_int_equal(spoor_call_decode(&ev, &c), size8 * 8 < 40 + 26 ? -EBADMSG : 0);
	}
	assert_null(c.args[1].bytes);
	memset(b.data, 0xff, sizeof(b.data)); /* a path without an end: open */
	b.s.h.id = 2;
	assert_int_equal(spoor_call_decode(&ev, &c), -EBADMSG);
}

static void see(struct spoor_pendings *p, uint32_t tid, unsigned id, uint64_t start, uint64_t end)
{
	struct spoor_syscall s = { .h = { .ts = end, .id = id, .size8 = 5, .tid = tid }, .dur = end - start };
	struct spoor_event ev = { .h = &s.h };

	assert_int_equal(spoor_pendings_see(p, &ev), 0);
}

static void see_pending(struct spoor_pendings *p, uint32_t tid, unsigned id, uint64_t start, unsigned why)
{
	struct {
		struct spoor_pending s;
		uint8_t pad[2];
	} b = { .s = { .h = { .ts = start + 5, .id = SPOOR_EV_PENDING, .size8 = 5, .tid = tid },
		       .nr = id,
		       .start = start,
		       .why = why,
		       .exact = why != SPOOR_PENDING_BEFORE } };
	struct spoor_event ev = { .h = (void *)&b };

	assert_int_equal(spoor_pendings_see(p, &ev), 0);
}

static void test_unfinished(void **state)
{
	struct spoor_pendings *p;
	enum spoor_unfinished why;
	struct spoor_event ev;
	unsigned in_flight = 0, lost = 0;
	size_t it = 0;

	assert_int_equal(spoor_pendings_new(&p), 0);
	for (uint32_t tid = 1; tid <= 1000; tid++) {
		see(p, tid, 1, 5, 10);
		see_pending(p, tid, 0, 20, SPOOR_PENDING_SLEEP);
		if (tid % 3 == 0)
			see(p, tid, 0, 20, 40);
		if (tid % 3 == 1)
			see(p, tid, 0, 50, 60);
	}
	see_pending(p, 2000, 7, 100, SPOOR_PENDING_BEFORE);
	see(p, 2000, 7, 90, 130); /* when it began was not known exactly */
	see_pending(p, 2001, 59, 100, SPOOR_PENDING_SLEEP);
	see_pending(p, 2001, 59, 100, SPOOR_PENDING_MOVED);
	see(p, 2000, 59, 100, 140); /* execve by a thread that was not the leader */
	while (spoor_pendings_next(p, &it, &ev, &why)) {
		assert_int_equal(ev.h->tid % 3, why == SPOOR_UNFINISHED_LOST ? 1 : 2);
		in_flight += why == SPOOR_UNFINISHED_IN_FLIGHT;
		lost += why == SPOOR_UNFINISHED_LOST;
	}
	assert_int_equal(in_flight, 333);
	assert_int_equal(lost, 334);
	spoor_pendings_free(p);
	spoor_pendings_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exists_already, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_a_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_is_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_spans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_a_thread_was, setup, teardown),
		cmocka_unit_test_setup_teardown(test_definitions_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rotation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_snapshot, setup, teardown),
		cmocka_unit_test_setup_teardown(test_snapshot_no_space, setup, teardown),
		cmocka_unit_test_setup_teardown(test_snapshot_of_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_space, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_vanishes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_live, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_repair, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_event, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_layout, setup, teardown),
		cmocka_unit_test(test_call_too_short),
		cmocka_unit_test(test_unfinished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

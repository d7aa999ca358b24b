/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writer and reader together; what calls and threads look like to a user. */
#include "trace_fixture.h"

#include <sched.h>
#include <sys/stat.h>

#include "trace/syscalls.h"

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
	assert_int_equal(c.args[1].len, 7);
	assert_memory_equal(c.args[1].bytes, "abcdefg", 7);
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

static void run(const char *fmt, const char *a, const char *b)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), fmt, a, b);
	assert_int_equal(system(cmd), 0);
}

/* Their clocks have nothing in common: one at a time, each with its own name and clock. */
static void test_several_hosts(void **state)
{
	struct fixture *f = *state;
	char host[256], path[400];
	struct spoor_trace *t = NULL;

	open_writer(f, (struct spoor_writer_options){ .command = "cmd" });
	write_calls_on(f, 0, 100, 3);
	close_writer(f);
	host_name(host, sizeof(host));
	run("cd %s && cp -r %s elsewhere && "
	    "sed -i 's/\toffset_s = [0-9]*/\toffset_s = 77/; s/\toffset = [0-9]*/\toffset = 5/' "
	    "elsewhere/kernel/seg-000001/metadata",
	    f->path, host);
	assert_int_equal(spoor_trace_open(f->path, &t, &f->e), -EXDEV);
	assert_non_null(strstr(f->e.text, "several hosts"));

	snprintf(path, sizeof(path), "%s/elsewhere", f->path);
	assert_int_equal(spoor_trace_open(path, &t, &f->e), 0);
	assert_int_equal(count(t), 3);
	assert_string_equal(spoor_trace_info(t)->hostname, ""); /* the manifest does not know it */
	assert_string_equal(spoor_trace_info(t)->command, "cmd");
	assert_true(spoor_trace_info(t)->epoch_offset == 77000000005);
	spoor_trace_close(t);

	run("sed -i 's/\"hosts\": \\[/&{\"directory\": \"elsewhere\", \"hostname\": \"e\"},/' %s/manifest%s", f->path,
	    "");
	for (int k = 0; k < 2; k++) {
		snprintf(path, sizeof(path), "%s/%s/kernel%s", f->path, host, k ? "/seg-000001" : "/");
		assert_int_equal(spoor_trace_open(path, &t, &f->e), 0);
		assert_string_equal(spoor_trace_info(t)->hostname, host); /* the second of the manifest */
		assert_true(spoor_trace_info(t)->epoch_offset > 1000000000000000000);
		spoor_trace_close(t);
	}
}

/* A trace of a format that is not ours is refused, whoever says so. */
static void test_other_formats(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 3);
	close_writer(f);
	run("sed -i 's/\"version\": 2/\"version\": 3/' %s/manifest%s", f->path, "");
	assert_int_equal(spoor_trace_open(f->path, &t, &f->e), -EPROTONOSUPPORT);
	assert_non_null(strstr(f->e.text, ": written by a newer Spoor (format 3, this one reads 2)"));
	run("sed -i 's/\"version\": 3/\"version\": 1/' %s/manifest%s", f->path, "");
	assert_int_equal(spoor_trace_open(f->path, &t, &f->e), -EPROTONOSUPPORT);
	assert_non_null(strstr(f->e.text, ": in format 1, from before the first release; this Spoor reads 2: record "
					  "again, or use the Spoor that wrote it"));
	run("rm %s/manifest%s", f->path, "");
	t = open_trace(f);
	assert_int_equal(count(t), 3);
	spoor_trace_close(t);
	run("sed -i 's/tracer_major = 2/tracer_major = 1/' %s/*/kernel/seg-000001/metadata%s", f->path, "");
	assert_int_equal(spoor_trace_open(f->path, &t, &f->e), -EPROTONOSUPPORT);
	assert_non_null(strstr(f->e.text, ": in format 1, "));
}

static void test_order_is_checked(void **state)
{
	struct fixture *f = *state;
	struct spoor_event_header h = { .ts = 5, .size4 = 4 };
	struct iovec iov = { &h, sizeof(h) };

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 3);
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, &iov, 1, 5, 5, 0, &f->e), -EINVAL);
	assert_int_equal(spoor_writer_packet(f->w, 2, 0, &iov, 1, 200, 200, 0, &f->e), -EINVAL);
	iov.iov_len = 14;
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
		s[i] = (struct spoor_syscall){ .h = { .ts = 10 + i, .id = 102, .size4 = 10 } };
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

static void test_call_of_another_length(void **state)
{
	struct {
		struct spoor_syscall s;
		uint8_t data[64];
	} b = { .s = { .h = { .id = 0 } } };
	struct spoor_event ev = { .h = &b.s.h };
	struct spoor_call c;

	for (unsigned size4 = 10; size4 < 26; size4++) {
		b.s.h.size4 = size4;
		/* 60 bytes of fields */
		assert_int_equal(spoor_call_decode(&ev, &c), size4 == 15 ? 0 : -EBADMSG);
	}
	assert_null(c.args[1].bytes);
	memset(b.data, 0xff, sizeof(b.data)); /* a path without an end: open */
	b.s.h.id = 2;
	assert_int_equal(spoor_call_decode(&ev, &c), -EBADMSG);
}

/* The table says how wide a result is; what it knows otherwise is read no further than it goes. */
static void test_width_of_results(void **state)
{
	struct {
		struct spoor_syscall s;
		uint8_t data[24];
	} b = { .s = { .h = { .id = 8, .size4 = 14 }, .ret_long = 1LL << 40 } }; /* lseek */
	struct spoor_syscall_other other = { .h = { .id = SPOOR_EV_SYSCALL_OTHER, .size4 = sizeof(other) / 4 },
					     .nr = 73, /* flock */
					     .ret = 1LL << 50,
					     .args = { 0xfffffff9, ~0ULL } };
	struct spoor_event ev = { .h = &b.s.h };
	struct spoor_call c;

	assert_int_equal(spoor_call_decode(&ev, &c), -EBADMSG);
	b.s.h.size4 = 16; /* 40 + fd, offset, whence, file */
	b.data[12] = 2;
	assert_int_equal(spoor_call_decode(&ev, &c), -EBADMSG);
	b.s.h.size4 = 15;
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_true(c.ret == 1LL << 40);
	assert_int_equal(c.args[2].value, 2);
	b.s.ret_long = -22;
	assert_int_equal(spoor_syscall_ret(&b.s.h), -22);
	b.s.h.size4 = 9;
	assert_int_equal(spoor_syscall_ret(&b.s.h), -22);
	b.s.h.id = 39;
	b.s.ret_long = UINT32_MAX; /* getpid: the upper half is not its */
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_int_equal(c.ret, -1);
	ev.h = &other.h; /* a result that did not fit */
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_true(c.ret == 1LL << 50 && c.nr == 73 && c.id == 73);
	assert_string_equal(c.info->name, "flock");
	assert_true(c.n_args == 2 && (int64_t)c.args[0].value == -7 && c.args[1].value == UINT32_MAX);
	assert_true(spoor_syscall_ret(&other.h) == 1LL << 50);
	other.i386 = 1;
	assert_int_equal(spoor_syscall_id(&other.h), SPOOR_SYSCALL_I386 + 73);
	other.nr = SPOOR_SYSCALL_I386 + 73; /* of neither table */
	assert_int_equal(spoor_syscall_id(&other.h), SPOOR_EV_SYSCALL_OTHER);
}

/* execve: a path whose address is not known is all that is known of its arguments. */
static void test_entry_unseen(void **state)
{
	struct {
		struct spoor_syscall s;
		char data[32];
	} b = { .s = { .h = { .id = 59, .size4 = 17 } } };
	struct spoor_event ev = { .h = &b.s.h };
	struct spoor_call c;

	strcpy(b.data + 20, "/bin/sh");
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_string_equal(c.args[0].path, "/bin/sh");
	assert_true(c.entry_unseen);
	b.data[0] = 1;
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_false(c.entry_unseen);
	memset(b.data, 0, sizeof(b.data)); /* execve(NULL, NULL, NULL) */
	b.s.h.size4 = 16;
	assert_int_equal(spoor_call_decode(&ev, &c), 0);
	assert_false(c.entry_unseen);
}

/* A host may be called as a file of the trace is; its directory is not. */
static void test_host_called_as_a_file(void **state)
{
	static const char *const names[] = { "manifest", "manifest.new", "objects" };
	char host[65] = "", path[256];

	gethostname(host, sizeof(host) - 1);
	assert_int_equal(unshare(CLONE_NEWUTS), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct fixture *f;
		struct spoor_trace *t;

		assert_int_equal(sethostname(names[i], strlen(names[i])), 0);
		assert_int_equal(setup(state), 0);
		f = *state;
		open_writer(f, (struct spoor_writer_options){ .command = "cmd" });
		write_calls_on(f, 0, 100, 3);
		close_writer(f);
		snprintf(path, sizeof(path), "%s/%s_/kernel", f->path, names[i]);
		assert_int_equal(access(path, F_OK), 0);
		t = open_trace(f);
		assert_string_equal(spoor_trace_info(t)->hostname, names[i]);
		assert_int_equal(count(t), 3);
		assert_int_equal(spoor_trace_info(t)->n_damages, 0);
		spoor_trace_close(t);
		teardown(state);
	}
	assert_int_equal(sethostname(host, strlen(host)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_round_trip),
		TEST_OF_TRACE(test_exists_already),
		TEST_OF_TRACE(test_not_a_trace),
		TEST_OF_TRACE(test_several_hosts),
		TEST_OF_TRACE(test_other_formats),
		TEST_OF_TRACE(test_order_is_checked),
		TEST_OF_TRACE(test_many_spans),
		TEST_OF_TRACE(test_who_a_thread_was),
		TEST_OF_TRACE(test_definitions_in_order),
		TEST_OF_TRACE(test_live),
		cmocka_unit_test(test_call_of_another_length),
		cmocka_unit_test(test_width_of_results),
		cmocka_unit_test(test_entry_unseen),
		cmocka_unit_test(test_host_called_as_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

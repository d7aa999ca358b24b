/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Full disks, vanished directories, torn, damaged and odd files: what is whole is read, the rest is told. */
#include "trace_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "trace/schema.h"

#define EVENTS_EACH 20
#define PACKET_SIZE ((sizeof(struct spoor_packet) + EVENTS_EACH * CALL_SIZE + 7) & ~7UL)

/* Opened anew, it gives out so many events and tells so many damages. */
static void assert_reads(struct fixture *f, unsigned events, unsigned damages)
{
	struct spoor_trace *t = open_trace(f);

	assert_int_equal(count(t), events);
	assert_int_equal(spoor_trace_info(t)->n_damages, damages);
	spoor_trace_close(t);
}

static void assert_next_decodes(struct spoor_trace *t, int expected)
{
	struct spoor_event ev;
	struct spoor_call c;

	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_int_equal(spoor_call_decode(&ev, &c), expected);
}

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
		s[i].h = (struct spoor_event_header){ .ts = 1000, .id = 102, .size4 = 10 };
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
	assert_reads(f, 10, 0);
	write_calls_on(f, 0, 2000, 1); /* there is room again */
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 11);
	assert_int_equal(spoor_trace_discarded(t), 200);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

#define STACKS 60000

/* Each is another one. -errno of the last. */
static int define_many_stacks(struct fixture *f)
{
	int r = 0;

	for (uint32_t id = 1; id <= STACKS; id++) {
		struct {
			struct spoor_stack s;
			uint64_t frame;
		} b = { .s = { .h = { .ts = 100, .id = SPOOR_EV_STACK, .size4 = 8 }, .id = id, .n = 1 },
			.frame = SPOOR_FRAME(2, id) };

		r = spoor_writer_define(f->w, &b.s.h);
	}
	return r;
}

/* They wait for space, all of them, and do not cost more and more time meanwhile. */
static void test_many_definitions_without_space(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, limit;
	struct spoor_trace *t;
	struct spoor_event ev;
	clock_t begun;
	int r;

	signal(SIGXFSZ, SIG_IGN);
	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 4000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	begun = clock();
	r = define_many_stacks(f);
	begun = clock() - begun;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_true(begun < 10 * CLOCKS_PER_SEC);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	for (uint32_t id = 1; id <= STACKS; id++)
		assert_non_null(spoor_segment_stack(ev.segment, id));
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

#define COUNTERS 400

/* They make a manifest of more than is kept for it. */
static void define_counters(struct fixture *f)
{
	for (unsigned i = 0; i < COUNTERS; i++) {
		struct {
			struct spoor_counter c;
			char name[100];
		} b = { .c = { .h = { .ts = 200, .id = SPOOR_EV_COUNTER, .size4 = sizeof(b) / 4 } } };

		snprintf(b.name, sizeof(b.name), "%099u", i);
		assert_int_equal(spoor_writer_define(f->w, &b.c.h), 0);
	}
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
}

static size_t read_manifest(struct fixture *f, char *ret, size_t size)
{
	char path[128];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/manifest", f->path);
	file = fopen(path, "r");
	assert_non_null(file);
	n = fread(ret, 1, size, file);
	fclose(file);
	return n;
}

static void fill_disk(struct fixture *f)
{
	static const char page[4096];
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/fill", f->dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	while (write(fd, page, sizeof(page)) == sizeof(page))
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

/* The last one finds room for a part of it, over the old one at last: that stays as it was. */
static void test_manifest_without_space(void **state)
{
	struct fixture *f = *state;
	char old[8192], left[sizeof(old)];
	size_t len;

	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("none", f->dir, "tmpfs", 0, "size=4m"), 0);
	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 10);
	define_counters(f);
	len = read_manifest(f, old, sizeof(old));
	assert_in_range(len, 100, 4096); /* one page: what is beyond it needs more room */
	fill_disk(f);
	assert_int_equal(spoor_writer_close(f->w, &f->e), -ENOSPC);
	assert_int_equal(read_manifest(f, left, sizeof(left)), len);
	assert_memory_equal(left, old, len);
	assert_reads(f, 10 + COUNTERS, 0);
	assert_int_equal(umount(f->dir), 0);
}

static void test_directory_vanishes(void **state)
{
	struct fixture *f = *state;
	struct spoor_syscall s = { .h = { .ts = 500, .id = 102, .size4 = 10 } };
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

/* The first of its notes: the manifest counted so many bytes more than its streams have. */
static void assert_missing(const struct spoor_trace *t, size_t bytes)
{
	char told[64];

	snprintf(told, sizeof(told), "segment 1: %zu bytes of its streams are not there", bytes);
	assert_non_null(strstr(spoor_trace_damage(t, 0), told));
}

#define PACKETS 3

static size_t whole_events(size_t size)
{
	size_t n = size / PACKET_SIZE * EVENTS_EACH, rest = size % PACKET_SIZE;

	return rest < sizeof(struct spoor_packet) ? n : n + (rest - sizeof(struct spoor_packet)) / CALL_SIZE;
}

#ifdef __SANITIZE_ADDRESS__
#define STRIDE 5 /* opening a trace takes a sanitizer ten times as long */
#else
#define STRIDE 1
#endif

/* At every length: what is whole is given out, the damage is told, and also that bytes are missing. */
static void test_truncated(void **state)
{
	struct fixture *f = *state;
	char path[512];

	open_writer(f, (struct spoor_writer_options){});
	define_stack(f, 1, 1);
	for (int i = 0; i < PACKETS; i++) {
		write_calls_on(f, 0, 100 + i * 100, EVENTS_EACH);
		write_calls_on(f, 1, 100 + i * 100, EVENTS_EACH);
	}
	close_writer(f);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	for (size_t size = PACKETS * PACKET_SIZE - 1; size >= STRIDE; size -= STRIDE) {
		struct spoor_trace *t;

		assert_int_equal(truncate(path, size), 0);
		t = open_trace(f);
		assert_int_equal(count(t), 1 + PACKETS * EVENTS_EACH + whole_events(size));
		assert_int_equal(spoor_trace_info(t)->n_damages, 1 + (size % PACKET_SIZE != 0));
		assert_missing(t, PACKETS * PACKET_SIZE - size);
		if (size % PACKET_SIZE)
			assert_non_null(strstr(spoor_trace_damage(t, 1), "/cpu0: offset "));
		spoor_trace_close(t);
	}
}

/* In one stream, whose file it is. */
static void write_two_packets(struct fixture *f, char *ret_path, size_t size)
{
	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, EVENTS_EACH);
	write_calls_on(f, 0, 200, EVENTS_EACH);
	close_writer(f);
	stream_path(f, 1, "cpu0", ret_path, size);
}

static void test_repair(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[512];
	uint64_t cut;

	write_two_packets(f, path, sizeof(path));
	assert_int_equal(truncate(path, 2 * PACKET_SIZE - 10), 0);
	assert_int_equal(spoor_trace_repair(f->path, &cut, &f->e), 0);
	assert_int_equal(cut, PACKET_SIZE - 10);
	assert_int_equal(spoor_trace_repair(f->path, &cut, &f->e), 0);
	assert_int_equal(cut, 0);
	t = open_trace(f);
	assert_int_equal(count(t), EVENTS_EACH);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	assert_missing(t, PACKET_SIZE); /* also what the repair took away */
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

	write_two_packets(f, path, sizeof(path));
	poke(path, at + offsetof(struct spoor_event_header, id) + 2, "\0\0", 2); /* size4 */
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

#define DAY (86400 * 1000000000ULL)

/* A day late, it would make everything after it look as if time went backwards. */
static void test_damaged_time(void **state)
{
	struct fixture *f = *state;
	size_t at = sizeof(struct spoor_packet) + 5 * CALL_SIZE;
	struct spoor_trace *t;
	uint64_t late = 105 + DAY, last = 0;
	struct spoor_event ev;
	unsigned n = 0;
	char path[512];

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, EVENTS_EACH);
	write_calls_on(f, 0, 200, EVENTS_EACH);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	write_calls_on(f, 0, 300, EVENTS_EACH);
	write_calls_on(f, 0, 400, EVENTS_EACH);
	close_writer(f);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	poke(path, at + offsetof(struct spoor_event_header, ts), &late, sizeof(late));
	t = open_trace(f);
	for (; spoor_trace_next(t, &ev) > 0; n++)
		last = ev.h->ts;
	assert_int_equal(n, 5 + 3 * EVENTS_EACH);
	assert_int_equal(last, 400 + EVENTS_EACH - 1);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	assert_non_null(strstr(spoor_trace_damage(t, 0), "an event's time is not within its packet's"));
	spoor_trace_close(t);
}

/* A packet's own begin or end costs that packet at most. */
static void test_damaged_packet_time(void **state)
{
	static const size_t fields[] = { offsetof(struct spoor_packet, ts_begin),
					 offsetof(struct spoor_packet, ts_end) };
	static const uint64_t times[] = { 0, 1, 110, DAY, UINT64_MAX };
	struct fixture *f = *state;
	char path[512];

	write_two_packets(f, path, sizeof(path));
	for (unsigned field = 0; field < 2; field++) {
		uint64_t whole = field ? 100 + EVENTS_EACH - 1 : 99;

		for (unsigned i = 0; i < sizeof(times) / sizeof(*times); i++) {
			struct spoor_trace *t;
			unsigned n;

			poke(path, fields[field], &times[i], sizeof(times[i]));
			t = open_trace(f);
			n = count(t);
			assert_true(n >= EVENTS_EACH && n <= 2 * EVENTS_EACH);
			assert_int_equal(spoor_trace_info(t)->n_damages, n < 2 * EVENTS_EACH);
			spoor_trace_close(t);
		}
		poke(path, fields[field], &whole, sizeof(whole));
	}
	assert_reads(f, 2 * EVENTS_EACH, 0);
}

static void write_one(struct fixture *f, const void *event)
{
	const struct spoor_event_header *h = event;
	struct iovec iov = { (void *)h, spoor_event_size(h) };

	assert_int_equal(spoor_writer_packet(f->w, 0, 0, &iov, 1, h->ts, h->ts, 0, &f->e), 0);
}

/* babeltrace2 goes by the fields, not by the size: an event that is longer than they are is damaged for both. */
static void test_longer_than_its_fields(void **state)
{
	struct fixture *f = *state;
	struct {
		struct spoor_syscall s;
		uint64_t surplus;
	} call = { .s.h = { .ts = 100, .id = 102, .size4 = 10 } };
	struct {
		struct spoor_pending p;
		uint8_t data[26];
	} pending = { .p = { .h = { .ts = 102, .id = SPOOR_EV_PENDING, .size4 = 16 }, .nr = 39, .why = 1, .len = 1 } };
	struct {
		struct spoor_config c;
		char text[24];
	} config = { .c.h = { .ts = 103, .id = SPOOR_EV_CONFIG, .size4 = 6 }, .text = "seven b" };
	struct {
		struct spoor_clock c;
		uint64_t surplus;
	} clock = { .c.h = { .ts = 105, .id = SPOOR_EV_CLOCK, .size4 = 10 } };
	struct spoor_trace *t;
	struct spoor_event ev;

	open_writer(f, (struct spoor_writer_options){});
	write_one(f, &call); /* as it should be */
	call.s.h.ts = 101;
	call.s.h.size4 = 12;
	write_one(f, &call);
	write_one(f, &pending); /* 39 bytes, in 64 */
	write_one(f, &config);
	config.c.h.ts = 104;
	config.c.h.size4 = 8;
	write_one(f, &config);
	write_one(f, &clock);
	close_writer(f);
	t = open_trace(f);
	assert_next_decodes(t, 0);
	assert_next_decodes(t, -EBADMSG);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_int_equal(ev.h->id, SPOOR_EV_CONFIG);
	assert_int_equal(spoor_trace_next(t, &ev), 0);
	assert_int_equal(spoor_trace_info(t)->n_damages, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(strstr(spoor_trace_damage(t, i), "an event is longer than its fields"));
	spoor_trace_close(t);
}

/* The data of a call that has not ended are as long as its arguments. */
static void test_pending_with_surplus(void **state)
{
	struct fixture *f = *state;
	struct {
		struct spoor_pending p;
		uint8_t data[10];
	} pending = { .p = { .h = { .ts = 100, .id = SPOOR_EV_PENDING, .size4 = 10 }, .nr = 39, .why = 1 } };
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	write_one(f, &pending);
	pending.p.len = 1;
	write_one(f, &pending);
	close_writer(f);
	t = open_trace(f);
	assert_next_decodes(t, 0);
	assert_next_decodes(t, -EBADMSG);
	spoor_trace_close(t);
}

static void test_odd_files(void **state)
{
	struct fixture *f = *state;
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
	assert_reads(f, 4, 3);
}

/* A trace of a Spoor that knew read() otherwise: told, and not misread. */
static void test_other_layout(void **state)
{
	static char text[1 << 20];
	struct fixture *f = *state;
	struct spoor_trace *t;
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
	assert_next_decodes(t, -EPROTO);
	spoor_trace_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_no_space),
		TEST_OF_TRACE(test_many_definitions_without_space),
		TEST_OF_TRACE(test_manifest_without_space),
		TEST_OF_TRACE(test_directory_vanishes),
		TEST_OF_TRACE(test_truncated),
		TEST_OF_TRACE(test_repair),
		TEST_OF_TRACE(test_damaged_event),
		TEST_OF_TRACE(test_damaged_time),
		TEST_OF_TRACE(test_damaged_packet_time),
		TEST_OF_TRACE(test_longer_than_its_fields),
		TEST_OF_TRACE(test_pending_with_surplus),
		TEST_OF_TRACE(test_odd_files),
		TEST_OF_TRACE(test_other_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

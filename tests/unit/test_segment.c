/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Segments: the hand-over from one to the next, and snapshots of closed ones. */
#include "trace_fixture.h"

#include <ftw.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>

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

/* As if it had been killed in the middle of a rotation, and of a packet: a writer goes on where the files end. */
static void test_take_over(void **state)
{
	struct fixture *f = *state;
	struct spoor_last_packet last;
	struct spoor_trace *t;
	unsigned newest = 0;
	char path[512];
	FILE *torn;

	open_writer(f, (struct spoor_writer_options){ .n_cpus = 2 });
	define_stack(f, 100, 1);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	write_calls_on(f, 0, 200, 3);
	write_calls_on(f, 0, 300, 2);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	stream_path(f, 1, "cpu0", path, sizeof(path));
	torn = fopen(path, "a");
	assert_non_null(torn);
	fprintf(torn, "torn");
	fclose(torn);
	assert_int_equal(spoor_writer_take_over(f->w, 1, &newest, &f->e), 0);
	assert_int_equal(newest, 2);
	assert_int_equal(spoor_writer_continue(f->w, 0, 0, 1, &last, &f->e), 0);
	assert_int_equal(last.bytes, 2 * CALL_SIZE);
	assert_int_equal(last.first.ts, 300);
	assert_int_equal(spoor_writer_continue(f->w, 1, 0, 2, &last, &f->e), 0);
	assert_int_equal(last.bytes, 0);
	define_stack(f, 100, 2);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	write_calls_on(f, 0, 400, 1);
	assert_int_equal(spoor_writer_switch_stream(f->w, 0, 0), 0);
	write_calls_on(f, 0, 500, 1);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 7 + 3); /* calls; definitions, one of them in both segments */
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

static void rotate(struct fixture *f)
{
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
}

/* As on a full disk: no manifest can be written, or again. */
static void let_manifests_be(struct fixture *f, int yes)
{
	char in_their_way[300];

	snprintf(in_their_way, sizeof(in_their_way), "%s/manifest.new", f->path);
	assert_int_equal(yes ? rmdir(in_their_way) : mkdir(in_their_way, 0700), 0);
}

/* A disk that is full for a moment ends no rotation for ever. */
static void test_rotation_without_a_manifest(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 3);
	let_manifests_be(f, 0);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	let_manifests_be(f, 1);
	assert_int_equal(spoor_writer_switch_stream(f->w, 0, 0), 0);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	write_calls_on(f, 0, 200, 5);
	rotate(f);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 3);
	assert_int_equal(count(t), 8);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

/* Whoever hears that a segment could not be ended, and stops: what it wrote until then is not called whole. */
static void test_segment_that_cannot_end(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 3);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	let_manifests_be(f, 0);
	assert_true(spoor_writer_segment_end(f->w, &f->e) < 0);
	spoor_writer_fails(f->w);
	let_manifests_be(f, 1);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 3);
	assert_false(spoor_trace_info(t)->ended);
	spoor_trace_close(t);
}

/* It was found, and is dropped before it is opened: the reader goes on with the others, and says how many went. */
static void test_dropped_while_read(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t, *all;

	open_writer(f, (struct spoor_writer_options){ .max_size = 1 << 20 });
	write_calls_on(f, 0, 1000, 5000);
	rotate(f);
	write_calls_on(f, 0, 10000, 5000);
	t = open_trace(f);
	all = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 2);
	assert_int_equal(count(all), 10000);
	rotate(f);
	write_calls_on(f, 0, 20000, 5000);
	assert_int_equal(count(t), 5000);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	assert_int_equal(spoor_trace_info(t)->dropped_segments, 1);
	spoor_trace_close(t);
	spoor_trace_close(all);
	close_writer(f);
}

/* What no limit took away is missing, and said to be, whether the trace is being written or has ended. */
static void test_removed_while_read(void **state)
{
	struct fixture *f = *state;

	open_writer(f, (struct spoor_writer_options){ .max_size = 1 << 30 });
	write_calls_on(f, 0, 100, 1);
	rotate(f);
	write_calls_on(f, 0, 200, 1);
	rotate(f);
	write_calls_on(f, 0, 300, 1);
	for (unsigned segment = 1; segment <= 2; segment++) {
		struct spoor_trace *t = open_trace(f);
		char path[512], hidden[600];

		stream_path(f, segment, "", path, sizeof(path));
		snprintf(hidden, sizeof(hidden), "%s/gone-%u", f->dir, segment);
		assert_int_equal(rename(path, hidden), 0);
		assert_int_equal(count(t), 3 - segment);
		assert_non_null(strstr(spoor_trace_damage(t, segment - 1), "cpu0: offset 0: No such file"));
		assert_int_equal(spoor_trace_info(t)->n_damages, segment); /* and of an ended one: segment 1 */
		spoor_trace_close(t);
		if (segment == 1)
			close_writer(f);
	}
}

/* What a segment's other stream had loaded is not all by then: definitions are written before the events. */
static void test_defined_while_followed(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;

	open_writer(f, (struct spoor_writer_options){});
	write_calls_on(f, 0, 100, 1);
	write_calls_on(f, 1, 300, 1);
	rotate(f);
	define_stack(f, 200, 1);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	write_calls_on(f, 0, 200, 1);
	write_calls_on(f, 1, 400, 1);
	t = open_trace(f);
	spoor_trace_follow(t);
	do
		assert_int_equal(spoor_trace_next(t, &ev), 1);
	while (ev.h->ts < 200);
	assert_non_null(spoor_segment_stack(ev.segment, 1)); /* while the other stream is in the segment before */
	define_stack(f, 500, 2);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	write_calls_on(f, 1, 500, 1);
	do
		assert_int_equal(spoor_trace_next(t, &ev), 1);
	while (ev.h->ts < 500);
	assert_non_null(spoor_segment_stack(ev.segment, 2));
	spoor_trace_close(t);
	close_writer(f);
}

static unsigned count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned n = 0;

	assert_non_null(maps);
	for (int c; (c = fgetc(maps)) != EOF;)
		n += c == '\n';
	fclose(maps);
	return n;
}

/* A process has 65,530 mappings at most, and a trace may have more segments than that: none keeps one. */
static void test_segments_keep_no_mappings(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	unsigned before;

	open_writer(f, (struct spoor_writer_options){});
	for (unsigned i = 1; i <= 200; i++) {
		define_stack(f, 1000 * i, 1);
		write_calls_on(f, 0, 1000 * i, 1);
		rotate(f);
	}
	close_writer(f);
	t = open_trace(f);
	before = count_mappings();
	assert_int_equal(count(t), 400);
	assert_in_range(count_mappings(), 0, before + 50);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
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

/* ---- the limit ---- */

static uint64_t bytes_seen;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	bytes_seen += S_ISREG(st->st_mode) ? st->st_size / st->st_nlink : 0;
	return 0;
}

static uint64_t bytes_on_disk(struct fixture *f)
{
	bytes_seen = 0;
	assert_int_equal(nftw(f->path, add_bytes, 8, FTW_PHYS), 0);
	return bytes_seen;
}

#define LIMIT (1 << 20)

/* Whatever comes, and however late segments are ended. */
static void test_max_size(void **state)
{
	struct fixture *f = *state;
	uint64_t ts = 1000;
	struct spoor_trace *t;
	unsigned kept;

	open_writer(f, (struct spoor_writer_options){ .max_size = LIMIT });
	for (unsigned i = 0; i < 100; i++, ts += 1000) {
		write_calls_on(f, i & 1, ts, 100 + i * 7 % 900);
		for (unsigned k = 0; k < 20; k++)
			define_stack(f, ts, i * 20 + k + 1);
		assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
		assert_in_range(bytes_on_disk(f), 0, LIMIT);
		if (i % 3 == 0 && spoor_writer_should_rotate(f->w, ts))
			rotate(f);
	}
	assert_int_equal(spoor_writer_lost(f->w), 0);
	close_writer(f);
	assert_in_range(bytes_on_disk(f), LIMIT / 2, LIMIT);
	t = open_trace(f);
	kept = count(t);
	assert_in_range(kept, LIMIT / 2 / CALL_SIZE, LIMIT / CALL_SIZE);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

/* Where nothing is closed nothing can be dropped: what does not fit is counted, and what was kept stays. */
static void test_max_size_without_room(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	unsigned kept;

	open_writer(f, (struct spoor_writer_options){ .max_size = LIMIT });
	for (unsigned i = 0; i < 30; i++)
		write_calls_on(f, 0, 1000 * (i + 1), 1000);
	assert_in_range(bytes_on_disk(f), LIMIT / 2, LIMIT);
	assert_int_not_equal(spoor_writer_lost(f->w), 0);
	rotate(f);
	write_calls_on(f, 0, 100000, 1000);  /* and it goes on */
	write_calls_on(f, 0, 200000, 20000); /* more than it can hold at all */
	close_writer(f);
	assert_in_range(bytes_on_disk(f), 0, LIMIT);
	t = open_trace(f);
	kept = count(t);
	assert_true(kept > 0 && kept % 1000 == 0);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

/* What happened to names that are not hidden. */
static uint32_t watched(int fd)
{
	char buf[16384] __attribute__((aligned(8)));
	ssize_t n = read(fd, buf, sizeof(buf));
	uint32_t mask = 0;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const void *)(buf + at);

		at += sizeof(*ev) + ev->len;
		if (ev->len && ev->name[0] != '.')
			mask |= ev->mask & IN_ALL_EVENTS;
	}
	return mask;
}

/* Whoever looks at a segment meanwhile, another reader or a copy, finds one with its metadata or none. */
static void test_never_without_metadata(void **state)
{
	struct fixture *f = *state;
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char path[512];

	assert_true(fd >= 0);
	open_writer(f, (struct spoor_writer_options){ .max_size = LIMIT });
	stream_path(f, 1, "..", path, sizeof(path));
	assert_true(inotify_add_watch(fd, path, IN_CREATE | IN_DELETE | IN_MOVE) >= 0);
	rotate(f);
	assert_int_equal(watched(fd), IN_MOVED_TO);
	for (unsigned i = 0; i < 5; i++) {
		write_calls_on(f, 0, 10000 + i * 10000, 5000);
		rotate(f);
	}
	assert_int_equal(watched(fd), IN_MOVED_TO | IN_MOVED_FROM);
	assert_int_not_equal(access(path, F_OK), 0); /* the first was dropped */
	close_writer(f);
	close(fd);
}

/* ---- snapshots ---- */

/* It has the closed segments, the recording goes on, and what --max-size removes there stays here. */
/* A pair a segment for years: the manifest keeps some, and those about a step of a clock. */
static void test_pairs_of_clocks(void **state)
{
	struct spoor_clock c = { .h = { .id = SPOOR_EV_CLOCK, .size4 = sizeof(c) / 4 } };
	struct fixture *f = *state;
	unsigned long monotonic;
	unsigned n = 0, about = 0;
	char path[128], line[128];
	FILE *in;

	open_writer(f, (struct spoor_writer_options){ .n_cpus = 1 });
	for (unsigned i = 1; i <= 5000; i++) {
		c.h.ts = 1000000000000000UL + i * 1000000000UL;
		c.boottime = c.h.ts;
		c.realtime = c.h.ts + i * 400000 + (i > 1001 ? 3600000000000UL : 0); /* slewed, and set once */
		assert_int_equal(spoor_writer_define(f->w, (void *)&c), 0);
	}
	close_writer(f);
	snprintf(path, sizeof(path), "%s/manifest", f->path);
	in = fopen(path, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, " \"monotonic\": %lu", &monotonic) != 1)
			continue;
		n++;
		about += monotonic == 1001001000000000UL || monotonic == 1001002000000000UL;
	}
	fclose(in);
	assert_in_range(n, 100, 256);
	assert_int_equal(about, 2);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_rotation),
		TEST_OF_TRACE(test_rotation_without_a_manifest),
		TEST_OF_TRACE(test_segment_that_cannot_end),
		TEST_OF_TRACE(test_dropped_while_read),
		TEST_OF_TRACE(test_removed_while_read),
		TEST_OF_TRACE(test_defined_while_followed),
		TEST_OF_TRACE(test_segments_keep_no_mappings),
		TEST_OF_TRACE(test_take_over),
		TEST_OF_TRACE(test_max_size),
		TEST_OF_TRACE(test_max_size_without_room),
		TEST_OF_TRACE(test_never_without_metadata),
		TEST_OF_TRACE(test_pairs_of_clocks),
		TEST_OF_TRACE(test_snapshot),
		TEST_OF_TRACE(test_snapshot_no_space),
		TEST_OF_TRACE(test_snapshot_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

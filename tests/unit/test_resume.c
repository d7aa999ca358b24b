/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A writer that was killed, and the next one; what it knows of closed segments without reading them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "trace/digest.h"
#include "trace/reader.h"
#include "trace/source_list.h"
#include "trace/writer.h"

#include "no_store.h"
#include "user_trace_fixture.h"

/* In a process of its own, for the lock on the trace goes with it. */
static void write_and_die(struct fixture *f)
{
	struct spoor_packet_source source = { { 7 }, 3, 100 };
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		uint16_t id;

		open_user_writer(f, (struct spoor_writer_options){ .command = "first" });
		add_class(f, "a:b");
		spoor_writer_segment_begin(f->w, &f->e);
		id = add_class(f, "c:d");
		spoor_writer_switch_lanes(f->w);
		spoor_writer_flush(f->w, &f->e);
		write_lane(f, 1, id, 10, &source);
		spoor_writer_segment_end(f->w, &f->e);
		write_lane(f, 0, id, 15, &source);
		write_lane(f, 1, id, 9, NULL); /* lost: out of order; the next packet tells of it */
		write_lane(f, 1, id, 12, NULL);
		source.position = 200;
		write_lane(f, 1, id, 20, &source);
		add_class(f, "never:defined");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void resume(struct fixture *f)
{
	struct spoor_writer_options o = { .path = f->path, .n_lanes = 4, .command = "second", .resume = 1 };

	if (spoor_writer_open(&o, &f->w, &f->e) < 0)
		fail_msg("%s", f->e.text);
}

static void test_resume(void **state)
{
	struct spoor_packet_source found = { .serial = 3 };
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	unsigned n = 0, classes = 0;
	char path[512];
	struct stat st;

	write_and_die(f);
	user_file(f, 2, "lane1", path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 5), 0); /* the one of time 20 is torn */
	t = open_trace(f);
	assert_int_equal(spoor_trace_sources(t, take_source, &found), 0);
	assert_int_equal(found.position, 100);
	spoor_trace_close(t);
	resume(f);
	assert_int_equal(spoor_writer_lane_end(f->w, 1), 12);
	assert_int_equal(spoor_writer_lane_end(f->w, 0), 15);
	assert_int_equal(spoor_writer_lane_end(f->w, 2), 0);
	assert_string_equal((const char *)spoor_writer_known_class(f->w, 1)->data, "c:d");
	assert_null(spoor_writer_known_class(f->w, 2));
	assert_int_equal(write_lane(f, 1, SPOOR_EV_USER, 11, NULL), -EINVAL);
	assert_int_equal(add_class(f, "e:f"), SPOOR_EV_USER + 2);
	spoor_writer_flush(f->w, &f->e);
	assert_int_equal(write_lane(f, 1, SPOOR_EV_USER + 2, 20, NULL), 0);
	assert_int_equal(write_lane(f, 1, SPOOR_EV_USER + 1, 30, NULL), 0);
	close_writer(f);
	t = open_trace(f);
	assert_string_equal(spoor_trace_info(t)->command, "first");
	assert_true(spoor_trace_info(t)->ended && spoor_trace_info(t)->n_segments == 3);
	while (spoor_trace_next(t, &ev) > 0) {
		n += ev.class != NULL;
		classes += ev.h->id == SPOOR_EV_CLASS;
		if (ev.h->ts == 20 && ev.class)
			assert_string_equal(ev.class->name, "e:f");
	}
	assert_int_equal(n, 5);
	assert_int_equal(classes, 2 + 2 + 3);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	assert_int_equal(spoor_trace_discarded(t), 2); /* one of each writer */
	spoor_trace_close(t);
}

static void test_resume_forgets_what_was_not_defined(void **state)
{
	struct fixture *f = *state;
	char path[512], *text;
	FILE *file;

	write_and_die(f);
	resume(f);
	close_writer(f);
	user_file(f, 2, "metadata", path, sizeof(path));
	text = calloc(1, 1 << 20);
	file = fopen(path, "re");
	assert_true(file && fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	assert_non_null(strstr(text, "\"c:d\""));
	assert_null(strstr(text, "never:defined"));
	free(text);
}

static int try_resume(struct fixture *f, struct spoor_writer_options o)
{
	int r;

	o.path = f->path;
	o.resume = 1;
	r = spoor_writer_open(&o, &f->w, &f->e);
	if (r >= 0)
		close_writer(f);
	return r;
}

static void test_what_cannot_be_resumed(void **state)
{
	struct fixture *f = *state;
	uint8_t boot[16] = { 1 };
	struct spoor_writer *w;
	char path[512];

	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4 }), -ENOENT);
	write_and_die(f);
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_cpus = 4 }), -EINVAL);
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4, .boot_id = boot }), -ESTALE);
	resume(f);
	w = f->w;
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4 }), -EBUSY);
	f->w = w;
	close_writer(f);
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4 }), 0); /* also one that ended */
	snprintf(path, sizeof(path), "%s/manifest", f->path);
	assert_int_equal(truncate(path, 30), 0);
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4 }), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(try_resume(f, (struct spoor_writer_options){ .n_lanes = 4 }), -ENOENT);
}

/* ---- checkpoints ---- */

#define MOST_KNOWN 16

struct known {
	struct spoor_packet_source s[MOST_KNOWN];
	unsigned n;
};

static int note_known(const struct spoor_packet_source *s, void *p)
{
	struct known *k = p;

	assert_true(k->n < MOST_KNOWN);
	k->s[k->n++] = *s;
	return 0;
}

static struct known known(const struct fixture *f)
{
	struct known k = {};

	assert_int_equal(spoor_writer_sources(f->w, note_known, &k), 0);
	return k;
}

static void expect_known(const struct fixture *f, unsigned n, const struct spoor_packet_source *s)
{
	struct known k = known(f);

	assert_int_equal(k.n, n);
	assert_memory_equal(k.s, s, n * sizeof(*s));
}

/* What a writer does from its begin to its end: one event from each source, one after the other from `ts` on. */
static void take(struct fixture *f, uint64_t ts, unsigned n, const struct spoor_packet_source *s)
{
	uint16_t id = spoor_writer_known_class(f->w, 0) ? SPOOR_EV_USER : add_class(f, "a:b");

	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(write_lane(f, i % 2, id, ts + i, &s[i]), 0);
}

static const struct spoor_packet_source first[] = {
	{ {}, 0, 7 }, { { 1 }, 0, 3 }, { { 1 }, 4, 100 }, { { 1 }, 4, 200 }, { { 1 }, 5, 80 }, { { 2 }, 9, 64 },
};
static const struct spoor_packet_source second[] = { { {}, 0, 9 }, { { 1 }, 6, 40 } };

static void begin(struct fixture *f)
{
	open_user_writer(f, (struct spoor_writer_options){});
	take(f, 10, 6, first);
	close_writer(f);
}

/* Of each packet of a buffer the last position, and of sums. */
static void test_last_sources(void **state)
{
	const struct spoor_packet_source once[] = { first[0], first[1], first[3], first[4], first[5] };
	const struct spoor_packet_source then[] = { second[0], first[1], first[3], first[4], second[1], first[5] };
	struct fixture *f = *state;

	begin(f);
	for (int i = 0; i < 3; i++) { /* also if nothing came since */
		resume(f);
		expect_known(f, 5, once);
		if (i == 2)
			take(f, 30, 2, second);
		close_writer(f);
	}
	for (int i = 0; i < 3; i++) {
		resume(f);
		expect_known(f, 6, then);
		close_writer(f);
	}
}

/* What is read of it now is not there. */
static void empty_segment(struct fixture *f, unsigned number)
{
	static const char *const files[] = { "lane0", "lane1", "defs" };
	char path[512];

	for (unsigned i = 0; i < 3; i++) {
		user_file(f, number, files[i], path, sizeof(path));
		assert_int_equal(truncate(path, 0), 0);
	}
}

/* A closed segment is not read again: here it could not be. All that it said is known all the same. */
static void test_closed_segments_are_not_read(void **state)
{
	const struct spoor_packet_source then[] = { second[0], first[1], first[3], first[4], second[1], first[5] };
	struct fixture *f = *state;
	struct spoor_trace *t;

	begin(f);
	resume(f);
	take(f, 30, 2, second);
	close_writer(f);
	empty_segment(f, 1);
	resume(f);
	expect_known(f, 6, then);
	assert_int_equal(spoor_writer_lane_end(f->w, 0), 30);
	assert_int_equal(spoor_writer_lane_end(f->w, 1), 31);
	assert_string_equal((const char *)spoor_writer_known_class(f->w, 0)->data, "a:b");
	assert_null(spoor_writer_known_class(f->w, 1));
	close_writer(f);
	t = open_trace(f); /* that its bytes are gone is told none the less */
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	assert_non_null(strstr(spoor_trace_damage(t, 0), "ust: segment 1: "));
	spoor_trace_close(t);
}

/* Without a checkpoint, and with each that is damaged, all is as with one. */
static void test_damaged_checkpoints(void **state)
{
	const struct spoor_packet_source then[] = { second[0], first[1], first[3], first[4], second[1], first[5] };
	struct fixture *f = *state;
	char path[512], byte;
	struct stat st;
	off_t from_end = 0;
	int fd;

	begin(f);
	resume(f);
	take(f, 30, 2, second);
	close_writer(f);
	user_file(f, 1, "../.checkpoint", path, sizeof(path));
	while ((from_end += 8) < 700) { /* it grows by a segment each time */
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(pread(fd, &byte, 1, st.st_size - from_end), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, st.st_size - from_end), 1);
		close(fd);
		resume(f);
		expect_known(f, 6, then);
		assert_int_equal(spoor_writer_lane_end(f->w, 1), 31);
		assert_null(spoor_writer_known_class(f->w, 1));
		close_writer(f);
	}
	assert_int_equal(truncate(path, 0), 0);
	resume(f);
	expect_known(f, 6, then);
	close_writer(f);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0); /* then there is none, and it goes on */
	resume(f);
	expect_known(f, 6, then);
	close_writer(f);
}

/* A segment that went since is not in the manifest any more, and its number is not used again. */
static void test_segments_that_went(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[512], command[600];

	begin(f);
	for (int i = 0; i < 3; i++) {
		resume(f);
		close_writer(f);
	}
	user_file(f, 3, "", path, sizeof(path));
	snprintf(command, sizeof(command), "rm -r %s", path);
	assert_int_equal(system(command), 0);
	resume(f);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 4); /* 1, 2, 4, 5 */
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	user_file(f, 5, "metadata", path, sizeof(path));
	assert_int_equal(access(path, F_OK), 0);
}

/* As a writer leaves it that is killed when its segment has all but its name. */
static void test_segment_without_a_name(void **state)
{
	struct fixture *f = *state;
	char metadata[512], hidden[512], its_metadata[512];
	struct spoor_trace *t;

	begin(f);
	user_file(f, 1, "metadata", metadata, sizeof(metadata));
	user_file(f, 1, "../.seg-000002", hidden, sizeof(hidden));
	user_file(f, 1, "../.seg-000002/metadata", its_metadata, sizeof(its_metadata));
	assert_int_equal(mkdir(hidden, 0700), 0);
	assert_int_equal(link(metadata, its_metadata), 0);
	resume(f);
	take(f, 30, 2, second);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_info(t)->n_segments, 2);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	assert_int_equal(access(hidden, F_OK), -1);
}

static void test_nothing_is_left_of_it(void **state)
{
	struct fixture *f = *state;
	char path[512];

	begin(f);
	resume(f);
	user_file(f, 1, "../.checkpoint", path, sizeof(path));
	assert_int_equal(access(path, F_OK), 0);
	spoor_writer_last(f->w);
	assert_int_equal(access(path, F_OK), -1);
	close_writer(f);
	resume(f); /* all the same */
	assert_int_equal(known(f).n, 5);
	close_writer(f);
}

/* ---- digests ---- */

static void expect_digest(struct fixture *f, uint64_t window, unsigned n, const struct spoor_packet_source *s)
{
	struct spoor_source_list l = {};
	uint8_t boot[16];
	size_t len = 0;
	void *digest = NULL;

	assert_int_equal(spoor_boot_id(boot), 0);
	assert_int_equal(spoor_digest_make(f->path, boot, window, &digest, &len, &f->e), 0);
	assert_int_equal(spoor_digest_sources(digest, len, spoor_source_list_add, &l), 0);
	spoor_source_list_sort(&l);
	assert_int_equal(l.n, n);
	assert_memory_equal(l.all, s, n * sizeof(*s));
	spoor_source_list_done(&l);
	free(digest);
}

#define WIDE (1 << 20)
#define ONE_PACKET (88 + 24 + 32) /* header, event, source */

/* Nor is one read again for a digest; that has of packets what is in its window, and counts always. */
static void test_digest_reads_what_came_since(void **state)
{
	const struct spoor_packet_source once[] = { first[0], first[1], first[3], first[4], first[5] };
	const struct spoor_packet_source then[] = { second[0], first[1], first[3], first[4], second[1], first[5] };
	const struct spoor_packet_source late[] = { second[0], first[1], second[1] };
	struct fixture *f = *state;

	begin(f);
	expect_digest(f, WIDE, 5, once);
	empty_segment(f, 1);
	expect_digest(f, WIDE, 5, once);
	resume(f);
	take(f, 30, 2, second);
	close_writer(f);
	expect_digest(f, WIDE, 6, then);
	expect_digest(f, ONE_PACKET, 3, late); /* more than that came since what is known of before */
	empty_segment(f, 2);
	expect_digest(f, ONE_PACKET, 3, late);
	expect_digest(f, WIDE, 3, late);
}

/* What a relay tells of a trace that was begun, and behind that this; what becomes of it. */
static int go_on_by(struct fixture *f, const void *record, size_t size)
{
	const uint32_t end[] = { SPOOR_DIGEST_END, 0 };
	struct spoor_store store = { .ops = &no_store };
	struct spoor_writer_options o = { .path = "t.spoor", .n_lanes = 4, .resume = 1, .store = &store };
	const void *manifest;
	uint8_t boot[16], *digest;
	void *whole = NULL;
	uint32_t type;
	size_t len = 0, at = 0;
	int r;

	assert_int_equal(spoor_boot_id(boot), 0);
	assert_int_equal(spoor_digest_make(f->path, boot, WIDE, &whole, &len, &f->e), 0);
	assert_int_equal(spoor_digest_next(whole, len, &at, &type, &manifest, &len), 1);
	assert_int_equal(type, SPOOR_DIGEST_MANIFEST);
	host_name(store.host, sizeof(store.host));
	store.digest = digest = malloc(at + size + sizeof(end));
	memcpy(digest, whole, at);
	memcpy(digest + at, record, size);
	memcpy(digest + at + size, end, sizeof(end));
	store.digest_len = at + size + sizeof(end);
	r = spoor_writer_open(&o, &f->w, &f->e);
	if (!r)
		spoor_writer_close(f->w, NULL);
	f->w = NULL;
	free(digest);
	free(whole);
	return r;
}

/* A class whose words would go on behind it, and an object's number that no frame can have. */
static void test_digest_that_makes_no_sense(void **state)
{
	struct {
		uint32_t type, size;
		struct spoor_class c;
		char name[4];
	} class = { SPOOR_DIGEST_CLASS, 32,
		    { .h = { .size4 = 8 }, .event = SPOOR_EV_USER, .kind = SPOOR_CLASS_TRACEPOINT }, "" };
	struct {
		uint32_t type, size;
		struct spoor_digest_ids ids;
	} ids = { SPOOR_DIGEST_IDS, sizeof(ids.ids), { 7, SPOOR_MAX_OBJECTS - 1 } };
	struct fixture *f = *state;

	begin(f);
	assert_int_equal(go_on_by(f, &ids, sizeof(ids)), 0);
	ids.ids.least_object = SPOOR_MAX_OBJECTS;
	assert_int_equal(go_on_by(f, &ids, sizeof(ids)), -EBADMSG);
	memcpy(class.name, "a:\0", 4); /* with an empty file behind it */
	class.c.len = 4;
	assert_int_equal(go_on_by(f, &class, sizeof(class)), 0);
	memcpy(class.name, "a:b", 4);
	class.c.len = 6; /* to the NUL in what follows */
	assert_int_equal(go_on_by(f, &class, sizeof(class)), -EBADMSG);
}

/* Who looks whether the trace is being written holds its lock for a moment. */
static void test_lock_of_a_reader(void **state)
{
	struct fixture *f = *state;
	int fd, status;
	pid_t pid;

	begin(f);
	fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		usleep(20000);
		flock(fd, LOCK_UN);
		_exit(0);
	}
	resume(f);
	close_writer(f);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_resume),
		TEST_OF_TRACE(test_resume_forgets_what_was_not_defined),
		TEST_OF_TRACE(test_what_cannot_be_resumed),
		TEST_OF_TRACE(test_last_sources),
		TEST_OF_TRACE(test_closed_segments_are_not_read),
		TEST_OF_TRACE(test_damaged_checkpoints),
		TEST_OF_TRACE(test_segments_that_went),
		TEST_OF_TRACE(test_segment_without_a_name),
		TEST_OF_TRACE(test_nothing_is_left_of_it),
		TEST_OF_TRACE(test_digest_reads_what_came_since),
		TEST_OF_TRACE(test_digest_that_makes_no_sense),
		TEST_OF_TRACE(test_lock_of_a_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

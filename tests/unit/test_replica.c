/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations of a writer elsewhere: each can be repeated, none makes sense out of its bounds. And those that wait. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/relay/queue.h"
#include "trace/replica.h"
#include "trace/writer.h"

#define UST SPOOR_STREAM_UST

struct fixture {
	char dir[64];
	int fd;
	struct spoor_replica *r;
};

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void reopen(struct fixture *f)
{
	spoor_replica_close(f->r);
	assert_int_equal(spoor_replica_open(f->fd, "t.spoor", "host", 1u << UST, &f->r), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/spoor-replica-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	reopen(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	spoor_replica_close(f->r);
	close(f->fd);
	nftw(f->dir, drop, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static void expect(const struct fixture *f, const char *name, const char *content)
{
	char path[256], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/t.spoor/%s", f->dir, name);
	file = fopen(path, "r");
	if (!content) {
		assert_null(file);
		return;
	}
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(text, content);
}

static void one_segment(struct fixture *f, unsigned n)
{
	assert_int_equal(spoor_replica_segment(f->r, UST, n), 0);
	assert_int_equal(spoor_replica_metadata(f->r, UST, n, 0, "meta", 4), 0);
	assert_int_equal(spoor_replica_ready(f->r, UST, n), 0);
}

static void some_data(struct fixture *f)
{
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 3, 0, "first", 5), 0);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 3, 5, "second", 6), 0);
	assert_int_equal(spoor_replica_metadata(f->r, UST, 1, 4, " more", 5), 0);
	assert_int_equal(spoor_replica_manifest(f->r, 0, 0, "{ \"a\"", 5), 0);
	assert_int_equal(spoor_replica_manifest(f->r, 5, 1, ": 1 }", 5), 0);
}

/* All of it twice, and once more by another process: the same files. */
static void test_repeated(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		one_segment(f, 1);
		some_data(f);
		expect(f, "host/ust/seg-000001/lane3", "firstsecond");
		expect(f, "host/ust/seg-000001/metadata", "meta more");
		expect(f, "manifest", "{ \"a\": 1 }");
		if (i)
			reopen(f);
	}
	/* from the middle on */
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 3, 5, "second", 6), 0);
	assert_int_equal(spoor_replica_manifest(f->r, 5, 1, ": 1 }", 5), 0);
	expect(f, "host/ust/seg-000001/lane3", "firstsecond");
	expect(f, "manifest", "{ \"a\": 1 }");
}

static void test_metadata_ends(void **state)
{
	struct fixture *f = *state;

	one_segment(f, 1);
	assert_int_equal(spoor_replica_metadata(f->r, UST, 1, 4, " more", 5), 0);
	assert_int_equal(spoor_replica_metadata(f->r, UST, 1, 4, NULL, 0), 0);
	expect(f, "host/ust/seg-000001/metadata", "meta");
}

/* What belongs to a segment that was dropped already is passed over; a new one under its number ends as it did. */
static void test_dropped(void **state)
{
	struct fixture *f = *state;

	one_segment(f, 1);
	some_data(f);
	assert_int_equal(spoor_replica_drop(f->r, UST, 1), 0);
	expect(f, "host/ust/seg-000001/metadata", NULL);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 3, 5, "second", 6), 0);
	assert_int_equal(spoor_replica_metadata(f->r, UST, 1, 4, "x", 1), 0);
	assert_int_equal(spoor_replica_ready(f->r, UST, 1), 0);
	assert_int_equal(spoor_replica_drop(f->r, UST, 1), 0);
	expect(f, "host/ust/seg-000001/lane3", NULL);
	expect(f, "host/ust/.seg-000001/lane3", NULL);
}

static void test_nonsense(void **state)
{
	struct fixture *f = *state;

	one_segment(f, 1);
	assert_int_equal(spoor_replica_segment(f->r, SPOOR_STREAM_KERNEL, 1), -EBADMSG);
	assert_int_equal(spoor_replica_segment(f->r, 2, 1), -EBADMSG);
	assert_int_equal(spoor_replica_segment(f->r, UST, 0), -EBADMSG);
	assert_int_equal(spoor_replica_segment(f->r, UST, UINT32_MAX), -EBADMSG);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 64, 0, "x", 1), -EBADMSG);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, SPOOR_INSTANCE_DEFS(2), 0, "x", 1), -EBADMSG);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 1, 1, "x", 1), -EBADMSG);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 1, UINT64_MAX, "xx", 2), -EBADMSG);
	assert_int_equal(spoor_replica_metadata(f->r, UST, 1, 9, "x", 1), -EBADMSG);
}

/* Many streams: files are closed and opened again, and nothing comes to a wrong place. */
static void test_many_files(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 1; n <= 4; n++)
		one_segment(f, n);
	for (unsigned turn = 0; turn < 2; turn++)
		for (unsigned n = 1; n <= 4; n++)
			for (unsigned lane = 0; lane < 64; lane++) {
				char text[2] = { (char)('a' + n), (char)('0' + lane % 10) };

				assert_int_equal(spoor_replica_data(f->r, UST, n, lane, turn * 2UL, text, 2), 0);
			}
	expect(f, "host/ust/seg-000001/lane0", "b0b0");
	expect(f, "host/ust/seg-000004/lane63", "e3e3");
}

static void test_removed(void **state)
{
	struct fixture *f = *state;
	char path[128];

	one_segment(f, 1);
	some_data(f);
	snprintf(path, sizeof(path), "%s/t.spoor", f->dir);
	nftw(path, drop, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(spoor_replica_data(f->r, UST, 1, 3, 11, "x", 1), -ENOENT);
	assert_int_equal(spoor_replica_manifest(f->r, 0, 1, "x", 1), -ENOENT);
}

static void test_one_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct spoor_replica *other;

	assert_int_equal(spoor_replica_open(f->fd, "t.spoor", "host", 1u << UST, &other), -EBUSY);
}

/* ---- the queue ---- */

static void add(struct relay_queue *q, size_t len)
{
	static uint8_t bytes[SPOOR_RELAY_DATA];
	struct iovec iov[] = { { bytes, len / 2 }, { bytes, len - len / 2 } };
	struct relay_cursor c = { iov, 2, 0 };
	const struct spoor_relay_op op = { .head.type = SPOOR_RELAY_PACKET };
	size_t before = q->bytes;

	assert_int_equal(relay_queue_add(q, &op, false, &c), 0);
	assert_int_equal(q->bytes - before, relay_queue_cost(len));
}

static void test_queue(void **state)
{
	struct relay_queue q = {};

	for (int i = 1; i <= 5; i++)
		add(&q, i * 1000UL);
	assert_int_equal(q.added, 5);
	assert_int_equal(relay_queue_remove(&q, 1), -EBADMSG); /* nothing was sent */
	q.unsent = q.first->next->next;
	assert_int_equal(relay_queue_remove(&q, 2), 0);
	assert_int_equal(relay_queue_remove(&q, 3), -EBADMSG);
	assert_int_equal(relay_queue_remove(&q, 1), 0); /* again */
	assert_int_equal(q.first->op.head.number, 3);
	q.unsent = NULL;
	relay_queue_rewind(&q);
	assert_ptr_equal(q.unsent, q.first);
	relay_queue_clear(&q);
	assert_int_equal(q.bytes, 0);
	assert_int_equal(q.removed, 5);
	add(&q, 1);
	assert_int_equal(q.unsent->op.head.number, 6);
	relay_queue_clear(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_repeated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_metadata_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
		cmocka_unit_test(test_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

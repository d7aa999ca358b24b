/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Full disks, vanished directories, torn, damaged and odd files: what is whole is read, the rest is told. */
#include "trace_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "trace/schema.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_space, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_vanishes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_repair, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_event, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_layout, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

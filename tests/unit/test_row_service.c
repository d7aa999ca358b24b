/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows from the service that compiles them and from the cache of its files. */
#include "rows_fixture.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/syscall.h>

#include "unwind/row_cache.h"

struct service {
	char dir[64];
	struct spoor_rowd *d;
};

static int set_up(void **state)
{
	struct service *s = calloc(1, sizeof(*s));

	strcpy(s->dir, "/tmp/spoor-test-rows-XXXXXX");
	*state = s;
	return !mkdtemp(s->dir) || spoor_rowd_start(s->dir, &s->d, NULL) < 0;
}

static int tear_down(void **state)
{
	struct service *s = *state;
	char command[128];

	spoor_rowd_stop(s->d);
	snprintf(command, sizeof(command), "rm -r %s", s->dir);
	free(s);
	return system(command);
}

static int get(struct spoor_rowd *d, const char *path, struct spoor_object_identity *id, struct spoor_rows *rows)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return spoor_rowd_get(d, fd, id, rows, NULL);
}

static void cache_path(const struct service *s, const struct spoor_object_identity *id, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%016llx%016llx", s->dir, (unsigned long long)id->hash[1],
		 (unsigned long long)id->hash[0]);
}

static void test_service_and_cache_give_the_same_rows(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows first, second, here;
	struct service *s = *state;
	struct spoor_object_identity id;
	char path[256];
	struct stat st;
	size_t size;
	void *image;

	assert_int_equal(get(s->d, LIBC, &id, &first), 0);
	cache_path(s, &id, path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(get(s->d, LIBC, &id, &second), 0);
	image = map(LIBC, &size);
	assert_int_equal(spoor_rows_compile(image, size, &here, NULL), 0);
	munmap(image, size);
	assert_int_equal(first.mem_size, here.mem_size);
	assert_int_equal(first.table.n_rows, here.table.n_rows);
	assert_memory_equal(first.table.pages, here.table.pages, (char *)first.mem + first.mem_size -
			    (char *)first.table.pages);
	assert_memory_equal(first.mem, second.mem, first.mem_size);
}

static void test_a_damaged_cache_file_is_made_anew(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 }, again = { 0 };
	struct service *s = *state;
	struct spoor_object_identity id;
	char path[256];
	struct stat st;
	int fd;

	assert_int_equal(get(s->d, LIBC, &id, &rows), 0);
	cache_path(s, &id, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\377\377\377\377", 4, rows.mem_size - 64), 4);
	close(fd);
	assert_int_equal(get(s->d, LIBC, &id, &again), 0);
	assert_memory_equal(rows.mem, again.mem, rows.mem_size);
	spoor_rows_free(&again);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(get(s->d, LIBC, &id, &again), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, rows.mem_size);
	spoor_rows_free(&again);
	/* Writable by others: not ours to believe. */
	assert_int_equal(chmod(path, 0622), 0);
	assert_int_equal(get(s->d, LIBC, &id, &again), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_objects_without_rows_are_remembered(void **state)
{
	struct service *s = *state;
	struct spoor_object_identity id;
	struct spoor_rows rows;
	char path[4096];
	struct stat st;

	path_of(path, sizeof(path), "no_information");
	assert_int_equal(get(s->d, path, &id, &rows), -ENODATA);
	cache_path(s, &id, path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct spoor_row_file));
	path_of(path, sizeof(path), "no_information");
	assert_int_equal(get(s->d, path, &id, &rows), -ENODATA);
	assert_int_equal(get(s->d, "/etc/passwd", &id, &rows), -ENOEXEC);
	assert_true(id.size > 0);
}

/* The server is our only child here. */
static pid_t server_of(void)
{
	char path[64], text[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	assert_non_null(f);
	if (!fgets(text, sizeof(text), f))
		*text = 0;
	fclose(f);
	return atoi(text);
}

static void test_a_dead_server_is_replaced(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 };
	struct service *s = *state;
	struct spoor_object_identity id;
	pid_t pid = server_of();

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(get(s->d, LIBC, &id, &rows), 0);
	assert_int_not_equal(server_of(), pid);
}

/* After an answer of it: it is through with its setup. */
static void check_server(unsigned uid)
{
	bool no_new_privs = false;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)server_of());
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "CapEff:", 7) || !strncmp(line, "CapPrm:", 7))
			assert_int_equal(strtoull(line + 7, NULL, 16), 0);
		if (!strncmp(line, "Uid:", 4))
			assert_int_equal(atoi(line + 4), uid);
		no_new_privs |= !strcmp(line, "NoNewPrivs:\t1\n");
	}
	fclose(f);
	assert_true(no_new_privs);
}

static void test_the_server_has_no_privileges(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 };
	struct service *s = *state;
	struct spoor_object_identity id;

	assert_int_equal(get(s->d, LIBC, &id, &rows), 0);
	check_server(geteuid() ? geteuid() : 65534);
}

/* Such as comes in the place of another after capabilities were given up; or one in a container. */
static void test_a_server_that_cannot_become_nobody(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct before[2], less[2];
	struct service *s = *state;
	struct spoor_object_identity id;
	int r;

	assert_int_equal(syscall(SYS_capget, &header, before), 0);
	memcpy(less, before, sizeof(less));
	less[0].effective &= ~(1U << CAP_SETUID | 1U << CAP_SETGID);
	assert_int_equal(syscall(SYS_capset, &header, less), 0);
	kill(server_of(), SIGKILL);
	r = get(s->d, LIBC, &id, &rows);
	assert_int_equal(syscall(SYS_capset, &header, before), 0);
	assert_int_equal(r, 0);
	check_server(geteuid());
}

static void test_indexes_of_a_hostile_table_are_refused(void **state)
{
	struct spoor_rows rows = compile("all"), again;
	struct spoor_row_file *f = rows.mem;
	struct spoor_row *row = (struct spoor_row *)rows.table.rows;
	struct spoor_row_page *page = (struct spoor_row_page *)rows.table.pages;
	struct spoor_row_file header = *f;

	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), 0);
	row[3].rule = f->n_rules;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	row[3].rule = 0;
	page->first = 1;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	page->first = UINT32_MAX;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	page->first = 0;
	page->count = f->n_rows + 1;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	page->count = 1;
	f->n_rows = UINT32_MAX;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	*f = header;
	f->n_pages = UINT32_MAX;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), -EBADMSG);
	*f = header;
	assert_int_equal(spoor_row_file_open(f, rows.mem_size - 1, &again), -EBADMSG);
	assert_int_equal(spoor_row_file_open(f, rows.mem_size, &again), 0);
	spoor_rows_free(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_indexes_of_a_hostile_table_are_refused),
		cmocka_unit_test_setup_teardown(test_service_and_cache_give_the_same_rows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_damaged_cache_file_is_made_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_objects_without_rows_are_remembered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_dead_server_is_replaced, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_server_has_no_privileges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_server_that_cannot_become_nobody, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

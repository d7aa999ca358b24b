/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "present/stat_screen.h"
#include "trace/record.h"

#define READ 0
#define WRITE 1
#define GETPPID 110
#define EXIT_GROUP 231

static uint64_t seed = 20251121;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct spoor_task_counters *add_task(struct spoor_counters *c, pid_t pid, pid_t tid, const char *comm)
{
	struct spoor_task_counters *t = spoor_counters_add_task(c);

	t->pid = pid;
	t->tid = tid;
	t->start_ns = (uint64_t)tid;
	t->process_start_ns = (uint64_t)pid;
	t->threads = 1;
	memcpy(t->comm, comm, strnlen(comm, sizeof(t->comm)));
	return t;
}

static struct spoor_call_counters *count(struct spoor_task_counters *t, uint16_t id, uint32_t stack, uint64_t n,
					 uint64_t ns)
{
	struct spoor_call_counters *c = spoor_task_add_call(t, id, stack);

	c->calls = n;
	c->ns = n * ns;
	c->blocked_ns = n * (ns / 4);
	c->min_ns = c->max_ns = n ? ns : 0;
	c->histogram[spoor_histogram_bucket(ns)] = n;
	return c;
}

static char *print(const struct spoor_counters *c, const struct spoor_stat_view *v)
{
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(spoor_stat_print(out, c, v), 0);
	fclose(out);
	return text;
}

static void expect(const struct spoor_counters *c, const struct spoor_stat_view *v, const char *expected)
{
	_cleanup_(spoor_freep) char *text = print(c, v);

	assert_string_equal(text, expected);
}

static void make_simple(struct spoor_counters *c)
{
	struct spoor_task_counters *t = add_task(c, 20, 20, "lego");

	t->threads = 46;
	count(t, READ, 0, 13, 1000003)->errors = 7;
	spoor_call_add_errno(&t->calls[0], EINTR, 2);
	spoor_call_add_errno(&t->calls[0], EAGAIN, 4);
	count(t, GETPPID, 0, 7919, 67);
	count(t, WRITE, 0, 1, 333);
}

static void test_table(void **state)
{
	struct spoor_counters c = {};
	struct spoor_stat_view v = {};

	make_simple(&c);
	expect(&c, &v,
	       "Task: 20:20 lego, 46 accumulated threads\n"
	       "% time     seconds usecs/call calls errors syscall     max\n"
	       "------ ----------- ---------- ----- ------ ------- -------\n"
	       " 96.08 0.013000039   1000.003    13      7 read    1.00 ms\n"
	       "  3.92 0.000530573      0.067  7919        getppid   67 ns\n"
	       "  0.00 0.000000333      0.333     1        write    333 ns\n"
	       "------ ----------- ---------- ----- ------ ------- -------\n"
	       "100.00 0.013530945      1.705  7933      7 total   1.00 ms\n");
	v.blocked = v.errors = 1;
	v.sort = SPOOR_STAT_BY_NAME;
	expect(&c, &v,
	       "Task: 20:20 lego, 46 accumulated threads\n"
	       "% time     seconds usecs/call calls errors syscall   on CPU blocked     max\n"
	       "------ ----------- ---------- ----- ------ -------- ------- ------- -------\n"
	       "  3.92 0.000530573      0.067  7919        getppid   404 us  127 us   67 ns\n"
	       " 96.08 0.013000039   1000.003    13      7 read     9.75 ms 3.25 ms 1.00 ms\n"
	       "                                         4   EAGAIN\n"
	       "                                         2   EINTR\n"
	       "                                         1   others\n"
	       "  0.00 0.000000333      0.333     1        write     250 ns   83 ns  333 ns\n"
	       "------ ----------- ---------- ----- ------ -------- ------- ------- -------\n"
	       "100.00 0.013530945      1.705  7933      7 total    10.2 ms 3.38 ms 1.00 ms\n");
	spoor_counters_done(&c);
}

static void test_in_flight(void **state)
{
	struct spoor_stat_view v = {};
	struct spoor_counters c = { .lost_threads = 2, .lost_calls = 5 };
	struct spoor_task_counters *t = add_task(&c, 5, 6, "hung");
	struct spoor_call_counters *call = spoor_task_add_call(t, READ, 0);

	t->overflow = 3;
	call->in_flight = 1;
	call->in_flight_ns = 3020000000;
	spoor_task_add_call(t, EXIT_GROUP, 0)->unreturned = 1;
	spoor_task_add_call(t, WRITE, 0)->unreturned = 1;
	v.level = SPOOR_STAT_THREAD;
	expect(&c, &v,
	       "Task: 6:5 hung, 1 accumulated thread\n"
	       "% time     seconds  usecs/call calls errors syscall    max\n"
	       "------ ----------- ----------- ----- ------ ---------- ---\n"
	       "100.00 3.020000000 3020000.000     1        read         - (1 in flight, 3.02 s so far)\n"
	       "  0.00 0.000000000       0.000     1        exit_group   -\n"
	       "  0.00 0.000000000       0.000     1        write        - (1 never returned)\n"
	       "------ ----------- ----------- ----- ------ ---------- ---\n"
	       "100.00 3.020000000 1006666.666     3        total        -\n"
	       "3 calls found no slot in the thread: they stand with the process.\n"
	       "Lost: 2 threads were not counted, nor perhaps what they started: no memory for the counters.\n"
	       "Lost: 5 calls are in no table: no memory for the counters.\n");
	spoor_counters_done(&c);
}

static void test_nothing(void **state)
{
	struct spoor_stat_view v = {};
	struct spoor_counters c = {};

	expect(&c, &v, "No system call was counted.\n");
	add_task(&c, 1, 1, "idle");
	expect(&c, &v,
	       "Task: 1:1 idle, 1 accumulated thread\n"
	       "% time     seconds usecs/call calls errors syscall max\n"
	       "------ ----------- ---------- ----- ------ ------- ---\n"
	       "------ ----------- ---------- ----- ------ ------- ---\n"
	       "  0.00 0.000000000          -     0        total     -\n");
	v.level = SPOOR_STAT_TREE;
	v.json = 0;
	expect(&c, &v,
	       "       with its descendants     itself\n"
	       "% time     seconds calls errors     seconds calls errors process\n"
	       "  0.00 0.000000000     0      0 0.000000000     0      0 1 idle\n");
	spoor_counters_done(&c);
}

static void test_histogram(void **state)
{
	struct spoor_stat_view v = { .histogram = 1, .width = 50 };
	_cleanup_(spoor_freep) char *text = NULL, *utf8 = NULL;
	struct spoor_counters c = {};
	struct spoor_call_counters *call = count(add_task(&c, 1, 1, "x"), READ, 0, 100, 3000);

	call->histogram[13] = 1;
	call->calls = 101;
	call->max_ns = 9000;
	text = print(&c, &v);
	assert_non_null(strstr(text, "\nread: 101 calls, min 3.00 us, p50 3.00 us, p99 4.10 us, max 9.00 us\n"
				     "   2.05 us |################| 100\n"
				     "   4.10 us |                | 0\n"
				     "   8.19 us |#               | 1\n"));
	v.utf8 = 1;
	utf8 = print(&c, &v);
	assert_non_null(strstr(utf8, "   8.19 us \u2502\u258f               \u2502 1\n"));
	spoor_counters_done(&c);
}

static void test_tree(void **state)
{
	struct spoor_stat_view v = { .level = SPOOR_STAT_TREE };
	struct spoor_counters c = {};
	struct spoor_task_counters *t;

	count(add_task(&c, 10, 10, "sh"), READ, 0, 10, 1000000);
	t = add_task(&c, 30, 30, "gcc");
	t->ppid = 10;
	count(t, READ, 0, 20, 1000000)->errors = 3;
	t = add_task(&c, 31, 31, "cc1");
	t->ppid = 30;
	count(t, READ, 0, 30, 1000000);
	count(add_task(&c, 31, 33, "cc1"), READ, 0, 40, 1000000);
	t = add_task(&c, 40, 40, "ls");
	t->ppid = 10;
	expect(&c, &v,
	       "       with its descendants     itself\n"
	       "% time     seconds calls errors     seconds calls errors process\n"
	       " 10.00 0.100000000   100      3 0.010000000    10      0 10 sh\n"
	       " 20.00 0.090000000    90      3 0.020000000    20      3   30 gcc\n"
	       " 70.00 0.070000000    70      0 0.070000000    70      0     31 cc1 (2 threads)\n"
	       "  0.00 0.000000000     0      0 0.000000000     0      0   40 ls\n");
	spoor_counters_done(&c);
}

/* A chain, pids used again, a process that is its own parent: every one is printed, once. */
static void test_odd_trees(void **state)
{
	struct spoor_stat_view v = { .level = SPOOR_STAT_TREE };
	struct spoor_counters c = {};
	_cleanup_(spoor_freep) char *text = NULL;
	int lines = 0;

	for (int i = 1; i <= 5000; i++)
		add_task(&c, i, i, "chain")->ppid = i - 1;
	for (int i = 0; i < 3000; i++) {
		struct spoor_task_counters *t = add_task(&c, 1 + (pid_t)(draw() % 50), 7, "odd");

		t->process_start_ns = t->start_ns = draw() % 7 ? draw() : 0;
		t->ppid = 1 + (pid_t)(draw() % 50);
		t->tid = t->pid;
	}
	text = print(&c, &v);
	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	/* Those without a start and of one pid are one. */
	assert_true(lines >= 2 + 5000 + 2500 && lines <= 2 + 8000);
	spoor_counters_done(&c);
}

static void assert_clean(const char *text, int utf8)
{
	for (const char *s = text; *s; s++)
		assert_true(*s == '\n' || ((unsigned char)*s >= ' ' && *s != 0x7f && (utf8 || !(*s & 0x80))));
}

static const char *const hostile[] = {
	"\033]0;owned\a",
	"\033[2J\033[31mx",
	"a\nb\rc\td\b",
	"\x9b"
	"31m\x80\xff",
	"\xe2\x80\xae"
	"evil",
	"na\xc3\xafve \xe2\x82\xac",
	"\"\\{}[],:",
	"0123456789abcdef",
	"\x7f\x01\x02\x03",
	"",
};
#define N_HOSTILE (sizeof(hostile) / sizeof(*hostile))

static char *hostile_site(void *p, pid_t pid, uint32_t stack)
{
	return strdup(hostile[stack % N_HOSTILE]);
}

static void test_hostile(void **state)
{
	struct spoor_counters c = { .since_ns = 1, .at_ns = 2 };

	for (unsigned i = 0; i < N_HOSTILE; i++)
		for (unsigned k = 0; k < N_HOSTILE; k++)
			count(add_task(&c, 1 + (pid_t)i, 1 + (pid_t)i, hostile[i]), READ, k + 1, 1, 5);
	for (unsigned form = 0; form < 64; form++) {
		struct spoor_stat_view v = { .level = form & 3,
					     .by_site = form >> 2 & 1,
					     .json = form >> 3 & 1,
					     .utf8 = form >> 4 & 1,
					     .histogram = 1,
					     .delta = form >> 5,
					     .errors = 1,
					     .site = hostile_site };
		_cleanup_(spoor_freep) char *text = print(&c, &v);

		assert_clean(text, v.utf8 || v.json);
	}
	spoor_counters_done(&c);
}

/* Columns stay columns, and the shares of every table add up to 100.00. */
static void check_table(char *text)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save);
	unsigned sum = 0, total = 0, whole, cents;
	const char *rule;
	int rows = 0;

	assert_int_equal(strncmp(line, "Task:", 5), 0);
	strtok_r(NULL, "\n", &save);
	rule = strtok_r(NULL, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save)) && line[0] != '-') {
		assert_int_equal(sscanf(line, "%u.%2u", &whole, &cents), 2);
		sum += whole * 100 + cents;
		assert_int_equal(strlen(line), strlen(rule));
		for (size_t i = 0; rule[i]; i++)
			assert_true(rule[i] == '-' || line[i] == ' ');
		rows++;
	}
	line = strtok_r(NULL, "\n", &save);
	assert_int_equal(sscanf(line, "%u.%2u", &whole, &cents), 2);
	total = whole * 100 + cents;
	assert_int_equal(strlen(line), strlen(rule));
	assert_int_equal(sum, total);
	assert_true(!rows || total == 10000 || total == 0);
}

static void test_random_tables(void **state)
{
	for (int round = 0; round < 3000; round++) {
		struct spoor_stat_view v = { .sort = draw() % 5, .blocked = draw() & 1 };
		struct spoor_counters c = {};
		struct spoor_task_counters *t = add_task(&c, 1, 1, "random");
		_cleanup_(spoor_freep) char *text = NULL;
		unsigned n = draw() % 40;

		for (unsigned i = 0; i < n; i++) {
			struct spoor_call_counters *call = spoor_task_add_call(t, (uint16_t)(draw() % 1030), 0);

			call->calls = draw() >> draw() % 64;
			call->ns = draw() % 4 ? draw() >> draw() % 64 : 0;
			call->errors = draw() % 2 ? draw() >> draw() % 64 : 0;
			call->blocked_ns = call->ns / (1 + draw() % 5);
			call->max_ns = call->calls ? draw() >> draw() % 64 : 0;
		}
		text = print(&c, &v);
		check_table(text);
		spoor_counters_done(&c);
	}
}

static char *site(void *p, pid_t pid, uint32_t stack)
{
	char *text = NULL;

	/* Stacks 1 and 2 are of one site; 9 is something else in each process. */
	if (asprintf(&text, stack <= 2 ? "main x.c:5" : "jit_%d_%u", pid, stack) < 0)
		return NULL;
	return text;
}

static void site_json(void *p, FILE *out, pid_t pid, uint32_t stack)
{
	fprintf(out, "[{\"frame\":%u}]", stack);
}

static void make_sites(struct spoor_counters *c)
{
	for (pid_t pid = 1; pid <= 2; pid++) {
		struct spoor_task_counters *t = add_task(c, pid, pid, "app");

		count(t, READ, 1, 3, 1000);
		count(t, READ, 2, 5, 1000);
		count(t, READ, 9, 7, 100);
		count(t, GETPPID, 0, 11, 10);
	}
}

static void test_by_site(void **state)
{
	struct spoor_stat_view v = { .by_site = 1, .site = site };
	struct spoor_counters c = {};

	make_sites(&c);
	expect(&c, &v,
	       "Task: 1:1 app, 2 accumulated threads of 2 processes\n"
	       "% time     seconds usecs/call calls errors syscall     max call site\n"
	       "------ ----------- ---------- ----- ------ ------- ------- ---------\n"
	       " 90.81 0.000016000      1.000    16        read    1.00 us main x.c:5\n"
	       "  3.97 0.000000700      0.100     7        read     100 ns jit_1_9\n"
	       "  3.97 0.000000700      0.100     7        read     100 ns jit_2_9\n"
	       "  1.25 0.000000220      0.010    22        getppid   10 ns [no stack]\n"
	       "------ ----------- ---------- ----- ------ ------- ------- ---------\n"
	       "100.00 0.000017620      0.338    52        total   1.00 us\n");
	spoor_counters_done(&c);
}

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *j = json_loads(text, 0, &error);

	if (!j)
		fail_msg("%s at %d in %s", error.text, error.column, text);
	return j;
}

static json_int_t number(const json_t *j, const char *member)
{
	assert_true(json_is_integer(json_object_get(j, member)));
	return json_integer_value(json_object_get(j, member));
}

static json_int_t sum_of(const json_t *histogram)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(histogram); i++)
		sum += json_integer_value(json_array_get(histogram, i));
	return sum;
}

static void test_json(void **state)
{
	struct spoor_stat_view v = { .json = 1, .level = SPOOR_STAT_THREAD, .blocked = 1, .delta = 1 };
	struct spoor_counters c = { .since_ns = 5, .at_ns = 7 };
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *j, *task, *call;

	make_simple(&c);
	count(&c.tasks[0], SPOOR_SYSCALL_I386 + 20, 0, 3, 7)->in_flight = 1;
	text = print(&c, &v);
	assert_int_equal(strcspn(text, "\n"), strlen(text) - 1); /* one line */
	j = parse(text);
	task = json_array_get(json_object_get(j, "tasks"), 0);
	assert_int_equal(number(task, "pid"), 20);
	assert_int_equal(number(task, "threads"), 46);
	assert_string_equal(json_string_value(json_object_get(task, "comm")), "lego");
	call = json_array_get(json_object_get(task, "syscalls"), 0);
	assert_string_equal(json_string_value(json_object_get(call, "name")), "read");
	assert_int_equal(number(call, "calls"), 13);
	assert_int_equal(number(call, "errors"), 7);
	assert_int_equal(number(call, "min_ns"), 1000003);
	assert_int_equal(number(call, "max_ns"), 1000003);
	assert_int_equal(sum_of(json_object_get(call, "histogram")), 13);
	assert_int_equal(number(json_object_get(call, "errnos"), "EAGAIN"), 4);
	assert_int_equal(number(json_object_get(call, "errnos"), "others"), 1);
	assert_int_equal(number(call, "entered"), 13);
	assert_true(json_real_value(json_object_get(call, "seconds")) == 0.013000039);
	assert_non_null(json_object_get(call, "on_cpu_seconds"));
	call = json_array_get(json_object_get(task, "syscalls"), 3);
	assert_string_equal(json_string_value(json_object_get(call, "abi")), "i386");
	assert_int_equal(number(json_object_get(call, "in_flight"), "calls"), 1);
	assert_int_equal(number(call, "calls"), 3);
	assert_int_equal(number(call, "entered"), 4);
	json_decref(j);
	spoor_counters_done(&c);
}

static void test_json_sites(void **state)
{
	struct spoor_stat_view v = { .json = 1, .by_site = 1, .site = site, .site_json = site_json };
	struct spoor_counters c = {};
	_cleanup_(spoor_freep) char *text = NULL;
	json_t *j, *call, *sites;

	make_sites(&c);
	text = print(&c, &v);
	j = parse(text);
	call = json_array_get(json_object_get(json_array_get(json_object_get(j, "tasks"), 0), "syscalls"), 0);
	assert_int_equal(number(call, "calls"), 30);
	sites = json_object_get(call, "sites");
	assert_int_equal(json_array_size(sites), 3);
	assert_string_equal(json_string_value(json_object_get(json_array_get(sites, 0), "site")), "main x.c:5");
	assert_int_equal(number(json_array_get(sites, 0), "calls"), 16);
	assert_int_equal(json_array_size(json_object_get(json_array_get(sites, 0), "stack")), 1);
	json_decref(j);
	spoor_counters_done(&c);
}

/* ---- the live screen's lines ---- */

static void test_screen_changes(void **state)
{
	_cleanup_(spoor_freep) char *all = NULL, *some = NULL, *none = NULL;
	struct spoor_screen empty = {}, a, b;
	size_t len;

	assert_int_equal(spoor_screen_new(3, 20, &a), 0);
	assert_int_equal(spoor_screen_new(3, 20, &b), 0);
	spoor_screen_set(&a, 0, SPOOR_LOOK_BOLD, "title");
	spoor_screen_set(&a, 1, SPOOR_LOOK_PLAIN, "12.00 seconds of it, and what is too long");
	spoor_screen_set(&b, 0, SPOOR_LOOK_BOLD, "title");
	spoor_screen_set(&b, 1, SPOOR_LOOK_PLAIN, "12.34 seconds of it, cut as well");
	spoor_screen_set(&b, 7, SPOOR_LOOK_PLAIN, "not there");
	assert_int_equal(strlen(a.lines[1]), 20);
	all = spoor_screen_change(&empty, &a, 1, &len);
	assert_string_equal(all, "\030\033[0m\033[2J\033[1;1H\033[1mtitle\033[0m\033[2;1H12.00 seconds of it,");
	some = spoor_screen_change(&a, &b, 1, &len);
	assert_string_equal(some, "\033[2;4H34");
	spoor_screen_set(&b, 1, SPOOR_LOOK_PLAIN, "12.3");
	none = spoor_screen_change(&b, &b, 1, &len);
	assert_int_equal(len, 0);
	free(some);
	some = spoor_screen_change(&a, &b, 1, &len);
	assert_string_equal(some, "\033[2;4H3\033[K");
	spoor_screen_done(&a);
	spoor_screen_done(&b);
}

static void test_screen_of_hostile(void **state)
{
	struct spoor_counters c = { .at_ns = 9 };

	for (unsigned i = 0; i < N_HOSTILE; i++)
		for (unsigned k = 0; k < N_HOSTILE; k++)
			count(add_task(&c, 1 + (pid_t)i, 1 + (pid_t)i, hostile[i]), READ, k + 1, 1, 5);
	for (unsigned form = 0; form < 600; form++) {
		struct spoor_stat_view v = { .level = draw() % 3,
					     .by_site = draw() & 1,
					     .utf8 = draw() & 1,
					     .blocked = draw() & 1,
					     .sort = draw() % 5,
					     .site = hostile_site };
		struct spoor_screen_state s = { .scroll = draw() % 2 ? draw() % 200 : SIZE_MAX / 2 };
		struct spoor_screen screen;

		assert_int_equal(spoor_screen_new(1 + draw() % 40, 1 + draw() % 200, &screen), 0);
		assert_int_equal(spoor_screen_fill(&screen, &c, &v, &s), 0);
		for (unsigned i = 0; i < screen.rows; i++) {
			assert_clean(screen.lines[i] ?: "", v.utf8);
			assert_false(screen.lines[i] && strchr(screen.lines[i], '\n'));
		}
		spoor_screen_done(&screen);
	}
	spoor_counters_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_odd_trees),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_random_tables),
		cmocka_unit_test(test_by_site),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_sites),
		cmocka_unit_test(test_screen_changes),
		cmocka_unit_test(test_screen_of_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stat_fixture.h"

static void expect(const struct spoor_counters *c, const struct spoor_stat_view *v, const char *expected)
{
	_cleanup_(spoor_freep) char *text = print(c, v);

	assert_string_equal(text, expected);
}

static void test_table(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
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
}

static void test_in_flight(void **state)
{
	struct spoor_stat_view v = {};
	_cleanup_(spoor_counters_done) struct spoor_counters c = { .lost_threads = 2, .lost_calls = 5 };
	struct spoor_task_counters *t = add_named(&c, 5, 6, "hung");
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
}

static void test_nothing(void **state)
{
	struct spoor_stat_view v = {};
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};

	expect(&c, &v, "No system call was counted.\n");
	add_named(&c, 1, 1, "idle");
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
}

static void test_histogram(void **state)
{
	struct spoor_stat_view v = { .histogram = 1, .width = 50 };
	_cleanup_(spoor_freep) char *text = NULL, *utf8 = NULL;
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
	struct spoor_call_counters *call = count(add_named(&c, 1, 1, "x"), READ, 0, 100, 3000);

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
}

static void test_tree(void **state)
{
	struct spoor_stat_view v = { .level = SPOOR_STAT_TREE };
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
	struct spoor_task_counters *t;

	count(add_named(&c, 10, 10, "sh"), READ, 0, 10, 1000000);
	t = add_named(&c, 30, 30, "gcc");
	t->ppid = 10;
	count(t, READ, 0, 20, 1000000)->errors = 3;
	t = add_named(&c, 31, 31, "cc1");
	t->ppid = 30;
	count(t, READ, 0, 30, 1000000);
	count(add_named(&c, 31, 33, "cc1"), READ, 0, 40, 1000000);
	t = add_named(&c, 40, 40, "ls");
	t->ppid = 10;
	expect(&c, &v,
	       "       with its descendants     itself\n"
	       "% time     seconds calls errors     seconds calls errors process\n"
	       " 10.00 0.100000000   100      3 0.010000000    10      0 10 sh\n"
	       " 20.00 0.090000000    90      3 0.020000000    20      3   30 gcc\n"
	       " 70.00 0.070000000    70      0 0.070000000    70      0     31 cc1 (2 threads)\n"
	       "  0.00 0.000000000     0      0 0.000000000     0      0   40 ls\n");
}

/* A chain, pids used again, a process that is its own parent: every one is printed, once. */
static void test_odd_trees(void **state)
{
	struct spoor_stat_view v = { .level = SPOOR_STAT_TREE };
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};
	_cleanup_(spoor_freep) char *text = NULL;
	int odd = 0, unknown[51] = {}, lines = 0;

	for (int i = 1; i <= 5000; i++)
		add_named(&c, i, i, "chain")->ppid = i - 1;
	for (int i = 0; i < 3000; i++) {
		struct spoor_task_counters *t = add_named(&c, 1 + (pid_t)(draw() % 50), 7, "odd");

		t->process_start_ns = t->start_ns = draw() % 7 ? draw() : 0;
		t->ppid = 1 + (pid_t)(draw() % 50);
		t->tid = t->pid;
		odd += t->start_ns || !unknown[t->pid];
		unknown[t->pid] |= !t->start_ns; /* those without a start and of one pid are one */
	}
	text = print(&c, &v);
	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	assert_int_equal(lines, 2 + 5000 + odd);
}

static void test_hostile(void **state)
{
	_cleanup_(spoor_counters_done) struct spoor_counters c = { .since_ns = 1, .at_ns = 2 };

	make_hostile(&c);
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
}

/* Columns stay columns, and the shares of every table add up to 100.00. */
static void check_table(char *text, int any)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save);
	unsigned sum = 0, total = 0, whole, cents;
	const char *rule;

	assert_int_equal(strncmp(line, "Task:", 5), 0);
	strtok_r(NULL, "\n", &save);
	rule = strtok_r(NULL, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save)) && line[0] != '-') {
		assert_int_equal(sscanf(line, "%u.%2u", &whole, &cents), 2);
		sum += whole * 100 + cents;
		assert_int_equal(strlen(line), strlen(rule));
		for (size_t i = 0; rule[i]; i++)
			assert_true(rule[i] == '-' || line[i] == ' ');
	}
	line = strtok_r(NULL, "\n", &save);
	assert_int_equal(sscanf(line, "%u.%2u", &whole, &cents), 2);
	total = whole * 100 + cents;
	assert_int_equal(strlen(line), strlen(rule));
	assert_int_equal(sum, total);
	assert_int_equal(total, any ? 10000 : 0);
}

static void test_random_tables(void **state)
{
	for (int round = 0; round < 3000; round++) {
		struct spoor_stat_view v = { .sort = draw() % 5, .blocked = draw() & 1 };
		_cleanup_(spoor_counters_done) struct spoor_counters c = {};
		struct spoor_task_counters *t = add_named(&c, 1, 1, "random");
		_cleanup_(spoor_freep) char *text = NULL;
		unsigned n = draw() % 40;
		int any = 0;

		for (unsigned i = 0; i < n; i++) {
			struct spoor_call_counters *call = spoor_task_add_call(t, (uint16_t)(draw() % 1030), 0);

			call->calls = draw() >> draw() % 64;
			call->ns = draw() % 4 ? draw() >> draw() % 64 : 0;
			any |= !!call->ns;
			call->errors = draw() % 2 ? draw() >> draw() % 64 : 0;
			call->blocked_ns = call->ns / (1 + draw() % 5);
			call->max_ns = call->calls ? draw() >> draw() % 64 : 0;
		}
		text = print(&c, &v);
		check_table(text, any);
	}
}

static void test_by_site(void **state)
{
	struct spoor_stat_view v = { .by_site = 1, .site = site };
	_cleanup_(spoor_counters_done) struct spoor_counters c = {};

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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),   cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_tree),    cmocka_unit_test(test_odd_trees),
		cmocka_unit_test(test_hostile), cmocka_unit_test(test_random_tables),
		cmocka_unit_test(test_by_site),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports of a small trace whose every event is known; its application is this very program. */
#include "report_fixture.h"

__attribute__((noinline)) void site_of_calls(void)
{
	__asm__ volatile("nop; nop; nop");
}

static void table(void **state)
{
	_cleanup_(spoor_freep) char *text = report(spoor_present_table);

	has(text, "work\\x1b[1m[4711]: 14 calls, 4 failed, 8.23 us in them, 1 never ended\n");
	has(text, "         7        2     721 ns     103 ns     106 ns  read               site_of_calls ");
	has(text, "test_report.c:");
	has(text, "  connect            [no application frame: no rows]\n");
	has(text, "  close              plugin.so+0x1234\n");
	has(text, "  mmap               [no stack]\n");
	has(text, "  nanosleep          [stack lost]\n");
	has(text, "(and 1 never ended)");
	has(text, "Lost: 3 events were discarded");
	has(text, "Walks: complete 11 (78.57 %), budget 1 (7.143 %), no rows 1 (7.143 %), lost 1 (7.143 %); "
		  "in the kernel 12 (92.31 %), in user space 1 (7.692 %); 1 call without a stack.\n");
	has(text, "Note: /nonexistent/plugin.so: cannot be read; its frames are shown as offsets\n");
	has_not(text, "\033");
}

static void listing(void **state)
{
	_cleanup_(spoor_freep) char *text = report_with(spoor_present_events, (struct spoor_view){ .stacks = 1 }, NULL);

	has(text, " openat(AT_FDCWD</home>, \"x\\n\\\"\\x80\", 0x80000, 0644) = 3</etc/\\xff\\\"passwd> <0.000000>\n");
	has(text, " = -1 EAGAIN (Resource temporarily unavailable) <0.000000>\n");
	has(text, " connect(5<TCP:[127.0.0.1:80->10.0.0.2:999]>, {sa_family=AF_INET, sin_port=htons(443), "
		  "sin_addr=inet_addr(\"127.0.0.2\")}, 16) = -1 EINPROGRESS (");
	has(text, " mmap(NULL, 4096, 0x3, 0x22, -1, 0) = 0x7f0012345000 <");
	has(text, " = ? ERESTARTSYS <0.000005>\n");
	has(text, "    > [stack lost]\n");
	has(text, "    > jit;compiled+0x10 ([anonymous]+0x7f0000001010)\n");
	has(text, " exit(0) = ?\n");
	has(text, "+++ killed by SIGKILL +++\n");
	has(text, " = ? <unfinished: in flight at the end, 855 us so far>\n");
}

static json_t *member(json_t *o, const char *name)
{
	json_t *v = json_object_get(o, name);

	assert_non_null(v);
	return v;
}

static void json(void **state)
{
	_cleanup_(spoor_freep) char *text = report(spoor_present_json);
	unsigned n = 0;
	json_t *last = NULL;
	char *save = NULL;

	has(text, "\"args\":{\"dfd\":{\"fd\":-100,\"path\":\"/home\",\"kind\":\"directory\"},"
		  "\"filename\":\"x\\n\\\"\\udc80\",\"flags\":\"0x80000\",\"mode\":\"0644\"},\"ret\":3,"
		  "\"ret_fd\":{\"fd\":3,\"path\":\"/etc/\\udcff\\\"passwd\",\"kind\":\"file\"},\"errno\":null");
	has(text, "\"addr\":\"0x0\"");
	has(text, "\"errno\":\"EAGAIN\"");
	has(text, "\"function\":\"site_of_calls\"");
	has(text, "\"walk\":\"no rows\",\"way\":\"user\"");
	has(text, "\"unfinished\":\"sleep\"");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
		json_error_t e;

		/* jansson takes no lone surrogates */
		for (char *p = line; (p = strstr(p, "\\udc"));)
			memcpy(p, "\\u00", 4);
		json_decref(last);
		last = json_loads(line, 0, &e);
		if (!last)
			fail_msg("%s: %s", e.text, line);
		if (!json_object_get(last, "calls")) {
			const char *ts = json_string_value(member(last, "ts"));

			assert_int_equal(strcspn(ts, "."), strlen(ts) - 10);
			member(last, "args");
			member(last, "stack");
		}
	}
	assert_int_equal(n, 16); /* 14 calls, one never ended, the summary */
	assert_int_equal(json_integer_value(member(last, "calls")), 14);
	assert_int_equal(json_integer_value(member(last, "failed")), 4);
	assert_int_equal(json_integer_value(member(last, "unfinished")), 1);
	assert_int_equal(json_integer_value(member(last, "discarded")), 3);
	json_decref(last);
}

static void folded(void **state)
{
	_cleanup_(spoor_freep) char *text = report(spoor_present_folded);

	has(text, "work_[1m;site_of_calls;libc.so.6+0x10;read 7\n"); /* of two equal stacks */
	has(text, "work_[1m;[no rows];libc.so.6+0x10;connect 1\n");
	has(text, "work_[1m;jit:compiled;getpid 1\n");
	has(text, "work_[1m;[no stack];mmap 1\n");
}

static void blocked(void **state)
{
	_cleanup_(spoor_freep) char *text = report(spoor_present_blocked);
	_cleanup_(spoor_freep) char *lines = report_with(spoor_present_blocked, (struct spoor_view){ .json = 1 }, NULL);

	has(text, "work\\x1b[1m[4711]: for 855 us in futex(");
	has(text, "    on futex 0xabc0\n");
	has(text, "      site_of_calls ");
	has(text, "1 call was in flight at the end.\n");
	has_not(text, "exit");
	has(lines, "\"event\":\"futex\"");
	has(lines, "\"so_far\":855000");
}

static void selections(void **state)
{
	struct spoor_select failed = { .failed = 1 }, again = { .errno_ = EAGAIN }, slow = { .min_duration = 2000 };
	struct spoor_select early = { .to = T0 + 1500 }, nobody = {}, function = {}, read = { .some_calls = 1 };
	struct {
		struct spoor_select *s;
		const char *want, *want_not;
	} cases[] = {
		{ &failed, "Calls: 4, of which 4 failed; 0 more", "openat" },
		{ &again, "Calls: 2, of which 2 failed; 0 more", "connect" },
		{ &slow, "Calls: 2, of which 2 failed; 1 more", "openat" },
		{ &early, "Calls: 1, of which 0 failed; 0 more", "read" },
		{ &nobody, "No call of the trace fits.", "read" },
		{ &function, "Calls: 9, of which 2 failed; 1 more", "connect" },
		{ &read, "Calls: 7, of which 2 failed; 0 more", "connect" },
	};

	assert_int_equal(spoor_select_add_pid(&nobody, 1), 0);
	assert_int_equal(spoor_globs_add(&function.functions, "site_*"), 0);
	read.calls[spoor_syscall_by_name("read")] = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(spoor_freep) char *text = report_with(spoor_present_table, (struct spoor_view){}, cases[i].s);

		has(text, cases[i].want);
		has_not(text, cases[i].want_not);
		spoor_select_done(cases[i].s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),  cmocka_unit_test(listing), cmocka_unit_test(json),
		cmocka_unit_test(folded), cmocka_unit_test(blocked), cmocka_unit_test(selections),
	};

	return cmocka_run_group_tests(tests, write_trace, remove_trace);
}

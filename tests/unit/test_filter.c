/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/filter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "collect/kernel/control.h"
#include "trace/syscalls.h"

#define APP SPOOR_FILTER_MODE(SPOOR_MODE_APP)
#define APP_ALL SPOOR_FILTER_MODE(SPOOR_MODE_APP_ALL)
#define STACKLESS SPOOR_FILTER_MODE(SPOOR_MODE_NONE)
#define ALL SPOOR_FILTER_MODE(SPOOR_MODE_ALL)

static struct spoor_filter filter;

/* Applies expressions up to NULL to the default. */
static void set(const char *first, ...)
{
	struct spoor_error e = { "" };
	va_list ap;

	spoor_filter_init(&filter);
	va_start(ap, first);
	for (const char *expr = first; expr; expr = va_arg(ap, const char *)) {
		int err = spoor_filter_parse(&filter, expr, &e);

		if (err)
			fail_msg("%s: %s", expr, e.text);
	}
	va_end(ap);
}

static unsigned mode_of(const char *name)
{
	return filter.mode[spoor_syscall_by_name(name)];
}

static unsigned mode_of_i386(const char *name)
{
	return filter.mode[spoor_syscall_by_name_i386(name)];
}

static unsigned recorded(void)
{
	unsigned n = 0;

	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		n += filter.mode[id] != SPOOR_FILTER_NONE;
	return n;
}

static unsigned of_class(unsigned bit)
{
	unsigned n = 0;

	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		n += !!(spoor_syscall_info(id)->classes & bit);
	return n;
}

/* Fails, leaves the filter alone, and says `why`. */
static void refuse(const char *expr, const char *why)
{
	struct spoor_error e = { "" };
	struct spoor_filter before;

	spoor_filter_init(&filter);
	assert_int_equal(spoor_filter_parse(&filter, "%network=app,!socket", NULL), 0);
	before = filter;
	assert_int_equal(spoor_filter_parse(&filter, expr, &e), -EINVAL);
	assert_memory_equal(&before, &filter, sizeof(before));
	if (!strstr(e.text, why))
		fail_msg("'%s': '%s' does not say '%s'", expr, e.text, why);
	assert_int_equal(spoor_filter_parse(&filter, expr, NULL), -EINVAL);
}

static void test_names_as_they_are_shown(void **state)
{
	set("i386_getpid", NULL);
	assert_int_equal(recorded(), 1);
	assert_int_equal(mode_of_i386("getpid"), SPOOR_FILTER_DEFAULT);
	set("getpid,!i386_getpid,syscall_999,i386_syscall_511", NULL);
	assert_int_equal(recorded(), 1);
	assert_int_equal(mode_of("getpid"), SPOOR_FILTER_DEFAULT);
	assert_int_equal(filter.other, SPOOR_FILTER_NONE);
	assert_int_equal(filter.n_numbers, 2);
	set("/syscall_/", NULL);
	assert_int_equal(filter.other, SPOOR_FILTER_DEFAULT);
}

static void test_default_is_everything(void **state)
{
	set(NULL);
	assert_int_equal(recorded(), SPOOR_SYSCALL_MAX);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_DEFAULT);
	assert_int_equal(filter.other, SPOOR_FILTER_DEFAULT);
}

static void test_names(void **state)
{
	set("openat,close", NULL);
	assert_int_equal(recorded(), 4);
	assert_int_equal(mode_of("openat"), SPOOR_FILTER_DEFAULT);
	assert_int_equal(mode_of_i386("close"), SPOOR_FILTER_DEFAULT);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_NONE);
	assert_int_equal(filter.other, SPOOR_FILTER_NONE);
	set("socketcall", NULL);
	assert_int_equal(recorded(), 1);
	assert_int_equal(mode_of_i386("socketcall"), SPOOR_FILTER_DEFAULT);
	set("accept", NULL);
	assert_int_equal(recorded(), 1);
}

static void test_modes(void **state)
{
	set("openat=all", "%network=app", NULL);
	assert_int_equal(mode_of("openat"), ALL);
	assert_int_equal(mode_of_i386("openat"), ALL);
	assert_int_equal(mode_of("connect"), APP);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_NONE);
	assert_int_equal(recorded(), 2 + of_class(SPOOR_CLASS_NETWORK));
	set("all=none,%file=app-all,openat=lib,read=custom", NULL);
	assert_int_equal(mode_of("getpid"), STACKLESS);
	assert_int_equal(filter.other, STACKLESS);
	assert_int_equal(mode_of("stat"), APP_ALL);
	assert_int_equal(mode_of("openat"), SPOOR_FILTER_MODE(SPOOR_MODE_LIB));
	assert_int_equal(mode_of("read"), SPOOR_FILTER_MODE(SPOOR_MODE_CUSTOM));
	set("all=app", "read", NULL);
	assert_int_equal(mode_of("write"), APP);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_DEFAULT);
}

static void test_classes(void **state)
{
	static const struct {
		const char *name;
		unsigned bit;
	} classes[] = {
		{ "%file", SPOOR_CLASS_FILE },     { "%network", SPOOR_CLASS_NETWORK },
		{ "%net", SPOOR_CLASS_NETWORK },   { "%process", SPOOR_CLASS_PROCESS },
		{ "%desc", SPOOR_CLASS_DESC },     { "%memory", SPOOR_CLASS_MEMORY },
		{ "%signal", SPOOR_CLASS_SIGNAL }, { "%ipc", SPOOR_CLASS_IPC },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		set(classes[i].name, NULL);
		assert_true(recorded() >= 20);
		assert_int_equal(recorded(), of_class(classes[i].bit));
	}
}

static void test_empty(void **state)
{
	set("!all", NULL);
	assert_true(spoor_filter_is_empty(&filter));
	set("%file,!%file", NULL);
	assert_true(spoor_filter_is_empty(&filter));
	set("!all", "read", NULL);
	assert_false(spoor_filter_is_empty(&filter));
	set("all=none", NULL); /* recorded, without stacks */
	assert_false(spoor_filter_is_empty(&filter));
	spoor_filter_init(&filter);
	assert_false(spoor_filter_is_empty(&filter));
}

static void test_removal(void **state)
{
	set("!futex", NULL);
	assert_int_equal(recorded(), SPOOR_SYSCALL_MAX - 2);
	assert_int_equal(mode_of("futex"), SPOOR_FILTER_NONE);
	assert_int_equal(filter.other, SPOOR_FILTER_DEFAULT);
	set("!read,write", NULL);
	assert_int_equal(recorded(), SPOOR_SYSCALL_MAX - 4);
	set("!read,!write", NULL);
	assert_int_equal(recorded(), SPOOR_SYSCALL_MAX - 4);
	set("!read", "!write", NULL);
	assert_int_equal(recorded(), SPOOR_SYSCALL_MAX - 4);
	set("%file,!openat", NULL);
	assert_int_equal(recorded(), of_class(SPOOR_CLASS_FILE) - 2);
	set("%file=app", "!openat", "openat=all", NULL);
	assert_int_equal(mode_of("openat"), ALL);
	assert_int_equal(mode_of("stat"), APP);
	/* The first that adds clears the default, removals before it included. */
	set("!openat", "%file", NULL);
	assert_int_equal(recorded(), of_class(SPOOR_CLASS_FILE));
	set("!all", NULL);
	assert_int_equal(recorded(), 0);
	assert_int_equal(filter.other, SPOOR_FILTER_NONE);
}

static void test_regexes(void **state)
{
	set("/^epoll_(wait|pwait2?)$/=app", NULL);
	assert_int_equal(recorded(), 6);
	assert_int_equal(mode_of("epoll_pwait2"), APP);
	set("all,!/^sched_/", NULL);
	assert_int_equal(mode_of("sched_yield"), SPOOR_FILTER_NONE);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_DEFAULT);
	set("/^(read|,write)$/,/^p?write64$/", NULL);
	assert_int_equal(recorded(), 4);
	set("/./", NULL);
	assert_int_equal(mode_of("read"), SPOOR_FILTER_DEFAULT);
	assert_int_equal(filter.other, SPOOR_FILTER_NONE);
}

static void test_blanks(void **state)
{
	set(" openat = all , ! close ,/^read$/ =app ", NULL);
	assert_int_equal(mode_of("openat"), ALL);
	assert_int_equal(mode_of("read"), APP);
	assert_int_equal(mode_of("close"), SPOOR_FILTER_NONE);
}

static void test_errors(void **state)
{
	refuse("", "empty item");
	refuse(" ", "empty item");
	refuse("!", "empty item");
	refuse("read,", "empty item");
	refuse(",read", "empty item");
	refuse("read,,write", "empty item");
	refuse("=app", "empty item");
	refuse("!!read", "'!read'");
	refuse("opnat", "did you mean 'openat'?");
	refuse("read,epoll_wiat", "did you mean 'epoll_wait'?");
	refuse("file", "'%file' is a class");
	refuse("some_thing_else_entirely", "no system call is named 'some_thing_else_entirely'");
	refuse("re\x1b[31mad", "\\x1b");
	refuse("%netwrok", "did you mean '%network'?");
	refuse("%", "no class '%'");
	refuse("read=ap", "did you mean 'app'?");
	refuse("read=", "no mode ''");
	refuse("read=app=all", "no mode 'app=all'");
	refuse("!read=app", "removed by the '!'");
	refuse("!read,write=app", "removed by the '!'");
	refuse("/read", "closing '/' is missing");
	refuse("/", "closing '/' is missing");
	refuse("//", "empty regular expression");
	refuse("/read/x", "may follow");
	refuse("/(read/", "/(read/: ");
	refuse("/a{9}{9}{9}/", "not supported");
	refuse("/(a)\\1/", "not supported");
	refuse("/no such call/", "matches no system call");
}

static void test_long_item(void **state)
{
	char text[600];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	refuse(text, "longer than");
	text[200] = '\0';
	refuse(text, "no system call");
}

static void test_mode_names(void **state)
{
	for (unsigned mode = 0; mode < SPOOR_MODE_MAX; mode++)
		assert_int_equal(spoor_mode_parse(spoor_mode_name(mode), NULL), mode);
	assert_null(spoor_mode_name(SPOOR_MODE_MAX));
	assert_int_equal(spoor_mode_parse("App", NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_is_everything),
		cmocka_unit_test(test_names_as_they_are_shown),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_removal),
		cmocka_unit_test(test_regexes),
		cmocka_unit_test(test_blanks),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_long_item),
		cmocka_unit_test(test_mode_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

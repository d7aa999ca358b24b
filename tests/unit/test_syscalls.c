/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/syscalls.h"

#include <errno.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "trace/record.h"

#define LAST_TRIED 600

/* libseccomp knows the calls up to some kernel; every one it knows must be ours by number and by name. */
static unsigned compare_with_seccomp(uint32_t arch, unsigned base, int (*by_name)(const char *name))
{
	unsigned known = 0;

	for (int nr = 0; nr < LAST_TRIED; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(arch, nr);

		if (!name)
			continue;
		known++;
		assert_true(base + nr < SPOOR_SYSCALL_MAX);
		assert_non_null(spoor_syscall_info(base + nr)->name);
		assert_string_equal(spoor_syscall_info(base + nr)->name, name);
		assert_int_equal(by_name(name), base + nr);
		free(name);
	}
	return known;
}

static void test_seccomp_x86_64(void **state)
{
	assert_true(compare_with_seccomp(SCMP_ARCH_X86_64, 0, spoor_syscall_by_name) > 360);
}

static void test_seccomp_i386(void **state)
{
	assert_true(compare_with_seccomp(SCMP_ARCH_X86, SPOOR_SYSCALL_I386, spoor_syscall_by_name_i386) > 430);
}

/* The other direction: what libseccomp knows by name has our number. */
static void test_names_to_seccomp(void **state)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++) {
		const char *name = spoor_syscall_info(id)->name;
		int i386 = id >= SPOOR_SYSCALL_I386;
		int nr;

		if (!name)
			continue;
		assert_int_equal(i386 ? spoor_syscall_by_name_i386(name) : spoor_syscall_by_name(name), id);
		nr = seccomp_syscall_resolve_name_arch(i386 ? SCMP_ARCH_X86 : SCMP_ARCH_X86_64, name);
		/* Negative: newer than libseccomp, or one that i386 has by socketcall() and ipc() alone. */
		if (nr >= 0)
			assert_int_equal(nr, id % SPOOR_SYSCALL_I386);
	}
}

static void test_unknown(void **state)
{
	assert_non_null(spoor_syscall_info(SPOOR_SYSCALL_MAX));
	assert_null(spoor_syscall_info(SPOOR_SYSCALL_MAX)->name);
	assert_null(spoor_syscall_info(~0u)->name);
	assert_null(spoor_syscall_info(337)->name);
	assert_null(spoor_syscall_info(511)->name);
	assert_null(spoor_syscall_info(SPOOR_SYSCALL_I386 + 222)->name);
	assert_int_equal(spoor_syscall_by_name("no_such_call"), -ENOENT);
	assert_int_equal(spoor_syscall_by_name(""), -ENOENT);
	assert_int_equal(spoor_syscall_by_name("socketcall"), -ENOENT);
	assert_int_equal(spoor_syscall_by_name_i386("accept"), -ENOENT);
}

static void test_openat(void **state)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(spoor_syscall_by_name("openat"));

	assert_string_equal(info->name, "openat");
	assert_int_equal(info->n_args, 4);
	assert_int_equal(info->flags, SPOOR_SYSCALL_RET_FD);
	assert_int_equal(info->classes, SPOOR_CLASS_FILE | SPOOR_CLASS_DESC);
	assert_int_equal(info->args[0].kind, SPOOR_ARG_DIRFD);
	assert_int_equal(info->args[0].width, 4);
	assert_string_equal(info->args[1].name, "filename");
	assert_string_equal(info->args[1].type, "const char *");
	assert_int_equal(info->args[1].kind, SPOOR_ARG_PATH);
	assert_int_equal(info->args[1].width, 8);
	assert_int_equal(info->args[2].kind, SPOOR_ARG_HEX);
	assert_int_equal(info->args[3].kind, SPOOR_ARG_OCT);
	assert_string_equal(info->args[3].type, "umode_t");
	assert_null(info->args[4].name);
}

static int is_fd(const char *name, uint32_t value)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(spoor_syscall_by_name(name));

	assert_true(info->flags & SPOOR_SYSCALL_RET_FD);
	assert_non_null(info->ret_when);
	return !!spoor_ret_is_fd(info->ret_when, value);
}

static void test_returned_in_some_uses(void **state)
{
	assert_null(spoor_syscall_info(spoor_syscall_by_name("openat"))->ret_when);
	assert_int_equal(spoor_syscall_info(spoor_syscall_by_name("fcntl"))->ret_when->arg, 1);
	assert_true(is_fd("fcntl", 0) && is_fd("fcntl", 1030));
	assert_false(is_fd("fcntl", 1) || is_fd("fcntl", 64) || is_fd("fcntl", 1024) || is_fd("fcntl", UINT32_MAX));
	assert_true(is_fd("bpf", 5) && is_fd("bpf", 36));
	assert_false(is_fd("bpf", 1) || is_fd("bpf", 37) || is_fd("bpf", 64));
	assert_true(is_fd("seccomp", 8) && is_fd("seccomp", 9));
	assert_false(is_fd("seccomp", 0) || is_fd("seccomp", 7) || is_fd("seccomp", 16));
	assert_true(is_fd("ioctl", 0xb701) && is_fd("ioctl", 0x894c));
	assert_false(is_fd("ioctl", 0) || is_fd("ioctl", 0xb703));
}

static void test_i386_differs(void **state)
{
	const struct spoor_syscall_info *x64 = spoor_syscall_info(spoor_syscall_by_name("pread64"));
	const struct spoor_syscall_info *i386 = spoor_syscall_info(spoor_syscall_by_name_i386("pread64"));

	assert_int_equal(x64->n_args, 4);
	assert_int_equal(x64->args[3].width, 8);
	assert_int_equal(i386->n_args, 5);
	assert_int_equal(i386->args[1].width, 4);
	assert_int_equal(i386->args[4].width, 4);
}

/* What the kernel side and the record rely upon. */
static void test_every_call_is_sane(void **state)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++) {
		const struct spoor_syscall_info *info = spoor_syscall_info(id);
		unsigned kinds[SPOOR_ARG_SIGNAL + 1] = { 0 };

		assert_true(info->n_args <= 6);
		if (info->ret_when)
			assert_true(info->flags & SPOOR_SYSCALL_RET_FD && info->ret_when->arg < info->n_args);
		for (unsigned i = 0; i < 6; i++) {
			const struct spoor_syscall_arg *arg = &info->args[i];

			if (i >= info->n_args) {
				assert_null(arg->name);
				continue;
			}
			assert_non_null(arg->name);
			assert_non_null(arg->type);
			assert_true(arg->width == 4 || (arg->width == 8 && id < SPOOR_SYSCALL_I386));
			assert_true(arg->kind <= SPOOR_ARG_SIGNAL);
			kinds[arg->kind]++;
		}
		assert_true(kinds[SPOOR_ARG_FD] + kinds[SPOOR_ARG_DIRFD] <= 2 && kinds[SPOOR_ARG_PATH] <= 2);
		assert_true(kinds[SPOOR_ARG_SOCKADDR_IN] + kinds[SPOOR_ARG_SOCKADDR_OUT] <= 1);
		assert_true(kinds[SPOOR_ARG_BUF_IN] + kinds[SPOOR_ARG_BUF_OUT] <= 1);
		if (info->classes & SPOOR_CLASS_FILE && info->n_args && strcmp(info->name, "getcwd") != 0)
			assert_true(kinds[SPOOR_ARG_PATH] >= 1);
	}
}

static void test_errno(void **state)
{
	assert_string_equal(spoor_errno_name(ENOENT), "ENOENT");
	assert_string_equal(spoor_errno_name(EAGAIN), "EAGAIN");
	assert_string_equal(spoor_errno_name(EOPNOTSUPP), "EOPNOTSUPP");
	assert_string_equal(spoor_errno_name(133), "EHWPOISON");
	assert_string_equal(spoor_errno_name(512), "ERESTARTSYS");
	assert_string_equal(spoor_errno_name(516), "ERESTART_RESTARTBLOCK");
	assert_null(spoor_errno_name(0));
	assert_null(spoor_errno_name(-ENOENT));
	assert_null(spoor_errno_name(41));
	assert_null(spoor_errno_name(134));
	assert_null(spoor_errno_name(4096));
	assert_int_equal(spoor_errno_by_name("ENOENT"), ENOENT);
	assert_int_equal(spoor_errno_by_name("EWOULDBLOCK"), EAGAIN);
	assert_int_equal(spoor_errno_by_name("ENOTSUP"), EOPNOTSUPP);
	assert_int_equal(spoor_errno_by_name("ERESTARTNOHAND"), 514);
	assert_int_equal(spoor_errno_by_name("ENONSENSE"), -ENOENT);
	for (int err = 1; err < 4096; err++)
		if (spoor_errno_name(err))
			assert_int_equal(spoor_errno_by_name(spoor_errno_name(err)), err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seccomp_x86_64),
		cmocka_unit_test(test_seccomp_i386),
		cmocka_unit_test(test_names_to_seccomp),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_openat),
		cmocka_unit_test(test_returned_in_some_uses),
		cmocka_unit_test(test_i386_differs),
		cmocka_unit_test(test_every_call_is_sane),
		cmocka_unit_test(test_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who reads a program's buffers without having seen it end must know a crash from _exit() and execve(), which run no
 * destructor. So the shared library has these functions before libc's, and each leaves a mark, which is taken back if
 * it returns. Of libc's own calls of _exit() daemon()'s alone ends a traced process; the others are of its children.
 */
#include "agent/ust/ends.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/core/output.h"

#define EACH(X) X(_exit) X(_Exit) X(quick_exit) X(daemon) X(execv) X(execve) X(execvp) X(execvpe) X(fexecve) X(execveat)

/* The next ones of these names: libc's, or of another library that stands before it. */
static struct {
#define MEMBER(f) __typeof__(f) *f;
	EACH(MEMBER)
} next;

extern void own_exit(int status) __attribute__((alias("_exit"), visibility("hidden"), noreturn, nothrow, leaf));

void ends_begin(void)
{
	/* Of a library that came by dlopen() programs call none. */
	arenas_mark_ends = &_exit == &own_exit;
#define FIND(f) next.f = (__typeof__(f) *)dlsym(RTLD_NEXT, #f);
	EACH(FIND)
}

/* Constructors of others may come before ours. */
#define NEXT(f) (next.f ? next.f : (ends_begin(), next.f))

#define ENDS(f)                          \
	EXPORT void f(int status)        \
	{                                \
		outputs_leave();         \
		NEXT(f)(status);         \
		__builtin_unreachable(); \
	}
ENDS(_exit)
ENDS(_Exit)
ENDS(quick_exit)

/* What this returns is its caller's, unless it does not return. */
#define MAY_END(call)                            \
	({                                       \
		uint32_t left = outputs_leave(); \
		int r = call;                    \
		outputs_stay(left);              \
		r;                               \
	})

EXPORT int daemon(int stay, int keep)
{
	return MAY_END(NEXT(daemon)(stay, keep));
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(execve)(path, argv, envp));
}

EXPORT int execv(const char *path, char *const argv[])
{
	return MAY_END(NEXT(execv)(path, argv));
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return MAY_END(NEXT(execvp)(file, argv));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(execvpe)(file, argv, envp));
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(fexecve)(fd, argv, envp));
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	return MAY_END(NEXT(execveat)(dir, path, argv, envp, flags));
}

static size_t count(va_list args)
{
	size_t n = 1;

	while (va_arg(args, char *))
		n++;
	return n;
}

/* arg and what follows it up to NULL, as an array on the caller's stack: after vfork() there may be no other memory. */
#define COLLECT(arg, args)                                                       \
	({                                                                       \
		char **argv, **at;                                               \
		va_start(args, arg);                                             \
		argv = at = __builtin_alloca((count(args) + 1) * sizeof(*argv)); \
		va_end(args);                                                    \
		va_start(args, arg);                                             \
		*at++ = (char *)arg;                                             \
		while ((*at++ = va_arg(args, char *)))                           \
			;                                                        \
		argv;                                                            \
	})

EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list args;
	int r = MAY_END(NEXT(execv)(path, COLLECT(arg, args)));

	va_end(args);
	return r;
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list args;
	int r = MAY_END(NEXT(execvp)(file, COLLECT(arg, args)));

	va_end(args);
	return r;
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv = COLLECT(arg, args);
	int r = MAY_END(NEXT(execve)(path, argv, va_arg(args, char **)));

	va_end(args);
	return r;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who reads a program's buffers without having seen it end must know a crash from _exit() and execve(), which run no
 * destructor. So the shared library has these functions before libc's, and each leaves a mark, which is taken back if
 * it returns. Of libc's own calls of _exit() daemon()'s alone ends a traced process; the others are of its children.
 *
 * They have libc's versions, and these hidden: no linker takes them, nor are they found for who means another function
 * of the name, only at run time for who was linked with libc's.
 */
#include "agent/ust/ends.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/core/output.h"
#include "agent/ust/note.h"

#define EACH(X)                   \
	X(_exit, "GLIBC_2.2.5")   \
	X(_Exit, "GLIBC_2.2.5")   \
	X(daemon, "GLIBC_2.2.5")  \
	X(execl, "GLIBC_2.2.5")   \
	X(execle, "GLIBC_2.2.5")  \
	X(execlp, "GLIBC_2.2.5")  \
	X(execv, "GLIBC_2.2.5")   \
	X(execve, "GLIBC_2.2.5")  \
	X(execvp, "GLIBC_2.2.5")  \
	X(execvpe, "GLIBC_2.11")  \
	X(fexecve, "GLIBC_2.2.5") \
	X(execveat, "GLIBC_2.34")

#define DECLARE(f, v)                  \
	EXPORT __typeof__(f) ends_##f; \
	__asm__(".symver ends_" #f ", " #f "@" v);
EACH(DECLARE)

/* The next ones of these names: libc's, or of another library that stands before it. */
static struct {
#define MEMBER(f, v) __typeof__(f) *f;
	EACH(MEMBER)
} next;

/* Handlers run in reverse order. */
static void quick_exits(void)
{
	outputs_leave();
}

void ends_begin(bool first)
{
	/* Go's runtime ends by system calls of its own. */
	arenas_mark_ends = first && !note_program_is_go() && !at_quick_exit(quick_exits);
#define FIND(f, v)                                      \
	next.f = (__typeof__(f) *)dlsym(RTLD_NEXT, #f); \
	arenas_mark_ends = arenas_mark_ends && dlvsym(RTLD_DEFAULT, #f, v) == (void *)ends_##f;
	EACH(FIND)
}

/* Constructors of others may come before ours. */
#define NEXT(f) (next.f ? next.f : (ends_begin(false), next.f))

#define ENDS(f)                          \
	void ends_##f(int status)        \
	{                                \
		outputs_leave();         \
		NEXT(f)(status);         \
		__builtin_unreachable(); \
	}
ENDS(_exit)
ENDS(_Exit)

/* What this returns is its caller's, unless it does not return. */
#define MAY_END(call)                            \
	({                                       \
		uint32_t left = outputs_leave(); \
		int r = call;                    \
		outputs_stay(left);              \
		r;                               \
	})

int ends_daemon(int stay, int keep)
{
	return MAY_END(NEXT(daemon)(stay, keep));
}

int ends_execve(const char *path, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(execve)(path, argv, envp));
}

int ends_execv(const char *path, char *const argv[])
{
	return MAY_END(NEXT(execv)(path, argv));
}

int ends_execvp(const char *file, char *const argv[])
{
	return MAY_END(NEXT(execvp)(file, argv));
}

int ends_execvpe(const char *file, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(execvpe)(file, argv, envp));
}

int ends_fexecve(int fd, char *const argv[], char *const envp[])
{
	return MAY_END(NEXT(fexecve)(fd, argv, envp));
}

int ends_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
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

int ends_execl(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv = COLLECT(arg, args);
	int r = MAY_END(NEXT(execv)(path, argv));

	va_end(args);
	return r;
}

int ends_execlp(const char *file, const char *arg, ...)
{
	va_list args;
	char **argv = COLLECT(arg, args); /* alloca() has no place among a call's arguments */
	int r = MAY_END(NEXT(execvp)(file, argv));

	va_end(args);
	return r;
}

int ends_execle(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv = COLLECT(arg, args);
	int r = MAY_END(NEXT(execve)(path, argv, va_arg(args, char **)));

	va_end(args);
	return r;
}

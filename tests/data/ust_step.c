/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_step N: a child records 3 events and is then executed instruction by instruction through one more; after N of
 * them it is killed. Prints "through" if the event's site was behind it by then. Of what is recorded, a test asks.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(step, event, TP_PROTO(long n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(long, n, n), spoor_string(s, s)))

static void trap(void)
{
	__asm__ volatile("int3" ::: "memory");
}

static int child(void)
{
	for (long i = 0; i < 3; i++)
		spoor_trace(step, event, i, "before it");
	trap();
	spoor_trace(step, event, 3, "seventeen letters");
	trap();
	return 0;
}

/* True if it came to its second trap. */
static int step(pid_t pid, long n)
{
	siginfo_t info;
	int status;

	while (n-- > 0) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			abort();
		if (ptrace(PTRACE_GETSIGINFO, pid, 0, &info))
			abort();
		if (info.si_code == SI_KERNEL)
			return 1; /* it was an int3 */
	}
	return 0;
}

int main(int argc, char **argv)
{
	int status, through;
	pid_t pid;

	if (argc == 1)
		return child();
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl("/proc/self/exe", argv[0], NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0); /* it has executed */
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		return 1;
	through = step(pid, atol(argv[1]));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("%s\n", through ? "through" : "within");
	return !WIFSIGNALED(status);
}

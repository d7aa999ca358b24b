/* SPDX-License-Identifier: GPL-2.0-or-later */
/* into_cgroup DIR N: a child is born into the cgroup DIR and makes N marks (getppid). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int fd = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1, status;
	pid_t pid;

	if (fd < 0)
		return 2;
	args.cgroup = fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (!pid) {
		for (int i = atoi(argv[2]); i > 0; i--)
			syscall(SYS_getppid);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("clone3");
		return 1;
	}
	return status;
}

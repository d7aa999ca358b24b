// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * elapsed FILE CMD...    run CMD and write "WALL USER SYSTEM" in seconds to FILE; the exit code is CMD's
 *
 * It runs under the tracer, so that what the tracer needs to start and to end is not taken for a slower program.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval tv)
{
	return tv.tv_sec + tv.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	struct rusage usage;
	int status;
	pid_t pid;
	FILE *f;

	if (argc < 3) {
		fprintf(stderr, "usage: elapsed FILE CMD...\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "elapsed: cannot run %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
		fprintf(stderr, "elapsed: %s\n", strerror(errno));
		return 125;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	f = fopen(argv[1], "w");
	if (!f) {
		fprintf(stderr, "elapsed: cannot write %s: %s\n", argv[1], strerror(errno));
		return 125;
	}
	fprintf(f, "%.6f %.6f %.6f\n", (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9,
		seconds(usage.ru_utime), seconds(usage.ru_stime));
	fclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/preload.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "collect/session/command.h"
#include "object/executable.h"

/* What a thread has mapped executable. Returns false if it has nothing mapped at all: it has ended. */
static bool preload_mappings(pid_t tid, struct spoor_objects *objects)
{
	char path[64], line[4400], perms[8];
	unsigned long start, end, ino;
	bool any = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		int at = 0;

		any = true;
		if (sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu %n", &start, &end, perms, &ino, &at) != 4 || !at ||
		    perms[2] != 'x' || !ino)
			continue;
		line[strcspn(line, "\n")] = 0;
		spoor_cut_deleted(line);
		spoor_objects_preload_mapping(objects, tid, start, end, ino, line + at, NULL);
	}
	fclose(f);
	return any;
}

void spoor_preload_process(pid_t pid, struct spoor_objects *objects)
{
	_cleanup_(spoor_closedirp) DIR *d = NULL;
	struct dirent *de;
	char path[64];

	if (preload_mappings(pid, objects))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		pid_t tid = atoi(de->d_name);

		if (tid > 0 && tid != pid && preload_mappings(tid, objects))
			return;
	}
}

/*
 * What a command will map at its start: the dynamic loader is asked (it runs no code of the program). A script's
 * interpreter counts as the program.
 */
static void preload_program(const char *path, struct spoor_objects *objects, int depth)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char interp[PATH_MAX] = "", script[PATH_MAX], line[2 * PATH_MAX];
	struct stat before, after;
	int out[2], status;
	FILE *f;
	pid_t pid;

	if (fd < 0)
		return;
	spoor_object_script(fd, script, sizeof(script));
	if (script[0] && depth < 4) {
		_cleanup_(spoor_freep) char *real = realpath(script, NULL); /* by which it is known wherever it runs */

		if (real)
			preload_program(real, objects, depth + 1);
		return;
	}
	spoor_objects_preload(objects, path, true);
	spoor_object_interpreter(fd, interp, sizeof(interp));
	if (!interp[0] || fstat(fd, &before) || stat(path, &after) || before.st_ino != after.st_ino ||
	    pipe2(out, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(out[1], 1);
		dup2(null, 2);
		alarm(2);
		execl(interp, interp, "--list", path, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	while (f && fgets(line, sizeof(line), f)) {
		char *lib = strchr(line, '/'), *real;

		if (!lib)
			continue;
		lib[strcspn(lib, " \n")] = 0;
		real = realpath(lib, NULL);
		if (real)
			spoor_objects_preload(objects, real, false);
		free(real);
	}
	if (f)
		fclose(f);
	if (pid > 0)
		waitpid(pid, &status, 0);
}

void spoor_preload_command(const char *path, struct spoor_objects *objects)
{
	_cleanup_(spoor_freep) char *real = realpath(path, NULL);

	if (real)
		preload_program(real, objects, 0);
}

void spoor_preload_name(const char *name, struct spoor_objects *objects)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin" };

	for (unsigned i = 0; !strpbrk(name, "*?[\\") && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		_cleanup_(spoor_freep) char *real = NULL;
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		real = spoor_command_runnable(path) ? realpath(path, NULL) : NULL;
		if (real) {
			preload_program(real, objects, 0);
			return;
		}
	}
}

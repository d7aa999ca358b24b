/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/process.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

uint64_t spoor_process_start(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	unsigned long long start = 0;
	char path[64], line[1024], *close;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
	line[n] = '\0';
	close = strrchr(line, ')');
	if (!close ||
	    sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &start) != 1 ||
	    close[2] == 'Z' || close[2] == 'X')
		return 0;
	return start;
}

bool spoor_process_runs(uint32_t pid, uint64_t start_time)
{
	return start_time && spoor_process_start(pid) == start_time;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Of a thread: its state's letter, '\0': there is none; and when it was started. */
static char state_of(uint32_t tid, uint64_t *ret_start)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	unsigned long long start = 0;
	char path[64], line[1024], state = 0, *close;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	f = fopen(path, "re");
	n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
	line[n] = '\0';
	close = strrchr(line, ')');
	if (!close ||
	    sscanf(close + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &state, &start) != 2)
		return 0;
	*ret_start = start;
	return state;
}

static bool has_ended(char state)
{
	return !state || state == 'Z' || state == 'X';
}

char spoor_process_state(uint32_t pid)
{
	uint64_t start;

	return state_of(pid, &start);
}

/* A signal that it does not block has come to it, or to its process. One that is stopped gets round to nothing. */
static bool thread_is_behind(uint32_t tid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	unsigned long long mask, come = 0, blocked = 0;
	char path[64], line[256], state = 0;

	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "State: %c", &state) == 1)
			continue;
		if (sscanf(line, "SigPnd: %llx", &mask) == 1 || sscanf(line, "ShdPnd: %llx", &mask) == 1)
			come |= mask;
		else
			sscanf(line, "SigBlk: %llx", &blocked);
	}
	return state != 'T' && state != 't' && come & ~blocked;
}

/* The first thread of pid for which is_one() is true; 0: none. */
static uint32_t find_thread(uint32_t pid, bool (*is_one)(uint32_t tid))
{
	_cleanup_(spoor_closedirp) DIR *threads = NULL;
	struct dirent *d;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	threads = opendir(path);
	while (threads && (d = readdir(threads))) {
		uint32_t tid = (uint32_t)strtoul(d->d_name, NULL, 10);

		if (tid && is_one(tid))
			return tid;
	}
	return 0;
}

bool spoor_process_is_behind(uint32_t pid)
{
	return find_thread(pid, thread_is_behind);
}

static bool lives(uint32_t tid)
{
	uint64_t start;

	return !has_ended(state_of(tid, &start));
}

uint32_t spoor_process_thread(uint32_t pid)
{
	uint32_t other = lives(pid) ? 0 : find_thread(pid, lives);

	return other ? other : pid;
}

void spoor_process_name(uint32_t pid, char name[16])
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	n = f ? fread(name, 1, 15, f) : 0;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

uint64_t spoor_process_start(uint32_t pid)
{
	uint64_t start;
	char state = state_of(pid, &start);

	if (!state || (has_ended(state) && spoor_process_thread(pid) == pid))
		return 0;
	return start;
}

bool spoor_process_runs(uint32_t pid, uint64_t start_time)
{
	return start_time && spoor_process_start(pid) == start_time;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/self.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "agent/core/process.h"

#define OVERFLOW_UID 65534 /* as everybody is seen whom a user namespace does not know; also called nobody */

/* Reads a small file. Bytes, the NUL that is put behind them not counted. */
static long slurp(const char *path, char *to, size_t size)
{
	long fd = sys3(SYS_open, path, O_RDONLY | O_CLOEXEC, 0), n;

	to[0] = '\0';
	if (sys_failed(fd))
		return fd;
	n = sys3(SYS_read, fd, to, size - 1);
	sys3(SYS_close, fd, 0, 0);
	if (sys_failed(n))
		return n;
	to[n] = '\0';
	return n;
}

/* Field 22 of /proc/self/stat; the name, field 2, may hold anything. */
static uint64_t read_start_time(void)
{
	char text[1024], *at;
	uint64_t t = 0;
	int field;

	if (slurp("/proc/self/stat", text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	for (field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return 0;
	for (at++; *at >= '0' && *at <= '9'; at++)
		t = t * 10 + (uint64_t)(*at - '0');
	return t;
}

uint64_t self_start_time(void)
{
	if (!process->start_time)
		process->start_time = read_start_time();
	return process->start_time;
}

bool self_is_somebody(uid_t uid)
{
	unsigned long range[3] = { 0, 0, 1 }; /* a line: first here, first outside, how many */
	char text[4096], *at = text;
	unsigned i;

	if (uid != OVERFLOW_UID || slurp("/proc/self/uid_map", text, sizeof(text)) < 0)
		return true;
	while (*at && range[2]) {
		for (i = 0; i < 3; i++) {
			while (*at == ' ' || *at == '\n')
				at++;
			for (range[i] = 0; *at >= '0' && *at <= '9'; at++)
				range[i] = range[i] * 10 + (unsigned long)(*at - '0');
		}
		if (uid >= range[0] && uid - range[0] < range[2])
			return true;
	}
	return false;
}

/* The process's; else this thread's, which in a child is the same. */
void self_comm(char to[16])
{
	char *end;

	if (slurp("/proc/self/comm", to, 16) < 0)
		sys3(SYS_prctl, PR_GET_NAME, to, 0);
	end = memchr(to, '\n', 16);
	if (end)
		*end = '\0';
}

void self_exe(char *to, size_t size)
{
	static char last[1024];
	long n = sys3(SYS_readlink, "/proc/self/exe", to, size - 1);

	if (sys_failed(n)) {
		n = (long)strlen(last);
		n = n < (long)size - 1 ? n : (long)size - 1;
		memcpy(to, last, (size_t)n);
	} else {
		size_t kept = (size_t)n < sizeof(last) - 1 ? (size_t)n : sizeof(last) - 1;

		memcpy(last, to, kept);
		last[kept] = '\0';
	}
	to[n] = '\0';
}

uint64_t self_pid_ns(void)
{
	struct stat st = {};

	return sys_failed(sys3(SYS_stat, "/proc/self/ns/pid", &st, 0)) ? 0 : st.st_ino;
}

void self_boot_id(uint8_t id[16])
{
	static uint8_t last[16];
	char text[64], *at = text;
	int i, n = 0;

	if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof(text)) >= 0)
		memset(last, 0, sizeof(last));
	for (i = 0; n < 32 && at[i]; i++) {
		int digit = at[i] >= '0' && at[i] <= '9' ? at[i] - '0' :
			    at[i] >= 'a' && at[i] <= 'f' ? at[i] - 'a' + 10 :
							   -1;

		if (digit < 0)
			continue;
		last[n / 2] = (uint8_t)(last[n / 2] << 4 | digit);
		n++;
	}
	memcpy(id, last, sizeof(last));
}

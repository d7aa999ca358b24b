/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that run already and have no thread that listens. SIGURG is ignored by default, so whoever has reset its
 * handler is not harmed; and only who handles it is sent one at all.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "collect/user/hub_internal.h"
#include "collect/user/sites.h"

#define MOST_LOOKS 20 /* for those that others had forked before they were called */

int spoor_kick(uint32_t pid)
{
	siginfo_t info = { .si_signo = SIGURG, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)SPOOR_CONTROL_KICK;
	return syscall(SYS_rt_sigqueueinfo, pid, SIGURG, &info) ? -errno : 0;
}

/* Is SIGURG in that set of /proc/PROCESS/status? 1, 0, or -ESRCH. */
static int has_signal(const char *process, const char *set)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%s/status", process);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, set, strlen(set)))
			return strtoull(line + strlen(set), NULL, 16) >> (SIGURG - 1) & 1;
	return -ESRCH;
}

static bool handles_it(uint32_t pid)
{
	char process[16];

	snprintf(process, sizeof(process), "%u", pid);
	return has_signal(process, "SigCgt:") == 1;
}

/* In all of its threads: any that does not takes the signal. */
static bool blocks_it(uint32_t pid)
{
	_cleanup_(spoor_closedirp) DIR *tasks = NULL;
	char path[64], thread[48];
	bool blocked = false, open = false;
	struct dirent *d;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	while (tasks && !open && (d = readdir(tasks))) {
		int r;

		if (!isdigit(d->d_name[0]))
			continue;
		snprintf(thread, sizeof(thread), "%u/task/%u", pid, (unsigned)atoi(d->d_name));
		r = has_signal(thread, "SigBlk:");
		blocked |= r == 1;
		open |= r == 0;
	}
	return blocked && !open;
}

const char *spoor_kick_fails(uint32_t pid)
{
	if (blocks_it(pid))
		return "it blocks SIGURG";
	return handles_it(pid) ? NULL : "SIGURG was taken from it";
}

/* As a rule it is seen by a name. Who has it within another file, and no buffers, is to be looked into. */
static bool has_library(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[4352];

	snprintf(path, sizeof(path), "/proc/%u/maps", spoor_process_thread(pid));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "/libspoor-ust") || strstr(line, "/memfd:spoor-ust"))
			return true;
	return spoor_sites_have_agent(pid);
}

/* Is what the program has at `path` our socket? Links and mounts may lead to it by many names. */
static bool leads_here(const struct spoor_hub *h, uint32_t pid, const char *path)
{
	_cleanup_(spoor_closep) int root = -1, fd = -1;
	char name[64];
	struct stat st;

	if (!strcmp(path, h->path))
		return true;
	snprintf(name, sizeof(name), "/proc/%u/root", spoor_process_thread(pid));
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return true; /* it is not for us to see: the program is asked */
	fd = spoor_open_in_root(root, path, O_PATH);
	return fd >= 0 && !fstat(fd, &st) && st.st_dev == h->file.dev && st.st_ino == h->file.ino;
}

/* One that was relative when the program began may be any of that end: the program knows which. */
static bool may_be_ours(const struct spoor_hub *h, uint32_t pid, const char *path)
{
	size_t n, all = strlen(h->path);

	if (*path == '/')
		return leads_here(h, pid, path);
	while (!strncmp(path, "./", 2))
		path += 2;
	n = strlen(path);
	return !strcmp(path, h->path) ||
	       (n < all && h->path[all - n - 1] == '/' && !strcmp(h->path + all - n, path));
}

/*
 * Does the program look for a recorder where we are? What its environment was when it began tells; a setuid program's
 * does not matter to it. Who has put a title over it (setproctitle()) is asked himself.
 */
static bool looks_here(const struct spoor_hub *h, uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	_cleanup_(spoor_freep) char *variable = NULL;
	const size_t n = sizeof(SPOOR_CONTROL_VARIABLE);
	bool standard = leads_here(h, pid, SPOOR_CONTROL_SOCKET), any = false, overwritten = true;
	char path[PATH_MAX];
	size_t room = 0;

	snprintf(path, sizeof(path), "/proc/%u/environ", spoor_process_thread(pid));
	f = fopen(path, "re");
	if (!f)
		return true;
	while (getdelim(&variable, &room, '\0', f) > 0) {
		any = true;
		overwritten = overwritten && !strchr(variable, '=');
		if (!strncmp(variable, SPOOR_CONTROL_VARIABLE "=", n) && variable[n])
			return may_be_ours(h, pid, variable + n);
		if (!strncmp(variable, "XDG_RUNTIME_DIR=", 16) && !standard) {
			snprintf(path, sizeof(path), "%s/%s", variable + 16, SPOOR_CONTROL_USER_SOCKET);
			standard = leads_here(h, pid, path);
		}
	}
	return standard || (any && overwritten);
}

/* Who was turned away has not heard of it if he is still connected: our answer was late, and he does not listen. */
static bool is_known(struct spoor_hub *h, uint32_t pid)
{
	for (struct hub_program *p = h->first; p; p = p->next)
		if ((uint32_t)p->cred.pid == pid && p->program && !p->unwanted && p->sock.fd >= 0)
			return true;
	return false;
}

/* 0: it is here; 1: it can be kicked. */
static int may_kick(struct spoor_hub *h, uint32_t pid)
{
	if (is_known(h, pid))
		return 0;
	if (!spoor_process_start(pid))
		return -ESRCH;
	if (!handles_it(pid) || !has_library(pid))
		return -ENOENT;
	return looks_here(h, pid) ? 1 : -EBUSY;
}

static const char *why_not(int r)
{
	return r == -ENOENT ? "libspoor-ust is not in it, or SIGURG was taken from it" :
	       r == -EBUSY  ? "it obeys another recorder" :
	       r == -ESRCH  ? "there is none" :
			      "";
}

int spoor_hub_reaches(struct spoor_hub *h, uint32_t pid, struct spoor_error *e)
{
	int r = may_kick(h, pid);

	return r < 0 ? spoor_fail(e, -r, "%u: %s", pid, why_not(r)) : 0;
}

static int try_kick(struct spoor_hub *h, uint32_t pid, struct spoor_hub_request *q)
{
	int r = may_kick(h, pid);

	if (r <= 0)
		return r;
	if (spoor_kick(pid))
		return -errno;
	spoor_request_expect(q, pid);
	return 1;
}

/* In the order of their numbers. Returns how many; those for which there is no memory are missing. */
static size_t all_processes(uint32_t **ret)
{
	_cleanup_(spoor_closedirp) DIR *proc = opendir("/proc");
	size_t n = 0, room = 0;
	struct dirent *d;

	while (proc && (d = readdir(proc))) {
		if (n == room) {
			uint32_t *grown = reallocarray(*ret, room ? room * 2 : 1024, sizeof(*grown));

			if (!grown)
				break;
			*ret = grown;
			room = room ? room * 2 : 1024;
		}
		if (isdigit(d->d_name[0]))
			(*ret)[n++] = atoi(d->d_name);
	}
	return n;
}

/* The youngest first: they are the likeliest to end before we get to them, when they have forked the next. */
int spoor_kick_all(struct spoor_hub *h, struct spoor_hub_request *q)
{
	_cleanup_(spoor_freep) uint32_t *all = NULL;
	size_t left = all_processes(&all);
	int n = 0;

	while (left--)
		if (all[left] != (uint32_t)getpid())
			n += try_kick(h, all[left], q) > 0;
	return n;
}

int spoor_hub_kick(struct spoor_hub *h, const struct spoor_ust_session *s, uint32_t pid, struct spoor_hub_request *q)
{
	int n;

	if (q)
		q->session = s;
	if (q && !pid) {
		q->again = true;
		q->looks = MOST_LOOKS;
	}
	if (!pid)
		return spoor_kick_all(h, q);
	n = try_kick(h, pid, q);
	if (n < 0 && q)
		spoor_request_done(q, pid, n, why_not(n));
	return n;
}

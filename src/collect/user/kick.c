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
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"
#include "collect/user/sites.h"
#include "collect/user/urgent.h"

#define MOST_LOOKS 20 /* for those that others had forked before they were called */
#define FOUND_NS (20 * 1000000ULL)
#define SETTLES_US 30000 /* what a process that executes takes until its library listens, as a rule */
#define RECALLS 4 /* looks at most, until nobody is found; the last is but a wait for who was called */
#define RECALL_NS (100 * 1000000ULL)
#define MOST_ENVIRONMENT (6 << 20) /* bytes: more execve() gives no program */

const char *spoor_kick_fails(uint32_t pid)
{
	enum spoor_urgent_taker taker = spoor_urgent_find_taker(pid);

	if (taker == SPOOR_URGENT_TAKEN)
		return SPOOR_URGENT_IS_TAKEN;
	if (taker == SPOOR_URGENT_BLOCKED)
		return SPOOR_URGENT_IS_BLOCKED;
	return spoor_urgent_is_handled(pid) ? NULL : SPOOR_URGENT_IS_RESET;
}

/* Much may be said to it at once: what /proc says holds for a moment. */
void spoor_kick(struct hub_program *p)
{
	uint64_t now = spoor_now_monotonic();

	if (now - p->taker_found > FOUND_NS) {
		p->is_taken = spoor_urgent_find_taker(p->cred.pid) == SPOOR_URGENT_TAKEN;
		p->taker_found = now;
	}
	if (!p->is_taken)
		spoor_urgent_send(p->cred.pid);
}

/* 1: it has one of them mapped; 0: not; -errno: that may not be looked at. */
static int maps(uint32_t pid, const char *what, const char *or_what)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[4352];

	snprintf(path, sizeof(path), "/proc/%u/maps", spoor_process_thread(pid));
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (strstr(line, what) || strstr(line, or_what))
			return 1;
	return 0;
}

static const char buffers[] = "/memfd:spoor-ust";

/* As a rule it is seen by a name. Who has it within another file, and no buffers, is to be looked into. */
static int has_library(uint32_t pid)
{
	int r = maps(pid, "/libspoor-ust", buffers);

	return r || !spoor_sites_have_agent(pid) ? r : 1;
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

/* Words that each end with a NUL; NULL: it is not for us to see. A program may say that it is endless. */
static char *environment_of(uint32_t pid, size_t *ret_len)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], *words;

	snprintf(path, sizeof(path), "/proc/%u/environ", spoor_process_thread(pid));
	f = fopen(path, "re");
	words = f ? malloc(MOST_ENVIRONMENT + 1) : NULL;
	if (!words)
		return NULL;
	*ret_len = fread(words, 1, MOST_ENVIRONMENT, f);
	words[*ret_len] = '\0';
	return words;
}

/* Whether it was given rights as it was executed (set-user-id, file capabilities): it obeys no variable. */
static bool is_secure(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64];
	ElfW(auxv_t) a;

	snprintf(path, sizeof(path), "/proc/%u/auxv", spoor_process_thread(pid));
	f = fopen(path, "re");
	while (f && fread(&a, sizeof(a), 1, f) == 1)
		if (a.a_type == AT_SECURE)
			return a.a_un.a_val;
	return false;
}

/*
 * Does the program look for a recorder where we are? What its environment was when it began tells. Who has put a title
 * over it (setproctitle()) is asked himself.
 */
static bool looks_here(const struct spoor_hub *h, uint32_t pid)
{
	static const char alone[] = "SPOOR_UST_OUTPUT=";
	const size_t n = sizeof(SPOOR_CONTROL_VARIABLE);
	size_t most = MOST_ENVIRONMENT / (1 + sizeof(char *));
	bool standard = leads_here(h, pid, SPOOR_CONTROL_SOCKET), overwritten = true, seen = standard;
	const char *named = NULL;
	size_t len = 0;
	_cleanup_(spoor_freep) char *all = environment_of(pid, &len);
	char path[PATH_MAX];

	if (!all)
		return true;
	if (is_secure(pid))
		return standard;
	/* execve() counts a pointer for each: there are no more. */
	for (const char *variable = all; variable < all + len && most--; variable += strlen(variable) + 1) {
		overwritten = overwritten && !strchr(variable, '=');
		if (!strncmp(variable, alone, sizeof(alone) - 1) && variable[sizeof(alone) - 1])
			return false;
		if (!strncmp(variable, SPOOR_CONTROL_VARIABLE "=", n) && variable[n] && !named)
			named = variable + n;
		if (!strncmp(variable, "XDG_RUNTIME_DIR=", 16) && !seen) { /* getenv() takes the first */
			seen = true;
			snprintf(path, sizeof(path), "%s/%s", variable + 16, SPOOR_CONTROL_USER_SOCKET);
			standard = leads_here(h, pid, path);
		}
	}
	if (named)
		return may_be_ours(h, pid, named);
	return standard || (len && overwritten);
}

/* Who was turned away has not heard of it if he is still connected: our answer was late, and he does not listen. */
static bool is_known(struct spoor_hub *h, uint32_t pid)
{
	for (struct hub_program *p = h->first; p; p = p->next)
		if ((uint32_t)p->cred.pid == pid && p->program && !p->unwanted && p->sock.fd >= 0)
			return true;
	return false;
}

/* 1: it is; has: the library. -EACCES: another user's, or one that gave it up to be looked into. */
static int is_ours(const struct spoor_hub *h, uint32_t pid, int has)
{
	if (has <= 0)
		return has == -EACCES || has == -EPERM ? -EACCES : -ENOENT;
	return looks_here(h, pid) ? 1 : -EBUSY;
}

/* 0: it is here; 1: it can be kicked. -ENOTCONN: it does not handle SIGURG, whether it has the library or not. */
static int may_kick(struct spoor_hub *h, uint32_t pid)
{
	int r;

	if (is_known(h, pid))
		return 0;
	if (!spoor_process_start(pid))
		return -ESRCH;
	if (!spoor_urgent_is_handled(pid))
		return -ENOTCONN;
	r = is_ours(h, pid, has_library(pid));
	if (r <= 0)
		return r;
	return spoor_urgent_find_taker(pid) == SPOOR_URGENT_TAKEN ? -EADDRINUSE : 1;
}

/* Of one process that is asked for: -ENOTCONN only if it is one of ours. */
static int reason_of(const struct spoor_hub *h, uint32_t pid, int r)
{
	int ours = r == -ENOTCONN ? is_ours(h, pid, has_library(pid)) : 1;

	return ours < 0 ? ours : r;
}

/* Of any process there is: one of ours by the library's name, for to look into all files would take too long. */
static bool is_out_of_reach(const struct spoor_hub *h, uint32_t pid, int r)
{
	return r == -EADDRINUSE || (r == -ENOTCONN && is_ours(h, pid, maps(pid, "/libspoor-ust", buffers)) > 0);
}

static const char *why_not(int r)
{
	return r == -ENOENT ? "libspoor-ust is not in it" :
	       r == -EACCES ? "the daemon may not look into it: run it as root" :
	       r == -EBUSY  ? "it obeys another recorder, or records alone" :
	       r == -ENOTCONN ? SPOOR_URGENT_IS_RESET :
	       r == -ESRCH  ? "there is none" :
	       r == -EADDRINUSE ? SPOOR_URGENT_IS_TAKEN :
				  "";
}

int spoor_hub_reaches(struct spoor_hub *h, uint32_t pid, struct spoor_error *e)
{
	int r = reason_of(h, pid, may_kick(h, pid));

	return r < 0 ? spoor_fail(e, -r, "%u: %s", pid, why_not(r)) : 0;
}

static int try_kick(struct spoor_hub *h, uint32_t pid, struct spoor_hub_request *q)
{
	int r = may_kick(h, pid);

	if (r <= 0)
		return r;
	r = spoor_urgent_send(pid);
	if (r)
		return r;
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

/* Who seems to be out of reach. */
struct suspect {
	uint32_t pid;
	uint64_t start;
	struct stat exe;
};

static struct suspect suspect(uint32_t pid)
{
	struct suspect s = { .pid = pid, .start = spoor_process_start(pid) };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	if (stat(path, &s.exe))
		s.start = 0;
	return s;
}

/* Who is about to execute something (posix_spawn()), or has just done so, handles no signal for a moment. */
static void tell_unreached(struct spoor_hub *h, struct spoor_hub_request *q, const struct suspect *all, size_t n)
{
	if (n)
		usleep(SETTLES_US);
	for (size_t i = 0; i < n; i++) {
		struct suspect now = suspect(all[i].pid);
		int r = may_kick(h, now.pid);

		if (now.start && now.start == all[i].start && now.exe.st_ino == all[i].exe.st_ino &&
		    is_out_of_reach(h, now.pid, r))
			spoor_unreached_tell(h, q, now.pid, r, why_not(r));
	}
	spoor_unreached_sum_up(q);
}

/*
 * The youngest first: they are the likeliest to end before we get to them, when they have forked the next. What is none
 * of ours is passed over; which of ours cannot be called is told, once.
 */
int spoor_kick_all(struct spoor_hub *h, struct spoor_hub_request *q)
{
	_cleanup_(spoor_freep) uint32_t *all = NULL;
	_cleanup_(spoor_freep) struct suspect *suspects = NULL;
	size_t left = all_processes(&all), n_suspects = 0;
	int n = 0;

	if (q && q->again)
		suspects = calloc(left, sizeof(*suspects));
	while (left--) {
		uint32_t pid = all[left];
		int r = pid != (uint32_t)getpid() ? try_kick(h, pid, q) : 0;

		n += r > 0;
		if (suspects && is_out_of_reach(h, pid, r))
			suspects[n_suspects++] = suspect(pid);
	}
	if (suspects)
		tell_unreached(h, q, suspects, n_suspects);
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
	n = reason_of(h, pid, try_kick(h, pid, q));
	if (n == -ENOTCONN || n == -EADDRINUSE)
		spoor_unreached_tell(h, q, pid, n, why_not(n));
	else if (n < 0)
		spoor_request_done(q, pid, n, why_not(n));
	return n;
}

static bool has_heard(const struct spoor_hub *h, uint32_t pid)
{
	for (size_t i = 0; i < h->n_recalled; i++)
		if (h->recalled[i] == pid)
			return true;
	return false;
}

void spoor_recall_heard(struct spoor_hub *h, uint32_t pid)
{
	uint32_t *grown;

	if (!h->recalls || has_heard(h, pid))
		return;
	grown = reallocarray(h->recalled, h->n_recalled + 1, sizeof(*grown));
	if (!grown)
		return;
	h->recalled = grown;
	h->recalled[h->n_recalled++] = pid;
}

/* Of a session whose end a program has heard it maps no buffers any more. Was anybody called? */
static bool recall(struct spoor_hub *h)
{
	_cleanup_(spoor_freep) uint32_t *all = NULL;
	size_t left = all_processes(&all);
	bool any = false;

	while (left--) {
		uint32_t pid = all[left];

		if (pid != (uint32_t)getpid() && spoor_urgent_is_handled(pid) && maps(pid, buffers, buffers) > 0 &&
		    !has_heard(h, pid) && may_kick(h, pid) == 1)
			any |= !spoor_urgent_send(pid);
	}
	return any;
}

void spoor_kick_left(const char *path)
{
	_cleanup_(spoor_freep) struct spoor_hub *h = calloc(1, sizeof(*h));

	if (!h)
		return;
	snprintf(h->path, sizeof(h->path), "%s", path);
	for (int i = 0; i < RECALLS && recall(h); i++) /* who was forked before its parent was called */
		usleep(RECALL_NS / 1000);
}

static void end_recall(struct spoor_hub *h)
{
	h->recalls = h->n_recalled = 0;
	free(h->recalled);
	h->recalled = NULL;
}

void spoor_recall_tick(struct spoor_hub *h, uint64_t now)
{
	if (!h->recalls || now < h->recall)
		return;
	h->recall = now + RECALL_NS;
	if (!--h->recalls || !recall(h))
		end_recall(h);
}

void spoor_hub_recall(struct spoor_hub *h, uint64_t after)
{
	end_recall(h);
	h->recalls = RECALLS;
	h->recall = spoor_now_monotonic() + after;
}

bool spoor_hub_recalls(const struct spoor_hub *h)
{
	return h->recalls;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/process_root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/time.h"

struct spoor_traced_process spoor_traced_process(uint32_t pid, const struct spoor_thread *leader)
{
	struct spoor_traced_process p = { .pid = pid };

	if (leader && leader->pid == pid && leader->h.tid == pid) {
		p.inner = leader->vtid;
		p.start = leader->start;
	}
	return p;
}

struct spoor_trace_place spoor_trace_place(const struct spoor_trace_info *info)
{
	struct spoor_trace_place place = { 0 };
	uint8_t boot[16];

	if (!info)
		return place;
	place.epoch_offset = info->epoch_offset;
	place.here = spoor_boot_id(boot) == 0 && !memcmp(boot, info->boot_id, sizeof(boot));
	return place;
}

/* The kernel tells of a process's begin in ticks, of a clock that went on in suspend. */
bool spoor_process_is(const struct spoor_trace_place *place, const struct spoor_traced_process *p, uint32_t pid)
{
	uint64_t tick = SPOOR_NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK), began;

	if (!place->here || !pid)
		return false;
	began = spoor_process_start(pid) * tick;
	if (place->now)
		return began;
	return p->start && began && began + tick > p->start &&
	       began <= p->start + spoor_suspended() + SPOOR_NS_PER_SEC / 1000;
}

int spoor_process_root(const struct spoor_trace_place *place, const struct spoor_traced_process *p, uint32_t pid)
{
	_cleanup_(spoor_closep) int root = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/root", spoor_process_thread(pid));
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || !spoor_process_is(place, p, pid)) /* looked at last: so all was of this process */
		return -ESRCH;
	return TAKE_FD(root);
}

/* ---- roots that are not ours ---- */

static bool mounts_of(uint32_t pid, uint64_t *ret)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/ns/mnt", spoor_process_thread(pid));
	if (stat(path, &st))
		return false;
	*ret = st.st_ino;
	return true;
}

static bool is_known(const struct spoor_roots *r, uint64_t mounts, const struct stat *st)
{
	struct stat own;
	uint64_t own_mounts;

	if (!stat("/", &own) && mounts_of((uint32_t)getpid(), &own_mounts) && own_mounts == mounts &&
	    own.st_dev == st->st_dev && own.st_ino == st->st_ino)
		return true;
	for (size_t i = 0; i < r->n; i++)
		if (r->all[i].mounts == mounts && r->all[i].dev == st->st_dev && r->all[i].ino == st->st_ino)
			return true;
	return false;
}

void spoor_roots_add(struct spoor_roots *r, const struct spoor_trace_place *place, const struct spoor_traced_process *p)
{
	_cleanup_(spoor_closep) int root = -1;
	uint64_t mounts;
	struct stat st;

	if (r->n == SPOOR_ROOTS_MOST || !place->here || !mounts_of(p->pid, &mounts))
		return;
	root = spoor_process_root(place, p, p->pid);
	if (root < 0 || fstat(root, &st) || is_known(r, mounts, &st))
		return;
	r->all[r->n].mounts = mounts;
	r->all[r->n].dev = st.st_dev;
	r->all[r->n].ino = st.st_ino;
	r->all[r->n++].fd = TAKE_FD(root);
}

void spoor_roots_done(struct spoor_roots *r)
{
	while (r->n)
		close(r->all[--r->n].fd);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sites of a process: those of the files that it maps as code, and from its memory whether they are on. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/user/sites_internal.h"

#define SITE_OFF 0xa9
#define SITE_ON 0xe9
#define ENABLED_OFFSET 28 /* of `enabled` in struct spoor_tracepoint (include/spoor/site.h) */
#define MOST_OBJECTS 4096

struct object {
	uint64_t dev, ino;
};

struct process {
	uint32_t pid;
	int mem;
	spoor_site_fn each;
	void *ctx;
	uint64_t bias; /* of the object at hand: what to add to its addresses */
	const char *shown;
	struct object *seen;
	size_t n_seen;
};

static void with_state(void *ctx, const struct spoor_site_info *found)
{
	struct process *p = ctx;
	struct spoor_site_info site = *found;
	uint8_t byte;

	site.object = p->shown;
	if (site.kind != SPOOR_SITE_SDT &&
	    pread(p->mem, &byte, 1, p->bias + (site.by_flag ? site.tracepoint + ENABLED_OFFSET : site.code)) == 1) {
		if (site.by_flag)
			site.state = byte ? SPOOR_SITE_ON : SPOOR_SITE_OFF;
		else
			site.state = byte == SITE_ON  ? SPOOR_SITE_ON :
				     byte == SITE_OFF ? SPOOR_SITE_OFF :
							SPOOR_SITE_UNKNOWN;
	}
	p->each(p->ctx, &site);
}

/* A mapping of file offset `offset` at `start`: what does the loader add to the file's addresses? */
static bool bias_of(const struct site_file *f, uint64_t start, uint64_t offset, uint64_t *ret)
{
	for (unsigned i = 0; i < f->n_segments; i++) {
		const Elf64_Phdr *s = &f->segments[i];

		if (s->p_type != PT_LOAD || !(s->p_flags & PF_X) || offset < (s->p_offset & ~4095ULL) ||
		    offset >= s->p_offset + s->p_filesz)
			continue;
		*ret = start - (s->p_vaddr - s->p_offset + offset);
		return true;
	}
	return false;
}

static bool is_new(struct process *p, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i].dev == dev && p->seen[i].ino == ino)
			return false;
	if (p->n_seen == MOST_OBJECTS)
		return false;
	p->seen[p->n_seen++] = (struct object){ dev, ino };
	return true;
}

/* As the kernel has the file; else, for want of rights, as it is called from within the process. */
static int open_mapped(const struct process *p, uint64_t start, uint64_t end, const char *name, struct site_file *f,
		       char *path, size_t size)
{
	snprintf(path, size, "/proc/%u/map_files/%lx-%lx", p->pid, (unsigned long)start, (unsigned long)end);
	if (!spoor_site_file_open(path, f, NULL))
		return 0;
	spoor_site_file_done(f);
	snprintf(path, size, "/proc/%u/root%s", p->pid, name);
	return spoor_site_file_open(path, f, NULL);
}

static int of_mapping(struct process *p, const char *line, bool sdt)
{
	_cleanup_(spoor_site_file_done) struct site_file f = { .fd = -1 };
	unsigned long start, end, offset, major, minor, ino;
	char perms[8], path[PATH_MAX + 64];
	int at = 0, n;

	if (sscanf(line, "%lx-%lx %7s %lx %lx:%lx %lu %n", &start, &end, perms, &offset, &major, &minor, &ino, &at) !=
		    7 ||
	    !at || perms[2] != 'x' || !ino || line[at] != '/')
		return 0;
	if (!is_new(p, major << 32 | minor, ino) || open_mapped(p, start, end, line + at, &f, path, sizeof(path)))
		return 0;
	if (!bias_of(&f, start, offset, &p->bias))
		return 0;
	p->shown = line + at;
	n = spoor_site_file_each(&f, sdt, with_state, p, NULL);
	return n < 0 ? 0 : n; /* a file of which nothing can be said has none */
}

int spoor_sites_of_process(uint32_t pid, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e)
{
	_cleanup_(spoor_fclosep) FILE *maps = NULL;
	_cleanup_(spoor_freep) struct object *seen = calloc(MOST_OBJECTS, sizeof(*seen));
	_cleanup_(spoor_freep) char *line = NULL;
	_cleanup_(spoor_closep) int mem = -1;
	struct process p = { .pid = pid, .each = each, .ctx = ctx, .seen = seen };
	char path[64];
	size_t room = 0;
	ssize_t len;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	maps = mem < 0 ? NULL : fopen(path, "re");
	if (!maps || !seen)
		return spoor_fail(e, errno == ENOENT ? ESRCH : errno, "process %u: %s", pid,
				  errno == ENOENT ? "there is none" : strerror(errno));
	p.mem = mem;
	while ((len = getline(&line, &room, maps)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		n += of_mapping(&p, line, sdt);
	}
	return n;
}

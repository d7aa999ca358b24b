/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sites of a process: those of the files that it maps as code, and from its memory whether they are on. And the
 * library, which may be in any of these files.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ust/state.h"
#include "base/cleanup.h"
#include "base/process.h"
#include "collect/user/sites_internal.h"

#define SITE_OFF 0xa9
#define SITE_ON 0xe9
#define ENABLED_OFFSET 28 /* of `enabled` in struct spoor_tracepoint (include/spoor/site.h) */
#define AGENT_OFFSET 32   /* of `agent` */
#define MOST_OBJECTS 4096

struct object {
	uint64_t dev, ino;
};

struct process {
	uint32_t pid;
	int mem;
	bool sdt;
	spoor_site_fn each;
	void *ctx;
	uint64_t bias; /* of the object at hand: what to add to its addresses */
	const char *shown;
	struct spoor_agent_state agent; /* version 0: the library is not there */
	bool found; /* the library: no further file is of interest */
	struct object *seen;
	size_t n_seen;
};

static enum spoor_site_way way_of(const struct process *p, enum spoor_site_way built, uint8_t code, bool enabled)
{
	/* Compiled in as on, it is so still, or it would have been switched off: the flag alone switches it. */
	if (built == SPOOR_SITE_FLAG && code == SITE_ON && (p->agent.way == SPOOR_AGENT_REFUSED || !enabled))
		return p->agent.way ? SPOOR_SITE_FLAG : SPOOR_SITE_ABSENT;
	if (enabled && code != SITE_ON)
		return SPOOR_SITE_REFUSED;
	switch (p->agent.way) {
	case SPOOR_AGENT_PATCHED:
		return SPOOR_SITE_PATCHED;
	case SPOOR_AGENT_MEM:
		return SPOOR_SITE_MEM;
	case SPOOR_AGENT_REFUSED:
		return SPOOR_SITE_REFUSED;
	}
	return SPOOR_SITE_ABSENT;
}

static bool peek(const struct process *p, uint64_t at, void *to, size_t size)
{
	return at && pread(p->mem, to, size, at) == (ssize_t)size;
}

static void add_word(char *text, size_t room, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || at[-1] == ',') && (!at[len] || at[len] == ','))
			return; /* another session's channel of that name */
	if (strlen(text) + len + 2 > room)
		return;
	if (*text)
		strcat(text, ",");
	strcat(text, word);
}

/* The names of the channels that its events are in now, as state.h says. */
static void channels_of(const struct process *p, uint64_t tracepoint, char *text, size_t room)
{
	const struct spoor_agent_state *a = &p->agent;
	uint64_t class, channel;
	char name[33] = "";
	uint32_t bits;

	*text = '\0';
	if (!a->version || !peek(p, tracepoint + AGENT_OFFSET, &class, 8) || !class ||
	    !peek(p, class + a->class_slots, &bits, sizeof(bits)))
		return;
	for (unsigned i = 0; i < a->n_slots && i < 32; i++)
		if (bits >> i & 1 &&
		    peek(p, (uintptr_t)a->slots + (uint64_t)i * a->slot_size + a->slot_channel, &channel, 8) &&
		    peek(p, channel, name, sizeof(name) - 1))
			add_word(text, room, name);
}

/* What its code and its tracepoint say, and the library of itself; not what the file was built for. */
static void with_state(void *ctx, const struct spoor_site_info *found)
{
	struct process *p = ctx;
	struct spoor_site_info site = *found;
	char channels[512] = "";
	uint8_t code, enabled;

	site.object = p->shown;
	if (site.kind != SPOOR_SITE_SDT && pread(p->mem, &code, 1, p->bias + site.code) == 1 &&
	    pread(p->mem, &enabled, 1, p->bias + site.tracepoint + ENABLED_OFFSET) == 1) {
		site.way = way_of(p, found->way, code, enabled);
		if (code == SITE_ON)
			site.state = enabled || found->way == SPOOR_SITE_PATCHED ? SPOOR_SITE_ON : SPOOR_SITE_OFF;
		else
			site.state = code == SITE_OFF ? SPOOR_SITE_OFF : SPOOR_SITE_UNKNOWN;
		if (site.state == SPOOR_SITE_ON)
			channels_of(p, p->bias + site.tracepoint, channels, sizeof(channels));
		site.channels = channels;
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

/* Both say it as d_path() does, " (deleted)" included. Not by its inode: other file systems have that number, too. */
static bool is_program(const struct process *p, const char *name)
{
	char path[64], program[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/exe", p->pid);
	n = readlink(path, program, sizeof(program));
	return n > 0 && (size_t)n == strlen(name) && !memcmp(program, name, n);
}

/*
 * As the kernel has the file; else, for want of rights, the program's own, which may have been removed since, or as it
 * is called from within the process.
 */
static int open_mapped(const struct process *p, uint64_t start, uint64_t end, const char *name, struct site_file *f,
		       char *path, size_t size)
{
	int r;

	snprintf(path, size, "/proc/%u/map_files/%lx-%lx", p->pid, (unsigned long)start, (unsigned long)end);
	r = spoor_site_file_open(path, f, NULL);
	if (!r || r == -ETIMEDOUT) /* its name would only keep another thread waiting */
		return r;
	spoor_site_file_done(f);
	if (is_program(p, name))
		snprintf(path, size, "/proc/%u/exe", p->pid);
	else
		snprintf(path, size, "/proc/%u/root%s", p->pid, name);
	return spoor_site_file_open(path, f, NULL);
}

/* The library, if it is in this object: what does it say of this process? Of several copies the one that serves. */
static int ask_agent(struct process *p, struct site_file *f)
{
	uint64_t at = spoor_site_file_agent(f);
	struct spoor_agent_state state;

	if (!p->agent.serves && at && pread(p->mem, &state, sizeof(state), p->bias + at) == sizeof(state) &&
	    state.version == SPOOR_AGENT_STATE_VERSION && state.way <= SPOOR_AGENT_REFUSED)
		p->agent = state;
	return 0;
}

static int find_agent(struct process *p, struct site_file *f)
{
	p->found = spoor_site_file_agent(f);
	return 0;
}

static int list_sites(struct process *p, struct site_file *f)
{
	return spoor_site_file_each(f, p->sdt, with_state, p, NULL);
}

static int of_mapping(struct process *p, const char *line, int (*look)(struct process *p, struct site_file *f))
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
	n = look(p, &f);
	return n < 0 ? 0 : n; /* a file of which nothing can be said has none */
}

static int each_object(struct process *p, FILE *maps, int (*look)(struct process *p, struct site_file *f))
{
	_cleanup_(spoor_freep) char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int n = 0;

	rewind(maps);
	p->n_seen = 0;
	while (!p->found && (len = getline(&line, &room, maps)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		n += of_mapping(p, line, look);
	}
	return n;
}

bool spoor_sites_have_agent(uint32_t pid)
{
	_cleanup_(spoor_fclosep) FILE *maps = NULL;
	_cleanup_(spoor_freep) struct object *seen = calloc(MOST_OBJECTS, sizeof(*seen));
	struct process p = { .pid = spoor_process_thread(pid), .seen = seen };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/maps", p.pid);
	maps = seen ? fopen(path, "re") : NULL;
	if (maps)
		each_object(&p, maps, find_agent);
	return p.found;
}

int spoor_sites_of_process(uint32_t pid, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e)
{
	_cleanup_(spoor_fclosep) FILE *maps = NULL;
	_cleanup_(spoor_freep) struct object *seen = calloc(MOST_OBJECTS, sizeof(*seen));
	_cleanup_(spoor_closep) int mem = -1;
	struct process p = { .pid = spoor_process_thread(pid), .each = each, .ctx = ctx, .seen = seen, .sdt = sdt };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/mem", p.pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%u/maps", p.pid);
	maps = mem < 0 ? NULL : fopen(path, "re");
	if (!maps || !seen)
		return spoor_fail(e, errno == ENOENT ? ESRCH : errno, "process %u: %s", pid,
				  errno == ENOENT ? "there is none" : strerror(errno));
	p.mem = mem;
	each_object(&p, maps, ask_agent);
	return each_object(&p, maps, list_sites);
}

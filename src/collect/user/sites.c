/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/sites.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/arena.h"
#include "agent/ust/state.h"
#include "base/cleanup.h"
#include "collect/user/sites_internal.h"
#include "object/regular_file.h"

#define MOST_SITES 1000000
#define MOST_NOTES (64u << 20)
#define MOST_TEXT 1024

/* ---- the file ---- */

static bool read_at(const struct site_file *f, uint64_t offset, void *to, size_t size)
{
	return offset <= f->size && size <= f->size - offset && pread(f->fd, to, size, offset) == (ssize_t)size;
}

size_t spoor_site_file_read(const struct site_file *f, uint64_t address, void *to, size_t size)
{
	for (unsigned i = 0; i < f->n_segments; i++) {
		const Elf64_Phdr *p = &f->segments[i];
		uint64_t in;
		ssize_t n;

		if (p->p_type != PT_LOAD || address < p->p_vaddr || address - p->p_vaddr >= p->p_filesz)
			continue;
		in = address - p->p_vaddr;
		if (size > p->p_filesz - in)
			size = p->p_filesz - in;
		if (in > UINT64_MAX - p->p_offset)
			return 0;
		n = pread(f->fd, to, size, p->p_offset + in);
		return n < 0 ? 0 : n;
	}
	return 0;
}

static bool read_text(const struct site_file *f, uint64_t address, char *to, size_t size)
{
	size_t n = spoor_site_file_read(f, address, to, size - 1);

	to[n] = '\0';
	return n > 0 && strlen(to) < n;
}

void spoor_site_file_done(struct site_file *f)
{
	free(f->segments);
	spoor_closep(&f->fd);
}

int spoor_site_file_open(const char *path, struct site_file *f, struct spoor_error *e)
{
	Elf64_Ehdr h;
	struct stat st;

	*f = (struct site_file){ .path = path, .fd = spoor_open_regular(path) };
	if (f->fd == -EINVAL)
		return spoor_fail(e, ENOEXEC, "%s: no program or library for x86-64", path);
	if (f->fd < 0)
		return spoor_fail(e, -f->fd, "%s: cannot be opened: %s", path, strerror(-f->fd));
	f->size = fstat(f->fd, &st) ? 0 : st.st_size;
	if (!read_at(f, 0, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64)
		return spoor_fail(e, ENOEXEC, "%s: no program or library for x86-64", path);
	if (h.e_type == ET_REL) /* linking says where its sites are */
		return spoor_fail(e, ENOEXEC, "%s: is not linked: list the program or library that has it", path);
	if (h.e_phentsize != sizeof(Elf64_Phdr) && h.e_phnum)
		return spoor_fail(e, EBADMSG, "%s: its program headers make no sense", path);
	f->segments = calloc(h.e_phnum ? h.e_phnum : 1, sizeof(*f->segments));
	if (!f->segments)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	if (!read_at(f, h.e_phoff, f->segments, h.e_phnum * sizeof(*f->segments)))
		return spoor_fail(e, EBADMSG, "%s: its program headers make no sense", path);
	f->n_segments = h.e_phnum;
	if (h.e_shentsize == sizeof(Elf64_Shdr)) {
		f->sections_at = h.e_shoff;
		f->n_sections = h.e_shnum;
		f->names = h.e_shstrndx;
	}
	return 0;
}

/* ---- notes ---- */

typedef int (*note_fn)(void *ctx, const Elf64_Nhdr *h, const char *name, const uint8_t *desc, uint64_t desc_offset);

/* Calls on() for each note in `size` bytes. Stops at what makes no sense. */
static int each_note(const uint8_t *data, size_t size, note_fn on, void *ctx)
{
	size_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *h = (const void *)(data + at);
		uint64_t name = at + sizeof(*h), desc = name + (((uint64_t)h->n_namesz + 3) & ~3ULL);
		uint64_t next = desc + (((uint64_t)h->n_descsz + 3) & ~3ULL);
		int r;

		if (desc > size || desc + h->n_descsz > size)
			return 0;
		if (h->n_namesz && !data[name + h->n_namesz - 1]) {
			r = on(ctx, h, (const char *)data + name, data + desc, desc);
			if (r)
				return r;
		}
		if (next > size)
			return 0;
		at = next;
	}
	return 0;
}

static int notes_at(const struct site_file *f, uint64_t offset, uint64_t size, note_fn on, void *ctx)
{
	_cleanup_(spoor_freep) uint8_t *data = NULL;

	if (size > MOST_NOTES || offset > f->size || size > f->size - offset)
		return 0;
	data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	if (!read_at(f, offset, data, size))
		return 0;
	return each_note(data, size, on, ctx);
}

/* ---- Spoor's own ---- */

struct walk {
	struct site_file *f;
	spoor_site_fn each;
	void *ctx;
	int n;
	struct site_definitions *definitions;
	uint64_t begin; /* of the entries that were looked at */
	uint64_t address; /* of the notes at hand */
	uint64_t agent;
	uint64_t sdt_base;
};

static int one_site(struct walk *w, const struct entry *s, uint64_t at)
{
	_cleanup_(spoor_freep) uint8_t *desc = NULL;
	uint64_t desc_at = at + offsetof(struct entry, desc) + s->desc;
	const char *end, *provider, *name, *format;
	char file[MOST_TEXT], fields[4096];
	struct spoor_site_info site;
	struct desc d;

	int r = spoor_site_desc_read(w->f, desc_at, &d, &desc);

	if (r)
		return r;
	if (d.kind > SPOOR_SITE_ELSEWHERE)
		return -EBADMSG;
	provider = (const char *)desc + sizeof(d);
	end = provider + (d.kind == SPOOR_SITE_MARKER || d.kind == SPOOR_SITE_LOG ? d.size - sizeof(d) : d.text_size);
	name = memchr(provider, 0, end - provider);
	name = name ? name + 1 : NULL;
	format = name ? memchr(name, 0, end - name) : NULL;
	if (!format)
		return -EBADMSG;
	format++;
	if (d.kind == SPOOR_SITE_TRACEPOINT || format >= end || !memchr(format, 0, end - format))
		spoor_site_desc_fields(desc, &d, fields, sizeof(fields));
	else if (d.kind == SPOOR_SITE_ELSEWHERE)
		spoor_site_definition_find(w->definitions, provider, d.text_size, &d.level, fields, sizeof(fields));
	else
		snprintf(fields, sizeof(fields), "%s", format);
	if (!read_text(w->f, at + offsetof(struct entry, file) + s->file, file, sizeof(file)))
		file[0] = '\0';
	site = (struct spoor_site_info){
		.kind = d.kind == SPOOR_SITE_ELSEWHERE ? SPOOR_SITE_TRACEPOINT : d.kind,
		.provider = provider,
		.name = name,
		.fields = fields,
		.file = file,
		.line = s->line,
		.level = d.level <= 14 ? d.level : -1,
		.code = at + offsetof(struct entry, code) + s->code,
		.tracepoint = at + offsetof(struct entry, tracepoint) + s->tracepoint,
		.way = s->flags & 1 ? SPOOR_SITE_FLAG : SPOOR_SITE_PATCHED,
		.object = w->f->path,
	};
	w->each(w->ctx, &site);
	w->n++;
	return 0;
}

static int own_sites(struct walk *w, uint64_t begin, uint64_t end)
{
	_cleanup_(spoor_site_definitions_done) struct site_definitions definitions = {};

	if (begin > end || (end - begin) % sizeof(struct entry) || (end - begin) / sizeof(struct entry) > MOST_SITES)
		return -EBADMSG;
	if (begin == w->begin) /* link-time optimization may leave several notes for the same sites */
		return 0;
	w->begin = begin;
	w->definitions = &definitions;
	for (unsigned pass = 0; pass < 2; pass++)
		for (uint64_t at = begin; at < end; at += sizeof(struct entry)) {
			struct entry s;
			int r = 0;

			if (spoor_site_file_read(w->f, at, &s, sizeof(s)) != sizeof(s))
				return -EBADMSG;
			if (pass && s.code)
				r = one_site(w, &s, at);
			else if (!pass && !s.code && s.flags & SPOOR_ENTRY_DEFINITION)
				r = spoor_site_definition_add(w->f, at + offsetof(struct entry, desc) + s.desc,
							      &definitions);
			if (r)
				return r;
		}
	return 0;
}

static int on_spoor_note(void *ctx, const Elf64_Nhdr *h, const char *name, const uint8_t *desc, uint64_t offset)
{
	struct walk *w = ctx;
	int32_t words[4];

	if (h->n_type != 1 || strcmp(name, "Spoor") || h->n_descsz != sizeof(words))
		return 0;
	memcpy(words, desc, sizeof(words));
	if (words[0] != 1)
		return -EPROTO;
	return own_sites(w, w->address + offset + 4 + words[1], w->address + offset + 8 + words[2]);
}

static int on_agent_note(void *ctx, const Elf64_Nhdr *h, const char *name, const uint8_t *desc, uint64_t offset)
{
	struct walk *w = ctx;
	int32_t words[4];

	if (h->n_type != SPOOR_NOTE_AGENT || strcmp(name, "Spoor") || h->n_descsz != sizeof(words))
		return 0;
	memcpy(words, desc, sizeof(words));
	if (words[0] == 1)
		w->agent = w->address + offset + 4 + words[1];
	return 0;
}

static int loaded_notes(struct walk *w, note_fn on)
{
	for (unsigned i = 0; i < w->f->n_segments; i++) {
		const Elf64_Phdr *p = &w->f->segments[i];
		int r;

		if (p->p_type != PT_NOTE)
			continue;
		w->address = p->p_vaddr;
		r = notes_at(w->f, p->p_offset, p->p_filesz, on, w);
		if (r)
			return r;
	}
	return 0;
}

uint64_t spoor_site_file_agent(struct site_file *f)
{
	struct walk w = { .f = f };

	loaded_notes(&w, on_agent_note);
	return w.agent;
}

/* ---- <sys/sdt.h> ---- */

static int on_sdt_note(void *ctx, const Elf64_Nhdr *h, const char *name, const uint8_t *desc, uint64_t offset)
{
	struct walk *w = ctx;
	const char *provider = (const char *)desc + 24, *end = (const char *)desc + h->n_descsz, *probe, *args;
	struct spoor_site_info site;
	uint64_t words[3];

	if (h->n_type != 3 || strcmp(name, "stapsdt") || h->n_descsz < 24 + 3 || end[-1])
		return 0;
	memcpy(words, desc, sizeof(words));
	probe = provider + strlen(provider) + 1;
	args = probe < end ? probe + strlen(probe) + 1 : end;
	if (args >= end)
		return 0;
	site = (struct spoor_site_info){
		.kind = SPOOR_SITE_SDT,
		.provider = provider,
		.name = probe,
		.fields = args,
		.file = "",
		.level = -1,
		/* prelink moves sections, and notes do not notice: the base says by how much */
		.code = words[0] + (w->sdt_base && words[1] ? w->sdt_base - words[1] : 0),
		.object = w->f->path,
	};
	w->each(w->ctx, &site);
	return ++w->n > MOST_SITES ? -EBADMSG : 0;
}

static bool section(const struct site_file *f, unsigned i, Elf64_Shdr *ret)
{
	uint64_t at = (uint64_t)i * sizeof(*ret);

	return f->sections_at < f->size && read_at(f, f->sections_at + at, ret, sizeof(*ret));
}

static bool is_named(const struct site_file *f, const Elf64_Shdr *names, const Elf64_Shdr *s, const char *name)
{
	char text[32] = "";
	size_t n = strlen(name) + 1;

	return s->sh_name < names->sh_size && names->sh_offset < f->size &&
	       read_at(f, names->sh_offset + s->sh_name, text, n) && !strcmp(text, name);
}

static int find_sdt(struct walk *w)
{
	Elf64_Shdr names, s;

	if (!section(w->f, w->f->names, &names))
		return 0;
	for (unsigned i = 0; i < w->f->n_sections && section(w->f, i, &s); i++)
		if (is_named(w->f, &names, &s, ".stapsdt.base"))
			w->sdt_base = s.sh_addr;
	for (unsigned i = 0; i < w->f->n_sections && section(w->f, i, &s); i++) {
		int r;

		if (s.sh_type != SHT_NOTE || !is_named(w->f, &names, &s, ".note.stapsdt"))
			continue;
		r = notes_at(w->f, s.sh_offset, s.sh_size, on_sdt_note, w);
		if (r)
			return r;
	}
	return 0;
}

int spoor_site_file_each(struct site_file *f, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e)
{
	struct walk w = { .f = f, .each = each, .ctx = ctx };
	int r = loaded_notes(&w, on_spoor_note);

	if (!r && sdt)
		r = find_sdt(&w);
	if (r == -EPROTO)
		return spoor_fail(e, EPROTO, "%s: its sites are of another version than this Spoor knows", f->path);
	if (r)
		return spoor_fail(e, -r, "%s: %s", f->path,
				  r == -ENOMEM ? "out of memory" :
						 "its sites make no sense; is it a file of debug information alone?");
	return w.n;
}

int spoor_sites_of_file(const char *path, spoor_site_fn each, void *ctx, struct spoor_error *e)
{
	_cleanup_(spoor_site_file_done) struct site_file f = { .fd = -1 };
	int r = spoor_site_file_open(path, &f, e);

	return r ? r : spoor_site_file_each(&f, true, each, ctx, e);
}

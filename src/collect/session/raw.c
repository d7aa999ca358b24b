/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/raw.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

struct raw_walk;
#define SPOOR_WALK_CTX raw_walk
static int spoor_load(struct raw_walk *w, __u64 addr, __u64 *ret);
static int spoor_reg(struct raw_walk *w, __u32 reg, __u64 *ret);
#include "unwind/walk_core.h"

#define MAX_DEPTH 2048
#define SEARCH_MOST 16384 /* words of a stack that are looked at for return addresses */

struct raw_walk {
	const struct spoor_ctl_raw *raw;
	struct spoor_frame_state s;
	unsigned depth, searched;
	uint8_t window[4096]; /* of another process's stack (raw->remote) */
	uint64_t window_at;
	size_t window_len;
};

#define PRESENT (1ULL << 63) /* in an entry of /proc/PID/pagemap */
#define SWAPPED (1ULL << 62)
#define WATCHED (1ULL << 57) /* by userfaultfd(2); what is not there and has but this mark seems swapped */

static bool is_there(uint64_t entry, uint64_t how)
{
	return entry & how && (entry & (SWAPPED | WATCHED)) != (SWAPPED | WATCHED);
}

/*
 * Are these pages in memory, or in swap? To have others read would be to wait for their file's server, which may not
 * answer. (One that goes while we look is waited for all the same.)
 */
static bool are_there(uint32_t tid, uint64_t addr, size_t size, uint64_t how)
{
	_cleanup_(spoor_closep) int fd = -1;
	char path[64];
	uint64_t entry;

	snprintf(path, sizeof(path), "/proc/%u/pagemap", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (uint64_t page = addr >> 12; page <= (addr + size - 1) >> 12; page++)
		if (pread(fd, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) != sizeof(entry) ||
		    !is_there(entry, how))
			return false;
	return true;
}

/* The stack of a thread that sleeps, page by page; by its own id, since its process's leader may have ended. */
static int load_remote(struct raw_walk *w, uint64_t addr, uint64_t *ret)
{
	if (addr < w->window_at || addr + 8 > w->window_at + w->window_len) {
		uint64_t at = addr & ~4095ULL;
		struct iovec to = { w->window, sizeof(w->window) }, from = { (void *)at, sizeof(w->window) };
		ssize_t n = -1;

		if (are_there(w->raw->h.tid, at, sizeof(w->window), PRESENT | SWAPPED))
			n = process_vm_readv(w->raw->h.tid, &to, 1, &from, 1, 0);
		w->window_at = at;
		w->window_len = n > 0 ? n : 0;
		if (addr + 8 > at + w->window_len)
			return SPOOR_WALK_UNREADABLE;
	}
	memcpy(ret, w->window + (addr - w->window_at), 8);
	return 0;
}

/* The word at addr in a copy of len bytes from sp up. */
static bool load_copied(const uint8_t *bytes, uint64_t sp, uint32_t len, uint32_t holes, uint64_t addr, uint64_t *ret)
{
	if (addr < sp || len < 8 || addr - sp > len - 8 || holes >> ((addr >> 12) - (sp >> 12)) & 1)
		return false;
	memcpy(ret, bytes + (addr - sp), 8);
	return true;
}

static int spoor_load(struct raw_walk *w, __u64 addr, __u64 *ret)
{
	const struct spoor_ctl_raw *raw = w->raw;
	uint64_t value;
	int r;

	if (addr & 7)
		return SPOOR_WALK_UNREADABLE;
	if (raw->remote) {
		r = load_remote(w, addr, &value);
		if (r)
			return r;
	} else if (!load_copied(raw->bytes, raw->dwarf_regs[7], raw->len, raw->holes, addr, &value) &&
		   !load_copied(raw->bytes + raw->len, raw->beneath, raw->beneath_len, raw->beneath_holes, addr,
				&value)) {
		return SPOOR_WALK_TRUNCATED; /* on another stack, beyond the copy, or not there */
	}
	*ret = value;
	return 0;
}

static int spoor_reg(struct raw_walk *w, __u32 reg, __u64 *ret)
{
	static const uint8_t gregs[16] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7 };

	if (w->s.signal)
		return spoor_load(w, w->s.uc + 8 * gregs[reg & 15], ret);
	if (w->depth)
		return SPOOR_WALK_NO_ROWS;
	*ret = w->raw->dwarf_regs[reg & 15];
	return 0;
}

static const struct spoor_layout_range *range_of(const struct spoor_layout *l, uint64_t pc)
{
	for (unsigned i = 0; i < l->n; i++)
		if (pc >= l->ranges[i].start && pc < l->ranges[i].end)
			return &l->ranges[i];
	return NULL;
}

/* What a walk may still take of each object it has met. */
struct scope {
	unsigned mode, n;
	struct {
		uint32_t object;
		unsigned taken;
	} used[SPOOR_MAX_FRAMES]; /* of more a stack can have none */
};

static bool takes(struct scope *sc, const struct spoor_object_entry *o)
{
	unsigned limit = 1, i;

	if (sc->mode == SPOOR_MODE_APP || sc->mode == SPOOR_MODE_APP_ALL)
		return o->flags & SPOOR_OBJECT_APP;
	if (sc->mode == SPOOR_MODE_ALL)
		return true;
	if (sc->mode == SPOOR_MODE_CUSTOM)
		limit = o->limit;
	for (i = 0; i < sc->n && sc->used[i].object != o->id; i++)
		;
	if (i == sc->n) {
		if (i == sizeof(sc->used) / sizeof(sc->used[0]))
			return false;
		sc->used[sc->n].object = o->id;
		sc->used[sc->n++].taken = 0;
	}
	return sc->used[i].taken < limit && ++sc->used[i].taken;
}

/* Is this the layout's first range of its object? */
static bool is_first(const struct spoor_layout *l, unsigned i)
{
	unsigned before = 0;

	while (before < i && l->ranges[before].object != l->ranges[i].object)
		before++;
	return before == i;
}

/* What mode custom can take of one stack, as in the kernel's scope.bpf.h; SPOOR_MAX_FRAMES: not known, or so many. */
static unsigned capacity(const struct spoor_layout *l, const struct spoor_object_entry *(*lookup)(void *, uint32_t),
			 void *ctx)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->n && n < SPOOR_MAX_FRAMES; i++) {
		const struct spoor_object_entry *o = lookup(ctx, l->ranges[i].object);

		if (!o || o->failed || l->ranges[i].unknown)
			return SPOOR_MAX_FRAMES;
		if (o->limit && is_first(l, i))
			n += o->limit;
	}
	return n < SPOOR_MAX_FRAMES ? n : SPOOR_MAX_FRAMES;
}

/* How many call sites may be collected, and the status when that is used up: as walk_limit() in the kernel. */
static unsigned limit(const struct spoor_ctl_raw *raw, const struct spoor_layout *l,
		      const struct spoor_object_entry *(*lookup)(void *, uint32_t), void *ctx, int *ret_full)
{
	unsigned budget = raw->mode == SPOOR_MODE_APP ? 1 : raw->budget, most = SPOOR_MAX_FRAMES;

	if (raw->mode == SPOOR_MODE_CUSTOM)
		most = capacity(l, lookup, ctx);
	*ret_full = raw->mode == SPOOR_MODE_APP || most < budget ? SPOOR_WALK_COMPLETE : SPOOR_WALK_BUDGET;
	return budget < most ? budget : most;
}

static const struct spoor_rule frame_pointer = { .op = SPOOR_RULE_FP,
						 .reg_rbp = 6 | SPOOR_RBP_AT_CFA << 4,
						 .rbp_off = -16 };
static const struct spoor_rule perhaps_kept = { .op = SPOOR_RULE_FP,
						.reg_rbp = 6 | SPOOR_RBP_AT_CFA << 4,
						.rbp_off = -16,
						.cfa_off = 1 };
static const struct spoor_rule none = { .op = SPOOR_RULE_NONE };
static const struct spoor_rule just_called = SPOOR_RULE_JUST_CALLED;
static const struct spoor_layout_range no_code = { .object = SPOOR_OBJECT_NONE };

/* The code of a process that runs on may be another by now. */
static bool read_code(const struct raw_walk *w, uint64_t addr, void *code, size_t size)
{
	struct iovec to = { code, size }, from = { (void *)addr, size };

	return w->raw->remote && are_there(w->raw->h.tid, addr, size, PRESENT) &&
	       process_vm_readv(w->raw->h.tid, &to, 1, &from, 1, 0) == (ssize_t)size;
}

/* May it be an address to return to? */
static bool may_return_to(const struct raw_walk *w, uint64_t pc)
{
	__u64 code[2];

	if (!read_code(w, pc - sizeof(*code), code, sizeof(code)))
		return pc & 4095;
	return spoor_may_return(code);
}

/* Does the function begin by making rbp the base of a frame as large as this one is, or show here that it did? */
static bool is_made(const struct raw_walk *w)
{
	uint8_t code[3 * 4096];
	__u64 words[2], page = w->s.pc & ~4095ULL, from;
	ssize_t at = -1;
	int64_t frame = -1;

	if (read_code(w, w->s.pc, words, sizeof(*words)) && spoor_rbp_is_own(words[0]))
		return true;
	for (from = page - 4096; at < 0 && from <= page; from += 4096)
		if (read_code(w, from, code, w->s.pc + 8 - from))
			at = (ssize_t)(w->s.pc + 8 - from - sizeof(words));
	for (; frame < 0 && at >= 0; at--) {
		memcpy(words, code + at, sizeof(words));
		frame = spoor_prologue(words[0], words[1]);
	}
	return frame > 0 && w->s.sp + frame == w->s.bp;
}

/* By frame pointers where no rows are; whether those are kept is told as in the kernel's fp_may_skip(). */
static const struct spoor_rule *guess(struct raw_walk *w, const struct spoor_layout *layout)
{
	uint64_t at = w->s.sp;
	bool missing = false; /* words that may have been return addresses */
	__u64 value;
	int r = 0;

	for (; r != SPOOR_WALK_UNREADABLE && at - w->s.sp < SPOOR_RAW_STACK; at += 8) {
		if (w->searched++ >= SEARCH_MOST)
			return &perhaps_kept;
		r = spoor_load(w, at, &value);
		missing |= r == SPOOR_WALK_TRUNCATED;
		if (!r && range_of(layout, value) && may_return_to(w, value))
			return w->s.bp && !missing && (at == w->s.bp + 8 || is_made(w)) ? &frame_pointer :
											 &perhaps_kept;
	}
	/* Nor is there one above, or in what was copied of it. */
	return !w->s.bp && (w->raw->remote || w->raw->len < SPOOR_RAW_STACK) ? &frame_pointer : &perhaps_kept;
}

/* Ends in code of a file that could not be opened, or for which there was no id; as the kernel's walk does. */
static int gone(const struct raw_walk *w, uint64_t *frames, unsigned *n)
{
	if (w->raw->mode == SPOOR_MODE_ALL)
		frames[(*n)++] = SPOOR_FRAME(SPOOR_OBJECT_NONE, w->s.pc);
	return SPOOR_WALK_GONE;
}

int spoor_raw_unwind(const struct spoor_ctl_raw *raw, const struct spoor_layout *layout,
		     const struct spoor_object_entry *(*lookup)(void *ctx, uint32_t id), void *ctx, uint64_t *frames,
		     unsigned *ret_n)
{
	struct raw_walk w = { .raw = raw,
			      .s = { .pc = raw->pc, .sp = raw->dwarf_regs[7], .bp = raw->dwarf_regs[6], .exact = 1 } };
	struct scope scope = { .mode = raw->mode };
	int full, status;
	unsigned n = 0, budget = limit(raw, layout, lookup, ctx, &full);

	status = budget ? SPOOR_WALK_TRUNCATED : full;
	for (; budget && w.depth < MAX_DEPTH; w.depth++) {
		const struct spoor_layout_range *g = range_of(layout, w.s.pc - !w.s.exact);
		const struct spoor_rule *rule = NULL;
		const struct spoor_object_entry *o;
		uint64_t vaddr = w.s.pc;

		if (!g && w.s.signal) {
			g = &no_code;
			rule = &just_called;
		}
		if (!g) {
			/* A thread's place was mapped when it was met asleep: its process has another image by now. */
			status = raw->remote && !w.depth ? SPOOR_WALK_GONE : SPOOR_WALK_NO_ROWS;
			break;
		}
		if (g->unknown) {
			status = gone(&w, frames, &n);
			break;
		}
		o = lookup(ctx, g->object);
		if (!o) {
			status = SPOOR_RAW_WAIT;
			break;
		}
		if (o->made) {
			g = &no_code;
			o = lookup(ctx, SPOOR_OBJECT_NONE);
		}
		if (g->object != SPOOR_OBJECT_NONE) {
			uint64_t at = w.s.pc - !w.s.exact - g->start + g->offset;

			if (o->failed) {
				status = gone(&w, frames, &n);
				break;
			}
			vaddr = g->object == SPOOR_OBJECT_VDSO ? w.s.pc - !w.s.exact - g->start : at;
			if (g->object != SPOOR_OBJECT_VDSO)
				spoor_object_vaddr(&o->identity, at, &vaddr);
			if (o->has_rows)
				rule = spoor_row_lookup(&o->rows.table, vaddr);
			/* As in the kernel's walk. */
			if (rule && rule->op == SPOOR_RULE_NONE && !w.depth && w.s.exact) {
				rule = spoor_row_lookup(&o->rows.table, vaddr - 1);
				w.s.exact = 0;
				vaddr--;
			}
			vaddr += !w.s.exact;
		}
		if (takes(&scope, o)) {
			frames[n] = SPOOR_FRAME(g->object, vaddr);
			if (w.depth && w.s.exact)
				frames[n] |= SPOOR_FRAME_INTERRUPTED;
			n++;
			if (n >= budget) {
				status = full;
				break;
			}
		}
		if (!rule)
			rule = guess(&w, layout);
		status = spoor_walk_step(&w, &w.s, raw->narrow ? &none : rule);
		if (status != SPOOR_WALK_NEXT)
			break;
		status = SPOOR_WALK_TRUNCATED;
	}
	*ret_n = n;
	return spoor_walk_ended(&w.s, status);
}

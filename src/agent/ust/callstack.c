/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Per frame: the rule for its address from the thread's cache; on a miss the object that it lies in, and the row of
 * that; where there are no rows, frame pointers. Which call sites are taken is decided frame by frame, as the kernel's
 * walker does it, so that a walk ends as soon as nothing more can be taken.
 */
#include <string.h>

#include "agent/control/control.h"
#include "agent/core/objects.h"
#include "agent/core/process.h"
#include "agent/core/producer.h"
#include "agent/core/reserve.h"
#include "agent/core/stack.h"
#include "agent/core/thread_stack.h"
#include "agent/ust/callstack.h"

struct walk;
#define SPOOR_WALK_CTX walk
static inline int spoor_load(struct walk *w, __u64 at, __u64 *ret);
static inline int spoor_reg(struct walk *w, __u32 reg, __u64 *ret);
#include "unwind/walk_core.h"

#define SETS 256 /* of a thread's rules, by their addresses; a power of two */
#define WAYS 2	 /* rules in one: as few addresses as a stack has would often share one, which is slow each time */
#define MAX_DEPTH 2048
#define NO_CODE 4096 /* below there is none; elsewhere code of no object may be, as JIT compilers make it */
#define LOOK_EVERY 10000000 /* ns: so often who waits for rows asks whether there are some */

struct cached {
	uintptr_t pc;
	struct spoor_rule rule;
	uint32_t object; /* its number */
	uint32_t epoch;  /* of then */
};

/* What a thread needs for its walks; not on its stack, which may be small. */
struct scratch {
	uintptr_t walking; /* stack pointer of the walk that uses it; 0: none */
	struct thread_stack stack;
	uint64_t frames[SPOOR_ARENA_MAX_FRAMES];
	uint32_t serial; /* of the last walk */
	struct {
		uint32_t walk; /* that met the object last */
		uint16_t left; /* so many of its call sites may still be taken */
		uint16_t defined;
	} met[CODE_OBJECTS + 1]; /* by number; 0: no object */
	struct cached rules[SETS][WAYS];
};
_Static_assert(sizeof(struct scratch) <= SPOOR_SCRATCH - SPOOR_SCRATCH_PERF, "");
_Static_assert(offsetof(struct scratch, stack.at) == SPOOR_SCRATCH_OWN, "");

struct walk {
	struct scratch *sc;
	const struct slot *slot;
	struct spoor_frame_state s;
	uintptr_t low, size; /* of what is in use of the own stack */
	unsigned mode, budget, n, depth;
	uint32_t serial;
	bool guessed;  /* by frame pointers: addresses may be anything from here on */
	bool counts;   /* what is taken of an object: the mode limits it */
	bool unclassified; /* some object is: the recorder is yet to say whose call sites are taken */
	unsigned lack;   /* 1 << enum code_rows of the objects that were guessed through for want of rows */
	unsigned object; /* number of that of the frame at hand */
};

/* ---- memory, registers ---- */

static __attribute__((noinline)) int load_rare(struct walk *w, __u64 at, __u64 *ret)
{
	uint64_t v;

	if (at & 7 || thread_stack_read(&w->sc->stack, at, &v))
		return SPOOR_WALK_UNREADABLE;
	*ret = v;
	return 0;
}

/* Any word of the own stack, also such as AddressSanitizer, where tests are built with it, gives to no variable. */
static inline __attribute__((no_sanitize_address)) int spoor_load(struct walk *w, __u64 at, __u64 *ret)
{
	if (unlikely(at - w->low >= w->size || at & 7))
		return load_rare(w, at, ret);
	*ret = *(const volatile uint64_t *)at;
	return 0;
}

/* Only what a signal interrupted has all its registers. */
static inline int spoor_reg(struct walk *w, __u32 reg, __u64 *ret)
{
	static const uint8_t gregs[16] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7 };

	return w->s.signal ? spoor_load(w, w->s.uc + 8U * gregs[reg & 15], ret) : SPOOR_WALK_NO_ROWS;
}

/* ---- from address to rule ---- */

static const struct spoor_rule frame_pointer = { .op = SPOOR_RULE_FP,
						 .reg_rbp = 6 | SPOOR_RBP_AT_CFA << 4,
						 .rbp_off = -16 };
static const struct spoor_rule just_called = SPOOR_RULE_JUST_CALLED;

/* That rows are missing stands in cfa_off, which frame pointers do not use: it is 0 where they are known to be kept. */
static struct spoor_rule rule_in(const struct code_object *o, uintptr_t pc)
{
	uint32_t rows = __atomic_load_n(&o->rows, __ATOMIC_ACQUIRE);
	struct spoor_rule rule = frame_pointer;

	if (rows == CODE_ROWS_THERE)
		return rows_rule(&o->table, pc - o->bias);
	rule.cfa_off = 1 << rows;
	return rule;
}

/* How many call sites of an object (NULL: of code of none) may be taken. */
static unsigned most_of(struct walk *w, const struct code_object *o)
{
	const struct output *out = w->slot->output;
	const struct code_class *c;

	if (w->mode == SPOOR_STACK_ALL || !out) /* none: the event goes nowhere */
		return UINT16_MAX;
	if (w->mode == SPOOR_STACK_LIB)
		return 1;
	c = code_class_of(o, out);
	w->unclassified |= !c;
	if (!c)
		return UINT16_MAX;
	if (w->mode == SPOOR_STACK_APP || w->mode == SPOOR_STACK_APP_ALL)
		return c->app ? UINT16_MAX : 0;
	return c->limit;
}

/* What is asked once in a walk. Defined: its number may occur in the event. */
static void meet(struct walk *w, struct code_object *o)
{
	struct scratch *sc = w->sc;

	w->object = o ? code_object_number(o) : 0;
	if (sc->met[w->object].walk == w->serial)
		return;
	sc->met[w->object].walk = w->serial;
	sc->met[w->object].left = (uint16_t)most_of(w, o);
	sc->met[w->object].defined = o && code_object_define(o, w->slot);
}

static bool is_cached(const struct cached *c, uintptr_t pc)
{
	return c->pc == pc && c->epoch == __atomic_load_n(&code_epoch, __ATOMIC_ACQUIRE);
}

static __attribute__((noinline)) struct spoor_rule look_up(struct walk *w, struct cached set[WAYS], uintptr_t pc)
{
	uint32_t epoch = __atomic_load_n(&code_epoch, __ATOMIC_ACQUIRE);
	struct cached *c = is_cached(&set[0], pc) ? &set[0] : is_cached(&set[1], pc) ? &set[1] : NULL;
	unsigned number = c ? __atomic_load_n(&c->object, __ATOMIC_RELAXED) : 0; /* 0: wiped by a fork in a handler */
	struct code_object *o = number ? code_object_numbered(number) : NULL;

	if (!o || !code_object_is_there(o, pc, !w->guessed)) {
		o = code_object_of(pc, !w->guessed);
		c = &set[0];
		if (o) {
			set[1] = set[0];
			set[0] = (struct cached){ pc, rule_in(o, pc), code_object_number(o), epoch };
		}
	}
	meet(w, o);
	if (o)
		return c->rule;
	/* Not remembered: it may become an object's without our being told. */
	return w->s.signal && pc < NO_CODE ? just_called : frame_pointer;
}

static inline bool is_met(const struct walk *w, const struct cached *c)
{
	return w->sc->met[c->object].walk == w->serial;
}

static inline struct spoor_rule rule_of(struct walk *w, uintptr_t pc)
{
	struct cached *set = w->sc->rules[pc * 0x9e3779b97f4a7c15ULL >> 56 & (SETS - 1)];
	struct cached *c = likely(is_cached(&set[0], pc)) ? &set[0] : &set[1];

	if (unlikely(!is_cached(c, pc) || !is_met(w, c)))
		return look_up(w, set, pc);
	w->object = c->object;
	return c->rule;
}

/* ---- the scope: which call sites are taken ---- */

static bool takes(struct walk *w)
{
	uint16_t *left = &w->sc->met[w->object].left;

	if (!*left)
		return false;
	*left -= w->counts;
	return true;
}

/* Returns whether there is room for more. */
static bool take(struct walk *w)
{
	uint64_t frame = w->s.pc | (w->s.exact ? SPOOR_ADDRESS_INTERRUPTED : 0);

	if (!w->sc->met[w->object].defined)
		frame |= SPOOR_ADDRESS_BARE;
	w->sc->frames[w->n++] = frame;
	return w->n < w->budget;
}

/* ---- the walk ---- */

/*
 * Most code uses rbp for anything. Where that is 0, or led past frames, a walk looks as if it had come to the outermost
 * one: after an object that had no rows it is not believed.
 */
static __attribute__((noinline)) int step_rare(struct walk *w, struct spoor_rule rule)
{
	uintptr_t sp = w->s.sp;
	int r;

	if (rule.op == SPOOR_RULE_FP && !w->sc->stack.lasts)
		w->size = 0; /* rbp may point anywhere: nothing is read directly from here on */
	r = spoor_walk_step(w, &w->s, &rule);
	if (rule.op == SPOOR_RULE_FP) {
		w->guessed = true;
		w->lack |= (unsigned)rule.cfa_off;
		if (r == SPOOR_WALK_NEXT && (w->s.sp <= sp || w->s.pc >> 47))
			return SPOOR_WALK_NO_ROWS;
	}
	return r;
}

static inline int step(struct walk *w, struct spoor_rule rule)
{
	int r = spoor_walk_common(w, &w->s, &rule);

	w->depth++;
	if (r == SPOOR_WALK_RARE)
		r = step_rare(w, rule);
	return r == SPOOR_WALK_COMPLETE && w->lack ? SPOOR_WALK_NO_ROWS : r;
}

static inline struct spoor_rule rule_here(struct walk *w)
{
	return rule_of(w, w->s.pc - !w->s.exact);
}

#define HELPERS 4 /* of a site, at most: one, and of what LTTng-UST's macros make up to three */

/* To the frame that is at the site; where none of the first is, to the second one. */
static int leave_helpers(struct walk *w, uintptr_t site)
{
	struct spoor_frame_state begin = w->s;
	int r = SPOOR_WALK_NEXT;

	while (w->depth < HELPERS && r == SPOOR_WALK_NEXT) {
		r = step(w, rule_here(w));
		if (r == SPOOR_WALK_NEXT && w->s.pc == site)
			return r;
	}
	w->s = begin;
	w->depth = w->lack = 0;
	w->guessed = false;
	return step(w, rule_here(w));
}

static int walk_frames(struct walk *w, uintptr_t site)
{
	int r = leave_helpers(w, site);

	while (r == SPOOR_WALK_NEXT && w->depth < MAX_DEPTH) {
		struct spoor_rule rule = rule_here(w);

		if (takes(w) && !take(w)) /* mode app can take no more: that is complete */
			return w->mode == SPOOR_STACK_APP ? SPOOR_WALK_COMPLETE : SPOOR_WALK_BUDGET;
		r = step(w, rule);
	}
	return r == SPOOR_WALK_NEXT ? SPOOR_WALK_TRUNCATED : r;
}

static unsigned budget_of(const struct slot *s, unsigned mode)
{
	unsigned budget = s->stack_budget ?: SPOOR_STACK_BUDGET;
	unsigned most = s->packet_size / 8 - SPOOR_ARENA_MIN_PACKET / 32; /* some room for fields */

	if (mode == SPOOR_STACK_APP)
		return 1;
	most = most < SPOOR_ARENA_MAX_FRAMES ? most : SPOOR_ARENA_MAX_FRAMES;
	return budget < most ? budget : most;
}

/* ---- what the recorder is yet to say ---- */

static bool awaited; /* by some walk, since it was last looked for */

static void await(const struct walk *w)
{
	const struct output *out = w->slot->output;

	if (!w->unclassified && !(w->lack & 1 << CODE_ROWS_AWAITED))
		return;
	if (out && !out->wish.dir[0]) /* else there is no recorder */
		__atomic_store_n(&awaited, true, __ATOMIC_RELAXED);
}

/* A program that blocks SIGURG is not told that it has come. */
static __attribute__((noinline, cold)) void look_for_it(void)
{
	static uint64_t next;

	if (!now_and_then(&next, LOOK_EVERY))
		return;
	__atomic_store_n(&awaited, false, __ATOMIC_RELAXED);
	spoor_control_look();
}

/* ---- an event's ---- */

static bool is_taken(const struct block *b, struct stack_here *here)
{
	const struct scratch *sc = b->scratch;

	return sc && sc->walking && !stack_was_left(here, sc->walking);
}

/* The thread's scratch, or that of the first level on which no walk was interrupted. NULL: no memory. */
static struct scratch *enter(uintptr_t sp)
{
	struct scratch *sc = block->scratch;
	struct stack_here here;
	struct block *b;
	uint64_t signals;

	if (likely(sc && !sc->walking && !(block->flags & BLOCK_SHARED_TLS))) {
		*(volatile uintptr_t *)&sc->walking = sp;
		return sc;
	}
	signals = signals_block();
	b = reserve_enter();
	if (b && b->flags & BLOCK_SHARED_TLS)
		b = NULL;
	here = STACK_HERE(sp);
	while (b && is_taken(b, &here))
		b = block_deeper(b);
	sc = b ? block_scratch(b) : NULL;
	if (sc)
		sc->walking = sp;
	signals_restore(signals);
	return sc;
}

void callstack_take(const struct slot *s, const struct caller *caller, uintptr_t site, struct callstack *ret)
{
	struct walk w;
	int status;

	/* One by one: cleared as a whole by `rep stos` it would take as long as a frame. */
	w.slot = s;
	w.s = (struct spoor_frame_state){ .pc = caller->pc, .sp = caller->sp, .bp = caller->bp };
	w.low = w.size = 0;
	w.n = w.depth = w.lack = w.object = 0;
	w.guessed = w.unclassified = false;
	if (unlikely(__atomic_load_n(&awaited, __ATOMIC_RELAXED)))
		look_for_it();
	*ret = (struct callstack){ .head = { SPOOR_WALK_LOST, SPOOR_WAY_ROWS } };
	w.sc = ret->scratch = enter(caller->sp);
	if (!w.sc)
		return;
	w.mode = s->stack_mode ?: SPOOR_STACK_APP_ALL;
	w.budget = budget_of(s, w.mode);
	w.counts = w.mode == SPOOR_STACK_LIB || w.mode == SPOOR_STACK_CUSTOM;
	w.serial = ++w.sc->serial;
	thread_stack_begin(&w.sc->stack, caller->sp);
	if (caller->sp >= w.sc->stack.low && caller->sp + 8 <= w.sc->stack.high) {
		w.low = caller->sp;
		w.size = w.sc->stack.high - w.low - 7;
	}
	status = walk_frames(&w, site);
	await(&w);
	if (!w.n && w.guessed) { /* better the site than nothing */
		w.s = (struct spoor_frame_state){ .pc = site };
		rule_of(&w, site - 1);
		take(&w);
	}
	if (unlikely(w.sc->serial != w.serial)) /* a handler has forked: wiped in the child, with what was taken */
		return;
	ret->frames = w.sc->frames;
	ret->head[0] = (uint16_t)status;
	ret->head[1] = w.guessed ? SPOOR_WAY_FRAME_POINTERS : SPOOR_WAY_ROWS;
	ret->head[3] = (uint16_t)w.n;
}

void callstack_done(struct callstack *c)
{
	if (!c->scratch)
		return;
	barrier();
	*(volatile uintptr_t *)&((struct scratch *)c->scratch)->walking = 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <sys/prctl.h>

#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/perf.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/callstack.h"
#include "agent/ust/context.h"
#include <spoor/record.h>

struct context {
	uint32_t bit;
	struct spoor_def_field field;
	const char *name;
	const char *const *labels; /* of an ENUM: of 0, 1, ... */
};

#define FIELD(type_, shape_, bytes_, base_, flags_, count_)                             \
	{                                                                               \
		.type = (type_), .shape = (shape_), .bytes = (bytes_), .base = (base_), \
		.flags = SPOOR_DEF_CONTEXT | (flags_), .count = (count_)                \
	}

#define PERF(bit_, name_, field_, type_, config_) \
	{ 1U << (bit_), FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, 0, 0), "perf_" #field_ },

/* enum spoor_walk_status, enum spoor_walk_way */
static const char *const statuses[] = { "complete",    "budget", "no rows", "unreadable", "truncated",
					"object gone", "lost",   "busy",    NULL };
static const char *const ways[] = { "kernel", "user", "rows", "frame pointers", NULL };

/* In the order of their bits, which is that of the body. */
static const struct context contexts_known[] = {
	{ SPOOR_CONTEXT_VPID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vpid" },
	{ SPOOR_CONTEXT_VTID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vtid" },
	{ SPOOR_CONTEXT_PROCNAME, FIELD(SPOOR_DEF_INT, SPOOR_DEF_ARRAY, 1, 10, SPOOR_DEF_TEXT, 16), "procname" },
	{ SPOOR_CONTEXT_IP, FIELD(SPOOR_DEF_POINTER, SPOOR_DEF_SCALAR, 8, 16, 0, 0), "ip" },
	{ SPOOR_CONTEXT_CPU, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, 0, 0), "cpu" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_ENUM, SPOOR_DEF_SCALAR, 2, 10, 0, 0), "callstack_status", statuses },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_ENUM, SPOOR_DEF_SCALAR, 2, 10, 0, 0), "callstack_way", ways },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 2, 10, SPOOR_DEF_PADDING, 0), "reserved" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_POINTER, SPOOR_DEF_SEQUENCE, 8, 16, SPOOR_DEF_STACK, 0), "callstack" },
	SPOOR_PERF_CONTEXTS(PERF)
};
#define N_CONTEXTS (sizeof(contexts_known) / sizeof(contexts_known[0]))

#define ROUND_UP(n) (((n) + 7) & ~(size_t)7)

static size_t label_size(const char *label)
{
	return ROUND_UP(offsetof(struct spoor_def_label, name) + strlen(label) + 1);
}

static size_t field_size(const struct context *c)
{
	size_t size = sizeof(c->field) + ROUND_UP(strlen(c->name) + 1);
	unsigned i;

	for (i = 0; c->labels && c->labels[i]; i++)
		size += label_size(c->labels[i]);
	return size;
}

static void put_field(const struct context *c, char *at, size_t size)
{
	struct spoor_def_field f = c->field;
	unsigned i;

	memset(at, 0, size);
	for (f.n_labels = 0; c->labels && c->labels[f.n_labels];)
		f.n_labels++;
	f.size = (uint32_t)size;
	memcpy(at, &f, sizeof(f));
	strcpy(at + sizeof(f), c->name);
	at += sizeof(f) + ROUND_UP(strlen(c->name) + 1);
	for (i = 0; i < f.n_labels; i++) {
		struct spoor_def_label *l = (struct spoor_def_label *)at;

		l->low = l->high = i;
		l->size = (uint16_t)label_size(c->labels[i]);
		strcpy(l->name, c->labels[i]);
		at += l->size;
	}
}

char *context_fields(uint32_t contexts, char *at, const char *end, unsigned *ret_n)
{
	unsigned i, n = 0;

	for (i = 0; contexts && i < N_CONTEXTS; i++) {
		size_t size;

		if (!(contexts & contexts_known[i].bit))
			continue;
		size = field_size(&contexts_known[i]);
		if (size > (size_t)(end - at))
			return NULL;
		put_field(&contexts_known[i], at, size);
		at += size;
		n++;
	}
	*ret_n = n;
	return at;
}

size_t context_fields_size(uint32_t contexts)
{
	size_t size = 0;
	unsigned i;

	for (i = 0; i < N_CONTEXTS; i++)
		if (contexts & contexts_known[i].bit)
			size += field_size(&contexts_known[i]);
	return size;
}

static size_t contexts_size(uint32_t contexts)
{
	size_t words = (size_t)__builtin_popcount(
		contexts & (SPOOR_CONTEXT_VPID | SPOOR_CONTEXT_VTID | SPOOR_CONTEXT_IP | SPOOR_CONTEXT_CPU));

	return 8 * words + (contexts & SPOOR_CONTEXT_PROCNAME ? 16 : 0);
}

static void put_word(char **at, uint64_t v)
{
	memcpy(*at, &v, 8);
	*at += 8;
}

uint64_t context_cpu(void)
{
	unsigned cpu;

	__asm__ volatile("lsl %1, %0" : "=r"(cpu) : "r"(0x7b) : "cc"); /* the vDSO's getcpu: CPU in the low 12 bits */
	return cpu & 0xfff;
}

static void put_stack(char **at, const struct callstack *stack)
{
	memcpy(*at, stack->head, sizeof(stack->head));
	*at += sizeof(stack->head);
	if (stack->head[3])
		memcpy(*at, stack->frames, 8U * stack->head[3]);
	*at += 8U * stack->head[3];
}

static void put_contexts(uint32_t contexts, char *at, uint32_t tid, const void *site, const struct callstack *stack,
			 const uint64_t *counts, unsigned n_counts)
{
	if (contexts & SPOOR_CONTEXT_VPID)
		put_word(&at, process->pid);
	if (contexts & SPOOR_CONTEXT_VTID)
		put_word(&at, tid);
	if (contexts & SPOOR_CONTEXT_PROCNAME) {
		memset(at, 0, 16);
		sys6(SYS_prctl, PR_GET_NAME, (long)at, 0, 0, 0, 0);
		at += 16;
	}
	if (contexts & SPOOR_CONTEXT_IP)
		put_word(&at, (uintptr_t)site);
	if (contexts & SPOOR_CONTEXT_CPU)
		put_word(&at, context_cpu());
	if (contexts & SPOOR_CONTEXT_STACK)
		put_stack(&at, stack);
	while (n_counts--)
		put_word(&at, *counts++);
}

/*
 * If the producer is still there, in one instruction: a signal handler may come before it or after it, and fork, which
 * wipes the producer in the child. With an address in it again what committing asks would be answered yes.
 */
static void move_on(struct spoor_producer *p, char *from, char *to)
{
	__asm__ volatile("cmpxchgq %2, %0" : "+m"(p->at), "+a"(from) : "r"(to) : "memory", "cc");
}

/*
 * A record that is larger by what comes first in its body; the caller gets the address from which its own part is where
 * it would be without. The producer's `at` goes along, since committing asks whether it is still there.
 */
struct spoor_handle reserve_with_contexts_from(struct spoor_tracepoint *tp, size_t size, const void *site,
					       const struct caller *caller)
{
	const struct slot *s = &slots[tp_slot(tp)];
	uint32_t contexts = s->contexts, uncounted = 0, tid;
	size_t more = contexts_size(contexts);
	struct callstack stack = { .scratch = NULL };
	uint64_t counts[SPOOR_N_PERF];
	unsigned n_counts = 0;
	struct spoor_handle h;

	if (contexts & SPOOR_CONTEXT_STACK) {
		callstack_take(s, caller, (uintptr_t)site, &stack);
		more += sizeof(stack.head) + 8U * stack.head[3];
	}
	if (contexts & SPOOR_CONTEXTS_PERF)
		n_counts = perf_read(contexts, counts, &uncounted);
	more += 8U * n_counts;
	h = clock_kind() == SPOOR_ARENA_TSC ? reserve_tsc(tp, size + more, site) :
						reserve_monotonic(tp, size + more, site);
	if (!h.at) {
		callstack_done(&stack);
		return h;
	}
	slot_uncounted(s, uncounted);
	memcpy(&tid, h.at + 12, 4);
	put_contexts(contexts, h.at + SPOOR_RECORD_HEAD_, tid, site, &stack, counts, n_counts);
	callstack_done(&stack);
	h.at += more;
	if (h.producer)
		move_on(h.producer, h.at - more, h.at);
	return h;
}

struct spoor_handle reserve_with_contexts(struct spoor_tracepoint *tp, size_t size, const void *site)
{
	struct caller caller = CALLER_();

	return reserve_with_contexts_from(tp, size, site, &caller);
}

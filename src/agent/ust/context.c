/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/context.h"
#include "trace/record.h"
#include <spoor/record.h>

struct context {
	uint32_t bit;
	struct spoor_def_field field;
	const char *name;
};

#define FIELD(type_, shape_, bytes_, base_, flags_, count_)                             \
	{                                                                               \
		.type = (type_), .shape = (shape_), .bytes = (bytes_), .base = (base_), \
		.flags = SPOOR_DEF_CONTEXT | (flags_), .count = (count_)                \
	}

/* In the order of their bits, which is that of the body. */
static const struct context contexts_known[] = {
	{ SPOOR_CONTEXT_VPID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vpid" },
	{ SPOOR_CONTEXT_VTID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vtid" },
	{ SPOOR_CONTEXT_PROCNAME, FIELD(SPOOR_DEF_INT, SPOOR_DEF_ARRAY, 1, 10, SPOOR_DEF_TEXT, 16), "procname" },
	{ SPOOR_CONTEXT_IP, FIELD(SPOOR_DEF_POINTER, SPOOR_DEF_SCALAR, 8, 16, 0, 0), "ip" },
	{ SPOOR_CONTEXT_CPU, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, 0, 0), "cpu" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 2, 10, 0, 0), "callstack_status" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 2, 10, 0, 0), "callstack_way" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 2, 10, 0, 0), "callstack_reserved" },
	{ SPOOR_CONTEXT_STACK, FIELD(SPOOR_DEF_POINTER, SPOOR_DEF_SEQUENCE, 8, 16, 0, 0), "callstack" },
};
#define MAX_FRAMES 64
#define STACK_WINDOW 8192 /* bytes of the stack that are looked at */
#define N_CONTEXTS (sizeof(contexts_known) / sizeof(contexts_known[0]))

char *context_fields(uint32_t contexts, char *at, const char *end, unsigned *ret_n)
{
	unsigned i, n = 0;

	for (i = 0; i < N_CONTEXTS; i++) {
		struct spoor_def_field f = contexts_known[i].field;
		size_t name = (strlen(contexts_known[i].name) + 1 + 7) & ~(size_t)7;

		if (!(contexts & contexts_known[i].bit))
			continue;
		f.size = (uint32_t)(sizeof(f) + name);
		if (f.size > (size_t)(end - at))
			return NULL;
		memset(at, 0, f.size);
		memcpy(at, &f, sizeof(f));
		strcpy(at + sizeof(f), contexts_known[i].name);
		at += f.size;
		n++;
	}
	*ret_n = n;
	return at;
}

struct callstack {
	uint16_t head[4]; /* status, way, 0, n: as they stand in the event */
	uint64_t frames[MAX_FRAMES];
};

/*
 * By frame pointers, where the code keeps them; the walk goes through a copy of the stack, so that whatever rbp holds
 * is only looked up in that. One system call, which cannot fault.
 */
static void walk(uintptr_t ip, uintptr_t frame, uintptr_t sp, struct callstack *ret)
{
	uint64_t copy[STACK_WINDOW / 8];
	struct iovec to = { copy, sizeof(copy) }, from = { (void *)(sp & ~(uintptr_t)7), sizeof(copy) };
	long got = sys6(SYS_process_vm_readv, process->pid, (long)&to, 1, (long)&from, 1, 0);
	uintptr_t begin = (uintptr_t)from.iov_base, size = sys_failed(got) ? 0 : (uintptr_t)got;
	unsigned n = 0;

	ret->head[0] = SPOOR_WALK_TRUNCATED;
	ret->frames[n++] = ip;
	while (n < MAX_FRAMES && frame - begin < size && size - (frame - begin) >= 16 && frame % 8 == 0) {
		uint64_t next = copy[(frame - begin) / 8], pc = copy[(frame - begin) / 8 + 1];

		if (!pc)
			break;
		ret->frames[n++] = pc;
		if (!next)
			ret->head[0] = SPOOR_WALK_COMPLETE;
		if (next <= frame)
			break;
		frame = next;
	}
	ret->head[1] = SPOOR_WAY_USER;
	ret->head[2] = 0;
	ret->head[3] = (uint16_t)n;
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

static uint64_t cpu_now(void)
{
	unsigned cpu;

	__asm__ volatile("lsl %1, %0" : "=r"(cpu) : "r"(0x7b) : "cc"); /* the vDSO's getcpu: CPU in the low 12 bits */
	return cpu & 0xfff;
}

static void put_contexts(uint32_t contexts, char *at, uint32_t tid, uintptr_t ip, const struct callstack *stack)
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
		put_word(&at, ip);
	if (contexts & SPOOR_CONTEXT_CPU)
		put_word(&at, cpu_now());
	if (contexts & SPOOR_CONTEXT_STACK)
		memcpy(at, stack, offsetof(struct callstack, frames) + 8U * stack->head[3]);
}

/*
 * A record that is larger by what comes first in its body; the caller gets the address from which its own part is where
 * it would be without. The producer's `at` goes along, since committing asks whether it is still there.
 */
struct spoor_handle reserve_with_contexts(struct spoor_tracepoint *tp, size_t size)
{
	const struct slot *s = &slots[tp_slot(tp)];
	uintptr_t ip = (uintptr_t)__builtin_return_address(0), *frame = __builtin_frame_address(0);
	uint32_t contexts = s->channel->contexts, tid;
	size_t more = contexts_size(contexts);
	struct callstack stack;
	struct spoor_handle h;

	if (contexts & SPOOR_CONTEXT_STACK) {
		walk(ip, *frame, (uintptr_t)frame, &stack);
		more += offsetof(struct callstack, frames) + 8U * stack.head[3];
	}
	h = clock_kind() == SPOOR_ARENA_TSC ? reserve_tsc(tp, size + more) : reserve_monotonic(tp, size + more);
	if (!h.at)
		return h;
	memcpy(&tid, h.at + 12, 4);
	put_contexts(contexts, h.at + SPOOR_RECORD_HEAD_, tid, ip, &stack);
	h.at += more;
	if (h.producer) {
		SPOOR_BARRIER_();
		h.producer->at = h.at;
		SPOOR_BARRIER_();
	}
	return h;
}

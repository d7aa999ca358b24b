/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <sys/prctl.h>

#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/context.h"
#include <spoor/record.h>

struct context {
	uint32_t bit;
	struct spoor_def_field field;
	const char *name;
};

#define FIELD(type_, shape_, bytes_, base_, flags_, count_)                                                  \
	{ .type = (type_), .shape = (shape_), .bytes = (bytes_), .base = (base_),                            \
	  .flags = SPOOR_DEF_CONTEXT | (flags_), .count = (count_) }

/* In the order of their bits, which is that of the body. */
static const struct context contexts_known[] = {
	{ SPOOR_CONTEXT_VPID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vpid" },
	{ SPOOR_CONTEXT_VTID, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, SPOOR_DEF_SIGNED, 0), "vtid" },
	{ SPOOR_CONTEXT_PROCNAME, FIELD(SPOOR_DEF_INT, SPOOR_DEF_ARRAY, 1, 10, SPOOR_DEF_TEXT, 16), "procname" },
	{ SPOOR_CONTEXT_IP, FIELD(SPOOR_DEF_POINTER, SPOOR_DEF_SCALAR, 8, 16, 0, 0), "ip" },
	{ SPOOR_CONTEXT_CPU, FIELD(SPOOR_DEF_INT, SPOOR_DEF_SCALAR, 8, 10, 0, 0), "cpu" },
};
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

static size_t contexts_size(uint32_t contexts)
{
	size_t words = (size_t)__builtin_popcount(contexts & (SPOOR_CONTEXT_VPID | SPOOR_CONTEXT_VTID | SPOOR_CONTEXT_IP |
							      SPOOR_CONTEXT_CPU));

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

static void put_contexts(uint32_t contexts, char *at, uint32_t tid, uintptr_t ip)
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
}

/*
 * A record that is larger by what comes first in its body; the caller gets the address from which its own part is where
 * it would be without. The producer's `at` goes along, since committing asks whether it is still there.
 */
struct spoor_handle reserve_with_contexts(struct spoor_tracepoint *tp, size_t size)
{
	const struct slot *s = &slots[(tp->slot - SPOOR_SLOT_OFFSET(0)) / sizeof(struct producer)];
	uint32_t contexts = s->channel->contexts;
	size_t more = contexts_size(contexts);
	uintptr_t ip = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
	struct spoor_handle h = reserve_tsc(tp, size + more);
	uint32_t tid;

	if (!h.at)
		return h;
	memcpy(&tid, h.at + 12, 4);
	put_contexts(contexts, h.at + SPOOR_RECORD_HEAD_, tid, ip);
	h.at += more;
	if (h.producer) {
		SPOOR_BARRIER_();
		h.producer->at = h.at;
		SPOOR_BARRIER_();
	}
	return h;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/kernel/rounds.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/kernel/skeleton.h"

#define BATCH 1024
#define GRACE_US 50000 /* programs at tracepoints run for microseconds, with preemption off */
#define BUFFER (256 << 10)

struct spoor_rounds {
	struct spoor_kernel *k;
	uint64_t number;
	unsigned bank; /* in use */
	int iterator;  /* link of read_tasks */
	uint8_t *buffer;
	struct spoor_counter_key *keys;
	struct spoor_counter_sum *sums;
	struct spoor_counter_owner *finals;
	size_t n_finals, room_finals;
};

int spoor_rounds_new(struct spoor_kernel *k, struct spoor_rounds **ret)
{
	struct spoor_rounds *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->k = k;
	r->buffer = malloc(BUFFER);
	r->keys = malloc(BATCH * sizeof(*r->keys));
	r->sums = malloc(BATCH * sizeof(*r->sums));
	r->iterator = bpf_link_create(bpf_program__fd(k->counter->progs.read_tasks), 0, BPF_TRACE_ITER, NULL);
	if (!r->buffer || !r->keys || !r->sums || r->iterator < 0) {
		int err = r->iterator < 0 ? r->iterator : -ENOMEM;

		spoor_rounds_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void spoor_rounds_free(struct spoor_rounds *r)
{
	if (!r)
		return;
	if (r->iterator >= 0)
		close(r->iterator);
	free(r->buffer);
	free(r->keys);
	free(r->sums);
	free(r->finals);
	free(r);
}

static void set_phase(struct spoor_rounds *r, unsigned reading)
{
	unsigned long long *phase = (unsigned long long *)&r->k->counter->bss->phase;

	__atomic_store_n(phase, r->number * SPOOR_PHASE_ROUND | reading | r->bank, __ATOMIC_SEQ_CST);
}

/* Waits until no program runs that has seen the old phase. */
static void wait_for_programs(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		usleep(GRACE_US);
}

/* ---- live threads ---- */

/* Hands out the whole threads in the buffer; returns the bytes that it has taken. */
static size_t parse_threads(struct spoor_rounds *r, size_t n, const struct spoor_round_reader *reader)
{
	size_t at = 0;

	while (n - at >= sizeof(struct spoor_counter_thread)) {
		const struct spoor_counter_thread *t = (const void *)(r->buffer + at);
		const struct spoor_counter_slot *slots = (const void *)(t + 1);
		const struct spoor_counter_wide *wides = (const void *)(slots + t->n_slots);
		size_t size = sizeof(*t) + t->n_slots * sizeof(*slots) + t->n_wide * sizeof(*wides);

		if (size > n - at)
			break;
		reader->thread(reader->ctx, t, slots, wides);
		at += size;
	}
	return at;
}

static int read_threads(struct spoor_rounds *r, const struct spoor_round_reader *reader)
{
	_cleanup_(spoor_closep) int fd = bpf_iter_create(r->iterator);
	size_t have = 0, taken;
	ssize_t n;

	if (fd < 0)
		return fd;
	for (;;) {
		n = read(fd, r->buffer + have, BUFFER - have);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have += n;
		taken = parse_threads(r, have, reader);
		have -= taken;
		memmove(r->buffer, r->buffer + taken, have);
	}
}

/* ---- what has ended ---- */

static int take_sums(struct spoor_rounds *r, int fd, const struct spoor_round_reader *reader)
{
	uint32_t in, out, n;
	void *from = NULL;
	int err;

	do {
		n = BATCH;
		err = bpf_map_lookup_and_delete_batch(fd, from, &out, r->keys, r->sums, &n, NULL);
		if (err && err != -ENOENT)
			return err;
		for (uint32_t i = 0; i < n; i++)
			reader->sum(reader->ctx, &r->keys[i], &r->sums[i]);
		in = out;
		from = &in;
	} while (!err);
	return 0;
}

static int note_final(struct spoor_rounds *r, const struct spoor_counter_owner *owner)
{
	if (r->n_finals == r->room_finals) {
		size_t room = r->room_finals * 2 + 64;
		void *p = realloc(r->finals, room * sizeof(*r->finals));

		if (!p)
			return -ENOMEM;
		r->finals = p;
		r->room_finals = room;
	}
	r->finals[r->n_finals++] = *owner;
	return 0;
}

/* All of the process has been added up, and no thread of it can come any more. */
static bool is_final(const struct spoor_counter_owner *owner, const struct spoor_counter_process *p)
{
	return owner->pid && p->times_ended && !p->live;
}

/* Those that are final before the bank is changed have nothing in the next one. */
static int find_finals(struct spoor_rounds *r, int fd)
{
	struct spoor_counter_owner key, *from = NULL;
	struct spoor_counter_process p;

	r->n_finals = 0;
	for (; !bpf_map_get_next_key(fd, from, &key); from = &key)
		if (!bpf_map_lookup_elem(fd, &key, &p) && is_final(&key, &p) && note_final(r, &key))
			return -ENOMEM;
	return 0;
}

static void take_processes(struct spoor_rounds *r, int fd, const struct spoor_round_reader *reader)
{
	struct spoor_counter_owner key, *from = NULL;
	struct spoor_counter_process p;

	for (size_t i = 0; i < r->n_finals; i++) {
		if (bpf_map_lookup_elem(fd, &r->finals[i], &p) || !is_final(&r->finals[i], &p))
			continue; /* moved in again */
		reader->process(reader->ctx, &r->finals[i], &p, !r->bank, true);
		bpf_map_delete_elem(fd, &r->finals[i]);
	}
	for (; !bpf_map_get_next_key(fd, from, &key); from = &key)
		if (!bpf_map_lookup_elem(fd, &key, &p))
			reader->process(reader->ctx, &key, &p, !r->bank, false);
}

int spoor_round(struct spoor_rounds *r, bool threads, const struct spoor_round_reader *reader)
{
	const struct spoor_counter_bpf *s = r->k->counter;
	int processes = bpf_map__fd(s->maps.processes), err, other;

	err = find_finals(r, processes);
	if (err)
		return err;
	r->number++;
	if (threads) {
		set_phase(r, SPOOR_PHASE_READING);
		err = read_threads(r, reader);
	}
	r->bank = !r->bank;
	set_phase(r, 0);
	wait_for_programs();
	other = take_sums(r, bpf_map__fd(r->bank ? s->maps.sums_0 : s->maps.sums_1), reader);
	take_processes(r, processes, reader);
	return err ? err : other;
}

uint64_t spoor_rounds_lost(const struct spoor_rounds *r)
{
	return *(volatile __u64 *)&r->k->counter->bss->lost_calls;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/control/control.h"
#include "agent/core/clock.h"
#include "agent/core/descriptors.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/ranges.h"

struct output outputs[SPOOR_OUTPUTS];
struct slot slots[SPOOR_SLOTS];

static void fill_slots(struct output *o)
{
	struct spoor_arena *a = o->made.arena;
	char *data = (char *)a + a->data_offset;
	uint32_t i;

	for (i = 0; i < a->n_channels; i++) {
		struct slot *s = &slots[o->first_slot + i];
		struct spoor_arena_channel *c = &a->channels[i];

		s->arena = a;
		s->channel = c;
		s->packets = arena_packets(a) + c->first_packet;
		s->data = data;
		data += (uint64_t)c->n_packets * c->packet_size;
		s->packet_size = c->packet_size;
		s->n_packets = c->n_packets;
		s->n_shared = c->n_shared;
		s->mode = c->mode;
		s->contexts = c->contexts;
		s->stack_mode = c->stack_mode;
		s->stack_budget = c->stack_budget;
		s->shared_gave_up = 0;
		__atomic_store_n(&s->output, o, __ATOMIC_SEQ_CST);
	}
}

/* Which file it is is kept: programs close what they do not know. */
static void keep_fd(struct output *o)
{
	struct stat st = {};

	if (o->made.fd < 0)
		return;
	o->made.fd = (int)fd_out_of_the_way(o->made.fd, SPOOR_FD_FROM);
	if (sys_failed(sys3(SYS_fstat, o->made.fd, &st, 0)))
		return;
	o->fd_dev = st.st_dev;
	o->fd_ino = st.st_ino;
}

int output_fd(const struct output *o)
{
	struct stat st = {};

	if (o->made.fd < 0 || sys_failed(sys3(SYS_fstat, o->made.fd, &st, 0)) || st.st_dev != o->fd_dev ||
	    st.st_ino != o->fd_ino)
		return -EBADF;
	return o->made.fd;
}

/* `n` slots in a row that nobody uses. */
static int find_slots(uint32_t n, uint32_t *ret)
{
	uint32_t i, free = 0;

	for (i = 0; i < SPOOR_SLOTS; i++) {
		free = slots[i].output || __atomic_load_n(&slots[i].users, __ATOMIC_SEQ_CST) ? 0 : free + 1;
		if (free < n)
			continue;
		*ret = i + 1 - n;
		return 0;
	}
	return -EBUSY;
}

int output_open(const struct arena_wish *wish, struct output **ret)
{
	struct output *o = NULL;
	uint32_t first;
	int i, r = find_slots(wish->n_channels, &first);

	if (r)
		return r;
	for (i = 0; i < SPOOR_OUTPUTS && !o; i++)
		if (!outputs[i].used)
			o = &outputs[i];
	if (!o)
		return -EBUSY;
	r = arena_make(wish, &o->made);
	if (r)
		return r;
	o->wish = *wish;
	o->first_slot = first;
	o->spill_fd = -1;
	o->used = true;
	keep_fd(o);
	for (i = 0; i < (int)wish->n_channels; i++) {
		struct slot *s = &slots[first + (unsigned)i];

		__atomic_fetch_add(&s->generation, 1, __ATOMIC_RELAXED);
		memset(s->known, 0, sizeof(s->known));
	}
	/* Some thread may have taken a packet of the old generation while that was ended. */
	blocks_forget(first, wish->n_channels);
	fill_slots(o);
	*ret = o;
	return 0;
}

/* Open, they keep memory and disk space. The program may have closed them, and have others by these numbers. */
static void close_descriptors(struct output *o)
{
	int fd = output_fd(o);

	if (fd >= 0)
		sys3(SYS_close, fd, 0, 0);
	output_close_spill(o);
}

void output_take_arena(struct output *o, const struct arena_made *made)
{
	close_descriptors(o); /* the parent's */
	o->made = *made;
	o->spill_made = false;
	o->spilled = 0;
	o->spill_lock = 0;
	o->spill_hangs = 0;
	keep_fd(o);
	fill_slots(o);
}

/* Whoever waits for space there need not any more. */
static void wake_waiters(struct spoor_arena_channel *c)
{
	__atomic_fetch_add(&c->space, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->waiters, __ATOMIC_SEQ_CST))
		futex_wake(&c->space, INT32_MAX);
}

void output_close(struct output *o)
{
	struct spoor_arena *a = o->made.arena;
	uint32_t i, n = o->wish.n_channels;

	for (i = 0; i < n; i++) {
		__atomic_fetch_add(&slots[o->first_slot + i].generation, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&slots[o->first_slot + i].output, NULL, __ATOMIC_SEQ_CST);
	}
	blocks_forget(o->first_slot, n);
	for (i = 0; i < n; i++)
		wake_waiters(&a->channels[i]);
	__atomic_store_n(&a->state, SPOOR_ARENA_ENDED, __ATOMIC_RELEASE);
	close_descriptors(o);
	range_retire((char *)a, o->made.reserved, o->first_slot, n);
	memset(o, 0, sizeof(*o));
}

/* Of a process that has none no system call is made: it may have left itself few of them. */
static bool have_arenas(void)
{
	int i;

	for (i = 0; i < SPOOR_OUTPUTS; i++)
		if (outputs[i].used)
			return process->alive && process->pid == sys_pid();
	return false;
}

static void add_leaving(uint32_t n)
{
	int i;

	for (i = 0; i < SPOOR_OUTPUTS; i++) {
		/* Without the lock, whose holder may be stopped: where it is given up meanwhile, its memory stays. */
		struct spoor_arena *a = __atomic_load_n(&outputs[i].made.arena, __ATOMIC_RELAXED);

		if (a)
			__atomic_fetch_add(&a->leaving, n, __ATOMIC_RELAXED);
	}
}

uint32_t outputs_leave(void)
{
	if (!have_arenas())
		return 0;
	add_leaving(1);
	return process->pid;
}

void outputs_stay(uint32_t left)
{
	if (left && left == sys_pid())
		add_leaving(-1U);
}

void outputs_end(void)
{
	int i;

	if (!have_arenas())
		return; /* or a child that wrote no event */
	for (i = 0; i < SPOOR_OUTPUTS; i++) {
		if (!outputs[i].used)
			continue;
		arena_note_clock(outputs[i].made.arena, clock_pair()); /* behind the last event */
		__atomic_store_n(&outputs[i].made.arena->state, SPOOR_ARENA_ENDED, __ATOMIC_RELEASE);
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEFS_MOST (16ULL << 20)

/* ---- what is fixed: checked once ---- */

static int wrong(struct spoor_error *e, const char *what)
{
	return spoor_fail(e, EBADMSG, "the program's buffer makes no sense: %s", what);
}

static bool in_bounds(uint64_t at, uint64_t len, uint64_t size)
{
	return at <= size && len <= size - at;
}

static int check_channel(const struct spoor_arena *h, unsigned i, uint64_t *packets, uint64_t *bytes,
			 struct spoor_error *e)
{
	const struct spoor_arena_channel *c = &h->channels[i];

	if (c->packet_size < SPOOR_ARENA_MIN_PACKET || c->packet_size > SPOOR_ARENA_MAX_PACKET ||
	    c->packet_size % SPOOR_ARENA_MIN_PACKET)
		return wrong(e, "a channel's packet size");
	if (c->first_packet != *packets || !c->n_packets || c->n_packets > h->n_packets - *packets)
		return wrong(e, "a channel's packets");
	if (c->mode > SPOOR_ARENA_BLOCK)
		return wrong(e, "a channel's mode");
	*packets += c->n_packets;
	*bytes += (uint64_t)c->n_packets * c->packet_size;
	return 0;
}

static int check_head(struct spoor_arena *h, uint64_t size, struct spoor_error *e)
{
	uint64_t packets = 0, bytes = 0;

	if (h->magic != SPOOR_ARENA_MAGIC)
		return spoor_fail(e, EBADMSG, "it is no buffer of a traced program");
	if (h->version != SPOOR_ARENA_VERSION)
		return spoor_fail(e, EPROTO,
				  "the program's buffer is of version %u, this Spoor knows version %u: use the Spoor "
				  "that its libspoor-ust came with",
				  h->version, SPOOR_ARENA_VERSION);
	if (h->state == SPOOR_ARENA_MAKING)
		return spoor_fail(e, ENODATA, "the program ended while it made its buffer: nothing is in it");
	if (h->size > size || h->size > SPOOR_ARENA_LARGEST)
		return wrong(e, "its size");
	if (h->clock != SPOOR_ARENA_TSC && h->clock != SPOOR_ARENA_MONOTONIC)
		return wrong(e, "its clock");
	if (!h->n_channels || h->n_channels > SPOOR_ARENA_MAX_CHANNELS || !h->n_packets ||
	    h->n_packets > SPOOR_ARENA_MOST_PACKETS)
		return wrong(e, "its numbers of channels and packets");
	for (unsigned i = 0; i < h->n_channels; i++) {
		int r = check_channel(h, i, &packets, &bytes, e);

		if (r)
			return r;
		h->channels[i].name[sizeof(h->channels[i].name) - 1] = '\0';
	}
	if (packets != h->n_packets)
		return wrong(e, "packets of no channel");
	if (h->defs_offset % 8 || h->defs_size > DEFS_MOST || h->defs_offset < sizeof(*h) ||
	    !in_bounds(h->defs_offset, h->defs_size, h->size))
		return wrong(e, "where its definitions are");
	if (h->headers_offset % sizeof(struct spoor_arena_packet) || h->headers_offset < sizeof(*h) ||
	    !in_bounds(h->headers_offset, packets * sizeof(struct spoor_arena_packet), h->size))
		return wrong(e, "where its packets' headers are");
	if (h->data_offset % 8 || h->data_offset < sizeof(*h) || !in_bounds(h->data_offset, bytes, h->size))
		return wrong(e, "where its packets are");
	h->comm[sizeof(h->comm) - 1] = '\0';
	h->exe[sizeof(h->exe) - 1] = '\0';
	return 0;
}

static void lay_out(struct spoor_user_arena *a)
{
	uint64_t at = a->head.data_offset;
	unsigned n = 0;

	for (unsigned c = 0; c < a->head.n_channels; c++)
		for (unsigned i = 0; i < a->head.channels[c].n_packets; i++, n++) {
			a->packets[n].size = a->head.channels[c].packet_size;
			a->packets[n].fd = -1;
			a->packets[n].offset = at;
			at += a->packets[n].size;
		}
}

/* The head is aligned to more than malloc() gives. */
static void *aligned(size_t size)
{
	size_t to = _Alignof(struct spoor_arena);
	void *p = aligned_alloc(to, (size + to - 1) / to * to);

	if (p)
		memset(p, 0, size);
	return p;
}

/* a->base, size and head are set; frees a on failure. */
static int finish(struct spoor_user_arena *a, struct spoor_user_arena **ret, struct spoor_error *e)
{
	int r = check_head(&a->head, a->size, e);

	if (!r) {
		size_t bytes = a->head.n_packets * sizeof(*a->headers);
		void *live_headers = a->base + a->head.headers_offset;

		a->headers = a->mapped ? live_headers : malloc(bytes);
		if (!a->mapped && a->headers)
			memcpy(a->headers, live_headers, bytes);
		a->packets = calloc(a->head.n_packets, sizeof(*a->packets));
		a->classes = calloc(SPOOR_ARENA_MAX_CLASSES, sizeof(*a->classes));
		if (!a->headers || !a->packets || !a->classes)
			r = spoor_fail(e, ENOMEM, "out of memory");
	}
	if (r) {
		spoor_user_arena_free(a);
		return r;
	}
	a->n_packets = a->head.n_packets;
	lay_out(a);
	*ret = a;
	return 0;
}

int spoor_user_arena_map(int fd, struct spoor_user_arena **ret, struct spoor_error *e)
{
	struct spoor_user_arena *a;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *base;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return spoor_fail(e, EPERM, "the program's buffer is not sealed against shrinking");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(a->head))
		return wrong(e, "it is too small");
	if ((uint64_t)st.st_size > SPOOR_ARENA_LARGEST)
		return wrong(e, "it is too large");
	base = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return spoor_fail(e, errno, "the program's buffer cannot be mapped: %s", strerror(errno));
	a = aligned(sizeof(*a));
	if (!a) {
		munmap(base, st.st_size);
		return spoor_fail(e, ENOMEM, "out of memory");
	}
	a->base = base;
	a->size = st.st_size;
	a->mapped = true;
	memcpy(&a->head, base, sizeof(a->head));
	return finish(a, ret, e);
}

int spoor_user_arena_own(uint8_t *base, size_t size, struct spoor_user_arena **ret, struct spoor_error *e)
{
	struct spoor_user_arena *a = aligned(sizeof(*a));
	uint8_t *copy = aligned(size);

	if (copy)
		memcpy(copy, base, size);
	free(base);
	if (!a || !copy || size < sizeof(a->head)) {
		bool small = a && copy;

		free(a);
		free(copy);
		return small ? wrong(e, "it is too small") : spoor_fail(e, ENOMEM, "out of memory");
	}
	a->base = copy;
	a->size = size;
	memcpy(&a->head, copy, sizeof(a->head));
	return finish(a, ret, e);
}

void spoor_user_arena_free(struct spoor_user_arena *a)
{
	if (!a)
		return;
	if (a->mapped) {
		munmap(a->base, a->size);
	} else {
		free(a->headers);
		free(a->base);
	}
	spoor_code_done(&a->code);
	free(a->packets);
	free(a->classes);
	free(a);
}

/* ---- what is live ---- */

static struct spoor_arena *live(const struct spoor_user_arena *a)
{
	return (struct spoor_arena *)a->base;
}

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

void spoor_user_arena_garbage(struct spoor_user_arena *a, const char *what)
{
	if (!a->malformed++)
		snprintf(a->what, sizeof(a->what), "%s", what);
}

static void take_class(struct spoor_user_arena *a, struct spoor_user_classes *r, const uint8_t *copy, size_t size,
		       unsigned id)
{
	const struct spoor_user_class *class = NULL;
	int err;

	if (id == 0 || id >= SPOOR_ARENA_MAX_CLASSES || a->classes[id]) {
		spoor_user_arena_garbage(a, "a definition has a number that is none, or is another's");
		return;
	}
	err = spoor_user_classes_take(r, copy, size, &class);
	if (err == -EBADMSG)
		spoor_user_arena_garbage(a, "a definition of events");
	else if (err)
		spoor_user_arena_garbage(a, "a definition of events could not be stored");
	a->classes[id] = class;
	if (id >= a->n_classes)
		a->n_classes = id + 1;
}

/* One record, copied to where nobody changes it. Returns its size; 0: no more. */
static size_t take_definition(struct spoor_user_arena *a, struct spoor_user_classes *r, uint64_t used)
{
	const uint8_t *at = a->base + a->head.defs_offset + a->defs_read;
	_cleanup_(spoor_freep) uint8_t *copy = NULL;
	struct spoor_def def;

	if (used - a->defs_read < sizeof(def))
		return 0;
	memcpy(&def, at, sizeof(def));
	if (def.size < sizeof(def) || def.size % 8 || def.size > used - a->defs_read)
		return 0;
	if (def.type != SPOOR_DEF_CLASS && def.type != SPOOR_DEF_OBJECT)
		return def.size;
	copy = malloc(def.size);
	if (!copy)
		return 0;
	memcpy(copy, at, def.size);
	memcpy(copy, &def, sizeof(def));
	if (def.type == SPOOR_DEF_CLASS)
		take_class(a, r, copy, def.size, def.id);
	else if (spoor_code_take(&a->code, copy, def.size))
		spoor_user_arena_garbage(a, "a definition of an object");
	return def.size;
}

void spoor_user_arena_define(struct spoor_user_arena *a, struct spoor_user_classes *r)
{
	uint64_t used = LOAD(live(a)->defs_used);

	if (a->defs_bad || used == a->defs_read)
		return;
	if (used > a->head.defs_size || used % 8 || used < a->defs_read) {
		a->defs_bad = true;
		spoor_user_arena_garbage(a, "the size of its definitions");
		return;
	}
	while (a->defs_read < used) {
		size_t size = take_definition(a, r, used);

		if (!size) {
			a->defs_bad = true;
			spoor_user_arena_garbage(a, "the size of a definition");
			return;
		}
		a->defs_read += size;
	}
}

void spoor_user_arena_clocks(struct spoor_user_arena *a, struct spoor_user_clock *c)
{
	uint64_t n = LOAD(live(a)->n_clocks);
	uint64_t first = n > SPOOR_ARENA_MAX_CLOCKS - 1 ? n - (SPOOR_ARENA_MAX_CLOCKS - 1) : 0;

	if (a->head.clock != SPOOR_ARENA_TSC)
		return;
	for (uint64_t i = first; i < n; i++) {
		const struct spoor_arena_clock *p = &live(a)->clocks[i % SPOOR_ARENA_MAX_CLOCKS];

		spoor_user_clock_add(c, (struct spoor_clock_pair){ LOAD(p->tsc), LOAD(p->mono) });
	}
}

uint64_t spoor_user_arena_lost(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->head.n_channels; i++) {
		const struct spoor_arena_channel *c = &live(a)->channels[i];

		sum += LOAD(c->lost) + LOAD(c->lost_large) + LOAD(c->lost_nested) + LOAD(c->overwritten);
	}
	return sum;
}

unsigned spoor_user_arena_state(const struct spoor_user_arena *a)
{
	return LOAD(live(a)->state);
}

const struct spoor_arena_channel *spoor_user_arena_channel(const struct spoor_user_arena *a, unsigned packet)
{
	for (unsigned i = 0; i < a->head.n_channels; i++)
		if (packet - a->head.channels[i].first_packet < a->head.channels[i].n_packets)
			return &a->head.channels[i];
	return NULL;
}

/* ---- packets ---- */

/* Owner, serial and committed bytes as of one moment. false: they change too fast, the next look will do. */
static bool look(const struct spoor_arena_packet *h, uint64_t *owner, uint64_t *serial, uint64_t *committed)
{
	for (int i = 0; i < 4; i++) {
		*owner = LOAD(h->owner);
		*serial = LOAD(h->serial);
		*committed = LOAD(h->committed);
		if (LOAD(h->owner) == *owner && LOAD(h->serial) == *serial)
			return true;
	}
	return false;
}

/* Another serial: a packet that we have not seen. What an earlier consumer took from it, it noted. */
static void begin_packet(struct spoor_user_packet *p, const struct spoor_arena_packet *h, uint64_t serial,
			 uint64_t committed)
{
	uint64_t consumed = LOAD(h->consumed);

	p->serial = serial;
	p->position = consumed % 8 || consumed > committed ? 0 : consumed;
	p->last = 0;
	p->bad = false;
}

size_t spoor_user_packet_copy(struct spoor_user_arena *a, unsigned i, uint8_t *to, bool *ret_done)
{
	struct spoor_arena_packet *h = &a->headers[i];
	struct spoor_user_packet *p = &a->packets[i];
	uint64_t owner, serial, committed, now;
	unsigned state;
	size_t n;

	*ret_done = false;
	if (!look(h, &owner, &serial, &committed))
		return 0;
	state = SPOOR_OWNER_STATE(owner);
	if (state == SPOOR_PACKET_FREE)
		return 0;
	if (serial != p->serial)
		begin_packet(p, h, serial, committed);
	if (p->bad || committed > p->size || committed % 8 || committed < p->position) {
		if (!p->bad)
			spoor_user_arena_garbage(a, "how far a packet is filled");
		p->bad = true;
		*ret_done = state == SPOOR_PACKET_FULL || state == SPOOR_PACKET_READING;
		return 0;
	}
	n = committed - p->position;
	if (p->fd < 0)
		memcpy(to, a->base + p->offset + p->position, n);
	else if (pread(p->fd, to, n, p->offset + p->position) != (ssize_t)n)
		return 0;
	/* Overwritten meanwhile? A packet that went from one state to the next has the same content still. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	now = LOAD(h->serial);
	if (now != serial)
		return 0;
	*ret_done = state == SPOOR_PACKET_FULL || state == SPOOR_PACKET_READING;
	return n;
}

static void give_back(struct spoor_user_arena *a, unsigned i)
{
	const struct spoor_arena_channel *fixed = spoor_user_arena_channel(a, i);
	struct spoor_arena_channel *c = &live(a)->channels[fixed - a->head.channels];
	struct spoor_arena_packet *h = &a->headers[i];
	uint64_t owner = LOAD(h->owner), reading;
	unsigned state = SPOOR_OWNER_STATE(owner);

	if (state != SPOOR_PACKET_FULL && state != SPOOR_PACKET_READING)
		return;
	reading = SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 1, 0, SPOOR_PACKET_READING, getpid());
	if (!__atomic_compare_exchange_n(&h->owner, &owner, reading, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return; /* the program has overwritten it */
	if (LOAD(h->serial) != a->packets[i].serial) { /* by another one, which is full again already */
		STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(owner)));
		return;
	}
	/* Who takes it has it with the old serial for a moment. */
	a->packets[i].serial = 0;
	a->packets[i].position = 0;
	STORE(h->committed, 0);
	STORE(h->consumed, 0);
	STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FREE, 0));
	__atomic_fetch_add(&c->space, 1, __ATOMIC_SEQ_CST);
	if (LOAD(c->waiters))
		syscall(SYS_futex, &c->space, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void spoor_user_packet_taken(struct spoor_user_arena *a, unsigned i, size_t bytes, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->position += bytes;
	if (!a->mapped || a->peek)
		return;
	if (done)
		give_back(a, i);
	else if (LOAD(a->headers[i].serial) == p->serial)
		STORE(a->headers[i].consumed, p->position);
}

void spoor_user_packet_hold(struct spoor_user_arena *a, unsigned i, size_t bytes)
{
	a->packets[i].position += bytes;
	a->packets[i].held++;
}

void spoor_user_packet_release(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->held--;
	if (!a->mapped || LOAD(a->headers[i].serial) != serial || p->serial != serial)
		return; /* overwritten meanwhile */
	if (!done)
		STORE(a->headers[i].consumed, position);
	else if (!p->held)
		give_back(a, i);
}

uint64_t spoor_user_arena_waiting(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->n_packets; i++) {
		const struct spoor_user_packet *p = &a->packets[i];
		uint64_t owner, serial, committed, from;

		if (!look(&a->headers[i], &owner, &serial, &committed) || committed > p->size ||
		    SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_FREE)
			continue;
		from = serial == p->serial ? p->position : 0;
		sum += committed > from ? committed - from : 0;
	}
	return sum;
}

void spoor_user_arena_peek(struct spoor_user_arena *a, bool on)
{
	a->peek = on;
	if (on)
		a->malformed_before = a->malformed;
	else
		a->malformed = a->malformed_before;
	memset(a->classes, 0, SPOOR_ARENA_MAX_CLASSES * sizeof(*a->classes)); /* those are another trace's */
	a->n_classes = 0;
	a->defs_read = 0;
	a->defs_bad = false;
	for (unsigned i = 0; i < a->n_packets; i++) {
		a->packets[i].serial = 0; /* seen for the first time */
		a->packets[i].position = 0;
	}
}

/* A thread that owned a packet and is no more: its packet is full, whatever room is left in it. */
void spoor_user_packet_orphan(struct spoor_user_arena *a, unsigned i, uint64_t owner)
{
	uint64_t full = SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 1, SPOOR_OWNER_LEVEL(owner), SPOOR_PACKET_FULL,
				    SPOOR_OWNER_TID(owner));

	__atomic_compare_exchange_n(&a->headers[i].owner, &owner, full, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

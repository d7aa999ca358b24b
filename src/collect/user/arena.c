/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/arena_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

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

/* size: at most so large may it be. */
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
	if (h->defs_offset % 8 || h->defs_size > SPOOR_ARENA_DEFS_MOST || h->defs_offset < sizeof(*h) ||
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
			a->packets[n].overwritten = a->head.channels[c].mode == SPOOR_ARENA_OVERWRITE;
			a->packets[n].offset = at;
			at += a->packets[n].size;
		}
}

/* Up to `to`; of a packet that garbage is in, up to that. */
static uint64_t whole_events(const uint8_t *packet, uint64_t to)
{
	struct spoor_event_header h;
	uint64_t at = 0;

	while (to - at >= sizeof(h)) {
		memcpy(&h, packet + at, sizeof(h));
		if (!h.size4 || spoor_event_size(&h) > to - at)
			break;
		at += spoor_event_size(&h);
	}
	return at;
}

/* Of what is not there wholly, the events that are. */
static void cut_packets(struct spoor_user_arena *a)
{
	for (unsigned i = 0; i < a->n_packets; i++) {
		const struct spoor_user_packet *p = &a->packets[i];
		struct spoor_arena_packet *h = &a->headers[i];
		uint64_t there = p->offset < a->size ? a->size - p->offset : 0, whole;
		uint64_t filled = h->committed < p->size ? h->committed : p->size;

		if (there >= p->size || SPOOR_OWNER_STATE(h->owner) == SPOOR_PACKET_FREE)
			continue;
		whole = filled <= there ? filled : whole_events(a->base + p->offset, there);
		a->missing += filled - whole;
		h->committed = whole;
		if (!p->overwritten && h->consumed > whole)
			h->consumed = whole;
	}
}

/* A copy of a dead one's; those that were cut off are as of packets that are free. NULL: no memory. */
static struct spoor_arena_packet *copy_headers(const struct spoor_user_arena *a)
{
	struct spoor_arena_packet *copy = calloc(a->head.n_packets, sizeof(*copy));
	uint64_t at = a->head.headers_offset, there = at < a->size ? (a->size - at) / sizeof(*copy) : 0;

	if (copy && there)
		memcpy(copy, a->base + at, sizeof(*copy) * (there < a->head.n_packets ? there : a->head.n_packets));
	return copy;
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
	int r = check_head(&a->head, a->mapped ? a->size : SPOOR_ARENA_LARGEST, e);

	if (!r) {
		void *live_headers = a->base + a->head.headers_offset;

		a->headers = a->mapped ? live_headers : copy_headers(a);
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
	a->taken = a->head.taken;
	a->lost_at = a->head.made;
	lay_out(a);
	if (a->size < a->head.size)
		cut_packets(a);
	spoor_user_packets_begin(a);
	*ret = a;
	return 0;
}

int spoor_user_arena_map(int fd, struct spoor_user_arena **ret, struct spoor_error *e)
{
	struct spoor_user_arena *a;
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;
	void *base;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return spoor_fail(e, EPERM, "the program's buffer is not sealed against shrinking");
	if (fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC) /* where a page cannot be had: SIGBUS */
		return wrong(e, "it is of huge pages");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(a->head))
		return wrong(e, "it is too small");
	if ((uint64_t)st.st_size > SPOOR_ARENA_LARGEST)
		return wrong(e, "it is too large");
	base = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return spoor_fail(e, errno, "the program's buffer cannot be mapped: %s", strerror(errno));
	madvise(base, st.st_size, MADV_DONTFORK); /* our helpers live on, and would keep its memory */
	a = aligned(sizeof(*a));
	if (!a) {
		munmap(base, st.st_size);
		return spoor_fail(e, ENOMEM, "out of memory");
	}
	a->base = base;
	a->size = st.st_size;
	a->mapped = true;
	a->uid = st.st_uid;
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

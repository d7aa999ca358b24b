/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Making an arena (arena.h) and appending definitions to it. */
#include <limits.h>
#include <stdbool.h>

#include "agent/core/arena.h"
#include "agent/core/sys.h"

struct arena_channel_wish {
	char name[32];
	uint32_t mode; /* enum spoor_arena_mode */
	uint32_t block_us;
	uint32_t contexts;
	uint32_t packet_size; /* 0: as fits */
	uint32_t share;       /* of the buffers; those of all channels are added up. All 0: alike */
	uint16_t stack_mode, stack_budget;
};

/* What an arena is to be; kept, so that a child process can have one like it. */
struct arena_wish {
	char dir[PATH_MAX - 64]; /* where its file goes; "": a memfd */
	uint64_t size;           /* of the packets, bytes */
	uint32_t session;        /* the recorder's number of what it is for */
	uint32_t n_channels;
	uint32_t n_stuck; /* sites that cannot be switched on, for the arena to tell */
	uint64_t defs;    /* bytes that definitions need, as far as is known */
	struct arena_channel_wish channels[SPOOR_ARENA_MAX_CHANNELS];
};

struct arena_made {
	struct spoor_arena *arena;
	uint64_t reserved;   /* bytes of addresses from there on */
	uint64_t defined;    /* bytes of its definitions, as this process made them: a parent goes on */
	uint32_t n_objects;  /* of these, of objects */
	int fd;              /* of a memfd, to be handed on; -1 of a file */
	char path[PATH_MAX]; /* of a file: without ".arena" */
};

/* Whether arenas say how their program ended: by itself, which it marks (outputs_leave()), or by a signal. */
extern bool arenas_mark_ends HIDDEN;

/* 0 or -errno. Takes some 100 us; packets get their memory when they are first used. Under the process's lock. */
int arena_make(const struct arena_wish *wish, struct arena_made *ret);
/* Nobody knows of it yet: nothing of it is left. */
void arena_unmake(struct arena_made *made);

/* For this process its packets become memory of its own that nobody reads; the rest stays shared. Likewise. */
void arena_blank_packets(struct spoor_arena *a);

/* Appends a definition, which is then complete for readers. -ENOSPC: no room; counted. Under the process's lock. */
int arena_define(struct arena_made *made, const struct spoor_def *def);
/*
 * All definitions of another arena that this process knows of: a child those from before the fork, since it gives the
 * numbers of later ones itself. Under the process's lock.
 */
int arena_define_as(struct arena_made *made, const struct arena_made *of);

/* Notes that both clocks were so. */
void arena_note_clock(struct spoor_arena *a, struct spoor_arena_clock pair);

/* Makes pages present, so that writing them can fail here and not with SIGBUS. */
int arena_populate(void *at, size_t size);

/* Whether a file may become so large: beyond RLIMIT_FSIZE not only does that fail, SIGXFSZ ends the program. */
bool file_may_have(uint64_t size);

static inline struct spoor_arena_packet *arena_packets(struct spoor_arena *a)
{
	return (struct spoor_arena_packet *)((char *)a + a->headers_offset);
}

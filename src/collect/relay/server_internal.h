/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The relay's parts: server.c (sockets), served.c (what one sender says), traces.c (files). */
#include "collect/relay/channel.h"
#include "collect/relay/server.h"
#include "collect/relay/traces.h"

struct relay_client {
	struct relay_client *prev, *next;
	struct spoor_relay *relay;
	struct spoor_channel channel;
	char from[80], peer[65];   /* address; certificate */
	struct relay_trace *trace; /* NULL: it has not said HELLO */
	uint8_t *in;
	size_t n_in, room;
	_Alignas(8) uint8_t out[4096];
	size_t n_out, out_at;
	uint8_t *digest; /* to be sent, behind out */
	size_t digest_len, digest_at;
	uint64_t acked; /* told */
	uint64_t came, heard, told;
	uint32_t events; /* epoll's */
	bool held;       /* its next operation cannot be carried out now */
	bool more;       /* there is more to read than one turn took */
	bool over;       /* what is in out is the last */
	bool dead;
};

struct spoor_relay {
	struct spoor_relay_options o;
	struct relay_traces traces;
	int epoll_fd, listen_fd;
	struct relay_client *first;
	unsigned n_clients;
	uint64_t due;
	unsigned n_strangers; /* of whom there was something to say, said or not, until: */
	uint64_t strangers_due;
	bool busy;     /* some client has more */
	bool no_files; /* there was one too few, which was said */
	bool deaf;     /* there is one too few now */
};

void spoor_relay_say(struct spoor_relay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Of a client whom anybody can be: some lines, and how many more there were. */
void spoor_relay_say_of_stranger(struct spoor_relay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* served.c: what there is to read, carry out, and send. Sets dead. */
void spoor_served_turn(struct relay_client *c, uint64_t now);
/* A held one tries again; a silent one is dead. */
void spoor_served_tick(struct relay_client *c, uint64_t now);
bool spoor_served_wants_in(const struct relay_client *c);
bool spoor_served_wants_out(const struct relay_client *c);

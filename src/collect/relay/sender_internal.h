/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The sender's parts: sender.c (what its writer calls), sender_thread.c (the connection), sender_answers.c (what the
 * relay says).
 */
#include <pthread.h>

#include "collect/relay/channel.h"
#include "collect/relay/lookup.h"
#include "collect/relay/queue.h"
#include "collect/relay/sender.h"

enum sender_state { SENDER_TRYING, SENDER_WELCOME, SENDER_FAILED };

struct spoor_sender {
	struct spoor_store store; /* first: the writer's pointer is ours */
	struct spoor_sender_options o;
	struct spoor_relay_hello hello;
	pthread_t thread;
	int wake; /* eventfd: there is something to send, or it ends */

	/* under the lock: */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ends, closing;
	bool complete; /* its last operation has been handed in */
	enum sender_state state;
	int error; /* why it failed */
	struct relay_queue queue;
	struct spoor_sender_stats stats;
	uint64_t away_since; /* ns; 0: connected */

	/* the thread's: */
	struct spoor_channel channel;
	struct spoor_lookup *lookup; /* of the relay's host, under way; NULL: none */
	uint8_t in[4096 + SPOOR_RELAY_DATA];
	_Alignas(8) uint8_t message[4096 + SPOOR_RELAY_DATA];
	size_t n_in;
	uint8_t out[sizeof(struct spoor_relay_hello)]; /* HELLO, PING */
	size_t n_out, out_at;
	struct relay_queued *sending;
	size_t sent; /* of it */
	bool tried;  /* more of it was tried: TLS wants the same again, before anything else */
	uint8_t *digest;
	size_t digest_len;
	uint64_t next_try, pause, heard, asked, began; /* ns */
	bool welcome;                                  /* on this connection */
	/* Of the relay's host: the one tried, or used; how many it has; of these without success since a pause. */
	unsigned address, n_addresses, n_tried;
};

void *spoor_sender_run(void *sender);
/* The last trouble; whoever waits hears what it has come to. */
void spoor_sender_say(struct spoor_sender *s, const char *text);
void spoor_sender_to_state(struct spoor_sender *s, enum sender_state state, int error);
/* Nothing more can come of it. */
void spoor_sender_fail(struct spoor_sender *s, int error, const char *text);

/* What is there of messages. 0, or why the connection is to be closed; -ECANCELED: it is. */
int spoor_sender_receive(struct spoor_sender *s);

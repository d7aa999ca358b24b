/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The program's look at a recorder's board (protocol.h): which sessions want it, without asking. Made by root or our
 * own user, as recorders are, and checked as messages are. System calls alone.
 */
#include <stdbool.h>

#include "agent/control/protocol.h"

struct board {
	int fd; /* -1: there is none */
	__u32 generation;
	__u32 n_notes;
	bool single;  /* it has rules for single processes */
	bool passing; /* its recorder is of one command, and none comes after it */
	__u32 pid;    /* ours, with the start time */
	__u64 start_time;
	unsigned n_wanted; /* sessions that want us */
	bool closed; /* there is one that is not for us: of somebody's whom we do not obey, or of another version */
};

/* socket: its path. secure: of this program only root's recorder may say what it does. */
void board_open(const char *socket, bool secure, __u64 start_time, struct board *ret);
void board_close(struct board *b);
/*
 * What a recorder would send to us: each() gets SETUPs, and behind each the RULEs that go with it; it returns 0 to go
 * on. Returns what it did.
 */
int board_read(const struct board *b, int (*each)(const struct spoor_control_head *m));
/* Was the recorder at work in the last second? */
bool board_beats(const struct board *b);

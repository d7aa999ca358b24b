/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The board beside a recorder's socket, as a program reads it before its main(). Input: the file. Rules for process 1
 * become rules for this one.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/control/board.h"

#define START_TIME 1

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char sock[64], path[96];
static unsigned setups, rules, setups_left, rules_left, stop_at;
static uint32_t session;

static void check(bool good)
{
	if (!good)
		abort();
}

static void on_setup(const struct spoor_control_setup *m)
{
	check(m->head.size == sizeof(*m) && m->session && m->n_rules && !rules_left);
	check(!setups++ || m->left + 1 == setups_left);
	setups_left = m->left;
	rules_left = m->n_rules;
	session = m->session;
}

static void on_rule(const struct spoor_control_rule *m)
{
	check(m->head.size == sizeof(*m) && setups && m->session == session && rules_left);
	rules_left--;
	rules++;
}

/* What the library would be sent: of each session a SETUP, and behind it as many RULEs as that says. */
static int each(const struct spoor_control_head *m)
{
	check(m->magic == SPOOR_CONTROL_MAGIC && m->version == SPOOR_CONTROL_VERSION);
	check(m->type == SPOOR_CONTROL_SETUP || m->type == SPOOR_CONTROL_RULE);
	if (m->type == SPOOR_CONTROL_SETUP)
		on_setup((const void *)m);
	else
		on_rule((const void *)m);
	return setups + rules == stop_at ? -1 : 0;
}

static void read_as(const struct board *b, unsigned stop)
{
	int r;

	setups = rules = setups_left = rules_left = 0;
	stop_at = stop;
	r = board_read(b, each);
	check(r == (stop && setups + rules == stop ? -1 : 0));
	check(r || (setups == b->n_wanted && !setups_left && !rules_left));
}

static void remove_file(void)
{
	unlink(path);
}

static int make_file(void)
{
	snprintf(sock, sizeof(sock), "/dev/shm/spoor-fuzz-board-%d", getpid());
	snprintf(path, sizeof(path), "%s%s", sock, SPOOR_CONTROL_BOARD);
	atexit(remove_file);
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* The file, with our own number in it. */
static void write_file(int fd, const uint8_t *data, size_t size)
{
	const uint32_t pid = (uint32_t)getpid();

	check(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	for (size_t at = SPOOR_CONTROL_BOARD_NOTES; at + 4 <= size; at += sizeof(struct spoor_control_note))
		if (!memcmp(data + at, "\1\0\0", 4))
			check(pwrite(fd, &pid, sizeof(pid), (off_t)at) == sizeof(pid));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct board b;

	if (fd < 0)
		fd = make_file();
	write_file(fd, data, size);
	board_open(sock, size % 2, START_TIME, &b);
	if (b.fd >= 0) {
		read_as(&b, 0);
		read_as(&b, 2);
		board_beats(&b);
	}
	board_close(&b);
	check(b.fd < 0);
	return 0;
}

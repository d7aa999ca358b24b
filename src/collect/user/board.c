/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The board (agent/control/protocol.h): what a program would be answered that begins now, in a file beside the socket,
 * so that it waits for nobody. Written anew when something of it changes, before who asked for that is answered.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"

#define BEAT_NS (100 * 1000000ULL)
#define ENDED_NS (1 * SPOOR_NS_PER_SEC) /* between two looks whether processes with rules of their own are there */

static void board_path(const struct spoor_hub *h, const char *suffix, char *path, size_t size)
{
	snprintf(path, size, "%s" SPOOR_CONTROL_BOARD "%s", h->path, suffix);
}

/* ---- what is on it ---- */

static size_t count(const struct spoor_hub *h)
{
	size_t n = 0;

	for (const struct spoor_ust_session *s = h->sessions; s; s = s->next)
		n += s->n_rules ? 1 + s->n_rules + s->n_singles : 0;
	return n;
}

static struct spoor_control_note *note_rule(struct spoor_control_note *at, const struct spoor_ust_session *s,
					    const struct spoor_ust_rule *r)
{
	at->pid = r->process.pid;
	at->start_time = r->process.start_time;
	at->rule = r->rule;
	at->rule.session = s->id;
	at->head = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, SPOOR_CONTROL_RULE,
						sizeof(at->rule), s->id };
	return at + 1;
}

/* A process that was started or stopped alone. */
static struct spoor_control_note *note_single(struct spoor_control_note *at, const struct spoor_ust_session *s,
					      const struct spoor_ust_single *k)
{
	at->pid = k->process.pid;
	at->start_time = k->process.start_time;
	at->record.session = s->id;
	at->record.on = k->on;
	at->head = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, SPOOR_CONTROL_RECORD,
						sizeof(at->record), s->id };
	return at + 1;
}

static struct spoor_control_note *note_session(struct spoor_control_note *at, const struct spoor_ust_session *s)
{
	spoor_ust_session_setup(s, NULL, &at->setup);
	at->setup.answers = 1;
	at->head = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, SPOOR_CONTROL_SETUP,
						sizeof(at->setup), s->id };
	at++;
	for (size_t i = 0; i < s->n_rules; i++)
		at = note_rule(at, s, &s->rules[i]);
	for (size_t i = 0; i < s->n_singles; i++)
		at = note_single(at, s, &s->singles[i]);
	return at;
}

static struct spoor_control_note *notes_of(const struct spoor_hub *h, size_t n)
{
	struct spoor_control_note *notes = calloc(n ? n : 1, sizeof(*notes)), *at = notes;

	for (const struct spoor_ust_session *s = h->sessions; s && at; s = s->next)
		if (s->n_rules)
			at = note_session(at, s);
	return notes;
}

/* ---- the file ---- */

/* A new file in the place of the old one, so that who reads sees one or the other. The descriptor, or -errno. */
static int replace(const struct spoor_hub *h, const struct spoor_control_board *board, const void *notes, size_t size)
{
	char path[sizeof(h->path) + 32], new[sizeof(h->path) + 32], head[SPOOR_CONTROL_BOARD_NOTES] = "";
	struct iovec io[] = { { head, sizeof(head) }, { (void *)notes, size } };
	_cleanup_(spoor_closep) int fd = -1;

	board_path(h, "", path, sizeof(path));
	board_path(h, ".new", new, sizeof(new));
	memcpy(head, board, sizeof(*board));
	unlink(new);
	fd = open(new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if ((h->o.everybody && fchmod(fd, 0644)) || writev(fd, io, 2) != (ssize_t)(sizeof(head) + size) ||
	    rename(new, path)) {
		unlink(new);
		return -EIO;
	}
	return TAKE_FD(fd);
}

static void forget(struct spoor_hub *h)
{
	struct hub_board *b = &h->board;

	if (b->fd >= 0)
		close(b->fd);
	free(b->notes);
	b->fd = -1;
	b->notes = NULL;
	b->n = 0;
}

void spoor_board_remove(struct spoor_hub *h)
{
	char path[sizeof(h->path) + 32];

	forget(h);
	if (h->leaves || !spoor_hub_has_place(h))
		return;
	board_path(h, "", path, sizeof(path));
	unlink(path);
}

void spoor_hub_publish(struct spoor_hub *h)
{
	struct hub_board *b = &h->board;
	size_t n = count(h), size = n * sizeof(struct spoor_control_note);
	_cleanup_(spoor_freep) struct spoor_control_note *notes = notes_of(h, n);
	struct spoor_control_board board = { SPOOR_CONTROL_BOARD_MAGIC, SPOOR_CONTROL_VERSION, .n_notes = n,
					     .beat = spoor_now_monotonic() };

	spoor_waiting_update(h);
	if (notes && b->fd >= 0 && n == b->n && !memcmp(notes, b->notes, size))
		return;
	forget(h);
	while (!++b->generation)
		;
	for (size_t i = 0; notes && i < n; i++)
		board.single |= notes[i].pid != 0;
	board.generation = b->generation;
	board.passing = h->o.passing;
	b->single = board.single;
	b->fd = notes && spoor_hub_has_place(h) ? replace(h, &board, notes, size) : -ENOMEM;
	if (b->fd < 0) { /* programs ask, and wait a little, as where there is none */
		spoor_board_remove(h);
		return;
	}
	b->notes = TAKE_PTR(notes);
	b->n = n;
}

void spoor_board_tick(struct spoor_hub *h, uint64_t now)
{
	struct hub_board *b = &h->board;

	if (now - b->looked >= ENDED_NS) {
		b->looked = now;
		for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
			spoor_ust_session_forget_ended(s);
	}
	if (now - b->beat < BEAT_NS && b->fd >= 0)
		return;
	b->beat = now;
	spoor_hub_publish(h);
	if (b->fd >= 0 && pwrite(b->fd, &now, sizeof(now), offsetof(struct spoor_control_board, beat)) < 0)
		spoor_board_remove(h);
}

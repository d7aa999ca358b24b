/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/board.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/core/clock.h"
#include "agent/core/sys.h"

#define MOST_NOTES 100000
#define STALE_NS 1000000000ULL

static bool read_at(const struct board *b, void *to, size_t size, size_t at)
{
	return sys6(SYS_pread64, b->fd, (long)to, (long)size, (long)at, 0, 0) == (long)size;
}

static bool read_note(const struct board *b, __u32 i, struct spoor_control_note *ret)
{
	return i < b->n_notes && read_at(b, ret, sizeof(*ret), SPOOR_CONTROL_BOARD_NOTES + (size_t)i * sizeof(*ret)) &&
	       ret->head.magic == SPOOR_CONTROL_MAGIC && ret->head.version == SPOOR_CONTROL_VERSION;
}

static bool is_setup(const struct spoor_control_note *n)
{
	return n->head.type == SPOOR_CONTROL_SETUP && n->head.size == sizeof(n->setup) && n->setup.session;
}

/* A rule of the session, for this process. */
static bool is_ours(const struct board *b, const struct spoor_control_note *n, __u32 session)
{
	return n->head.type == SPOOR_CONTROL_RULE && n->head.size == sizeof(n->rule) && n->rule.session == session &&
	       (!n->pid || (n->pid == b->pid && n->start_time == b->start_time));
}

/* How many of the rules behind the SETUP at i are ours; 0: none of them enables anything. */
static __u32 rules_for_us(const struct board *b, __u32 i, const struct spoor_control_setup *setup)
{
	struct spoor_control_note n = {};
	bool wants = false;
	__u32 k, ours = 0;

	for (k = 0; k < setup->n_rules && read_note(b, i + 1 + k, &n); k++) {
		if (!is_ours(b, &n, setup->session))
			continue;
		ours++;
		wants |= n.rule.enable;
	}
	return wants ? ours : 0;
}

static bool is_trusted(int fd, bool secure, bool *ret_strange)
{
	struct stat st = {};

	if (sys_failed(sys3(SYS_fstat, fd, &st, 0)) || !S_ISREG(st.st_mode))
		return false;
	*ret_strange = st.st_uid && (secure || st.st_uid != (uid_t)sys0(SYS_geteuid));
	return !*ret_strange;
}

static bool read_head(struct board *b)
{
	struct spoor_control_board head = {};

	if (!read_at(b, &head, sizeof(head), 0) || head.magic != SPOOR_CONTROL_BOARD_MAGIC)
		return false;
	b->closed = head.version != SPOOR_CONTROL_VERSION;
	if (b->closed || !head.generation || head.n_notes > MOST_NOTES)
		return false;
	b->generation = head.generation;
	b->n_notes = head.n_notes;
	b->single = head.single;
	b->passing = head.passing;
	return true;
}

static void count_wanted(struct board *b)
{
	struct spoor_control_note n = {};
	__u32 i;

	for (i = 0; read_note(b, i, &n); i++) {
		if (!is_setup(&n))
			continue;
		b->n_wanted += rules_for_us(b, i, &n.setup) != 0;
		i += n.setup.n_rules < b->n_notes ? n.setup.n_rules : b->n_notes;
	}
}

void board_open(const char *socket, bool secure, __u64 start_time, struct board *ret)
{
	char path[128 + sizeof(SPOOR_CONTROL_BOARD)];
	size_t n = strlen(socket);
	long fd;

	*ret = (struct board){ .fd = -1, .pid = sys_pid(), .start_time = start_time };
	if (n >= 128)
		return;
	strcpy(path, socket);
	strcpy(path + n, SPOOR_CONTROL_BOARD);
	fd = sys3(SYS_open, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (sys_failed(fd))
		return;
	ret->fd = (int)fd;
	if (is_trusted(ret->fd, secure, &ret->closed) && read_head(ret))
		count_wanted(ret);
	else
		board_close(ret);
}

void board_close(struct board *b)
{
	if (b->fd >= 0)
		sys3(SYS_close, b->fd, 0, 0);
	b->fd = -1;
}

/* What the notes from i on say of this process alone: whether it records. */
static void read_record(const struct board *b, __u32 i, struct spoor_control_setup *setup)
{
	struct spoor_control_note n = {};

	for (; read_note(b, i, &n) && n.head.type == SPOOR_CONTROL_RECORD; i++) {
		if (n.pid != b->pid || n.start_time != b->start_time || n.record.session != setup->session)
			continue;
		if (n.record.on)
			setup->flags |= SPOOR_SETUP_RECORD;
		else
			setup->flags &= ~(__u32)SPOOR_SETUP_RECORD;
	}
}

static int read_session(const struct board *b, __u32 i, struct spoor_control_note *setup, unsigned left,
			int (*each)(const struct spoor_control_head *m))
{
	struct spoor_control_note n = {};
	__u32 k, rules = rules_for_us(b, i, &setup->setup), behind = setup->setup.n_rules;
	int r;

	setup->setup.n_rules = rules;
	setup->setup.left = left;
	read_record(b, i + 1 + behind, &setup->setup);
	r = each(&setup->head);
	for (k = 0; !r && k < behind && read_note(b, i + 1 + k, &n); k++)
		if (is_ours(b, &n, setup->setup.session))
			r = each(&n.head);
	return r;
}

int board_read(const struct board *b, int (*each)(const struct spoor_control_head *m))
{
	struct spoor_control_note n = {};
	unsigned left = b->n_wanted;
	__u32 i, behind;
	int r = 0;

	for (i = 0; !r && left && read_note(b, i, &n); i++) {
		if (!is_setup(&n))
			continue;
		behind = n.setup.n_rules < b->n_notes ? n.setup.n_rules : b->n_notes;
		if (rules_for_us(b, i, &n.setup))
			r = read_session(b, i, &n, --left, each);
		i += behind;
	}
	return r;
}

bool board_beats(const struct board *b)
{
	__u64 beat = 0, now = clock_monotonic();

	return b->fd >= 0 && read_at(b, &beat, sizeof(beat), offsetof(struct spoor_control_board, beat)) &&
	       now - beat < STALE_NS;
}

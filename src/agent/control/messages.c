/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/messages.h"

#include <errno.h>
#include <string.h>

#include "agent/control/connection.h"
#include "agent/control/control.h"

bool messages_late;

/* A recorder's answer that has not come to its end. */
static struct {
	struct spoor_control_head setup;
	__u32 session, change;
	unsigned rules_left, setups_left;
	bool record; /* once the rules are there */
	bool answers;
	int result;
	struct spoor_agent_said said;
} pending;
static __u32 by_board; /* the process that reads it, where no connection's end cuts it */

static void done(const struct spoor_control_head *what, int result, const struct spoor_agent_said *said)
{
	struct spoor_control_done m = { .result = result, .about = said->about };

	memcpy(m.text, said->text, sizeof(m.text));
	connection_send(&m.head, SPOOR_CONTROL_DONE, sizeof(m), what->serial, -1);
}

/* Why it is not recorded, where that is known better than by the error's name. */
static const char *reason(int error)
{
	switch (error) {
	case -EBUSY:
		return "as many sessions and channels record it as can at once";
	case -EFBIG:
		return "no file of the process may be as large as its buffers (ulimit -f)";
	case -EMFILE:
		return "the process may not open one more file (ulimit -n)";
	case -ENOMEM:
		return "there is no memory, or no address space (ulimit -v), for its buffers";
	}
	return "";
}

void messages_refuse(__u32 session, int error)
{
	struct spoor_control_done m = { .result = error };

	strcpy(m.text, reason(error));
	connection_send(&m.head, SPOOR_CONTROL_DONE, sizeof(m), session, -1);
}

void messages_cut(void)
{
	if (by_board && by_board == sys_pid())
		return;
	if (pending.rules_left)
		spoor_agent_setup_cut(pending.session);
	memset(&pending, 0, sizeof(pending));
}

static void end_answer(void)
{
	spoor_agent_end_answer();
	messages_late = false;
}

static void rules_are_there(void)
{
	bool last = pending.answers && !pending.setups_left;
	int r = pending.result;

	if (pending.rules_left)
		return;
	if (r) /* what held before goes on to hold, unless it is to be off */
		spoor_agent_setup_cut(pending.session);
	if (!r || !pending.record) { /* which may find that the connection is no more */
		int n = spoor_agent_record(pending.session, pending.record, &pending.said);

		r = r ? r : n;
	}
	if (r < 0 && !pending.said.text[0])
		strcpy(pending.said.text, reason(r));
	spoor_agent_hear(pending.session, pending.change);
	done(&pending.setup, r, &pending.said);
	if (last)
		end_answer();
}

/* The arena that we have, for a recorder that is new, or that we lost for a while. */
static void offer_present(__u32 session)
{
	struct spoor_agent_arena arena;

	if (!spoor_agent_arena(session, &arena))
		spoor_control_offer_one(&arena);
}

static int on_setup(const struct spoor_control_setup *m)
{
	if (m->answers && !pending.setups_left)
		spoor_agent_begin_answer();
	if (!m->session) { /* none wants us */
		end_answer();
		return -ENOENT;
	}
	if (m->n_channels < 1 || m->n_channels > SPOOR_ARENA_MAX_CHANNELS || !m->n_rules)
		return -EBADMSG;
	memset(&pending, 0, sizeof(pending));
	pending.setup = m->head;
	pending.session = m->session;
	pending.change = m->change;
	pending.rules_left = m->n_rules;
	pending.setups_left = m->left;
	pending.answers = m->answers;
	pending.record = m->flags & SPOOR_SETUP_RECORD;
	pending.result = spoor_agent_setup(m);
	offer_present(m->session);
	return 0;
}

static int on_rule(const struct spoor_control_rule *m)
{
	bool belongs = pending.rules_left && m->session == pending.session;
	struct spoor_control_rule rule = *m;
	struct spoor_agent_said said = { 0 };
	int r;

	rule.pattern[sizeof(rule.pattern) - 1] = '\0';
	rule.filter[sizeof(rule.filter) - 1] = '\0';
	r = spoor_agent_rule(&rule, &said);
	if (!belongs) {
		spoor_agent_hear(m->session, m->change);
		done(&m->head, r, &said);
		return 0;
	}
	/* It belongs to a SETUP, whose answer is that of all. */
	if (said.text[0] && !pending.said.text[0])
		pending.said = said;
	if (r < 0 && !pending.result)
		pending.result = r;
	pending.rules_left--;
	rules_are_there();
	return 0;
}

static int on_record(const struct spoor_control_record *m)
{
	struct spoor_agent_said said = { 0 };
	int r = spoor_agent_record(m->session, m->on, &said);

	spoor_agent_hear(m->session, m->change);
	if (r < 0 && !said.text[0])
		strcpy(said.text, reason(r));
	done(&m->head, r, &said);
	return 0;
}

static int on_end(const struct spoor_control_end *m)
{
	spoor_agent_end(m->session);
	return 0;
}

static int on_message(const struct spoor_control_head *m, int fd)
{
	if (m->version != SPOOR_CONTROL_VERSION)
		return -EPROTO;
	switch (m->type) {
	case SPOOR_CONTROL_SETUP:
		return m->size == sizeof(struct spoor_control_setup) ? on_setup((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_RULE:
		return m->size == sizeof(struct spoor_control_rule) ? on_rule((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_RECORD:
		return m->size == sizeof(struct spoor_control_record) ? on_record((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_END:
		return m->size == sizeof(struct spoor_control_end) ? on_end((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_ROWS:
		if (m->size != sizeof(struct spoor_control_rows))
			return -EBADMSG;
		spoor_agent_rows((const void *)m, fd);
		return 0;
	case SPOOR_CONTROL_DONE: /* our HELLO was refused: it is of another version */
		return -EPROTO;
	}
	return -EBADMSG;
}

/* As all that a kick does, it may have to do with a handler's stack of 8 KiB (SIGSTKSZ). Under the process's lock. */
int messages_serve(void)
{
	static _Alignas(8) char buf[SPOOR_CONTROL_MAX_SIZE];
	int n, fd;

	while ((n = connection_receive(buf, &fd)) > 0) {
		n = on_message((void *)buf, fd);
		if (fd >= 0)
			sys3(SYS_close, fd, 0, 0);
		if (n < 0)
			break;
	}
	if (n < 0) {
		connection_close();
		messages_cut();
	}
	return n < 0 ? n : 0;
}

int messages_serve_all(int ms)
{
	int r = messages_serve();

	while (!r && (pending.rules_left || pending.setups_left) && connection_fd() >= 0 && connection_wait(ms))
		r = messages_serve();
	return r;
}

int messages_take(const struct spoor_control_head *m)
{
	int r;

	by_board = sys_pid();
	r = on_message(m, -1);
	by_board = 0;
	return r;
}

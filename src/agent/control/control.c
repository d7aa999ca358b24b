/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/control.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "agent/control/connection.h"
#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"

#define ANSWER_MS 1 /* where there is no board; what comes later is served by a kick */
#define ROWS_MS 1000
#define LOOK_MS 20 /* whether the recorder is at work yet */
#define KICKED_MS 50
#define AGAIN_MS 100 /* between two looks for a recorder that is gone */

/* A recorder's answer that has not come to its end. */
static struct {
	struct spoor_control_head setup;
	__u32 session;
	unsigned rules_left, setups_left;
	bool record; /* once the rules are there */
	bool answers;
	int result;
	struct spoor_agent_said said;
} pending;
static bool listening;     /* there is the thread */
static __u32 listener_pid; /* in this process: it does not survive a fork */
static volatile bool stopped;
static bool prepared; /* the environment was read: there may be a recorder */
static bool asked;    /* whether a session wants us */
static bool late;     /* one may, and we went on without an answer */
static struct sigaction before; /* who handled SIGURG */

/* ---- messages: the agent's lock is held ---- */

static void done(const struct spoor_control_head *what, int result, const struct spoor_agent_said *said)
{
	struct spoor_control_done m = { .result = result, .about = said->about };

	memcpy(m.text, said->text, sizeof(m.text));
	connection_send(&m.head, SPOOR_CONTROL_DONE, sizeof(m), what->serial, -1);
}

static void rules_are_there(void)
{
	int r = pending.result;

	if (pending.rules_left)
		return;
	if (!r)
		r = spoor_agent_record(pending.session, pending.record, &pending.said);
	done(&pending.setup, r, &pending.said);
	if (!pending.answers || pending.setups_left)
		return;
	spoor_agent_end_answer();
	late = false;
}

/* The arena that we have, for a recorder that is new, or that we lost for a while. */
static void offer_present(__u32 session)
{
	struct spoor_agent_arena arena;

	if (!spoor_agent_arena(session, &arena))
		spoor_control_offer(&arena, 1);
}

static int on_setup(const struct spoor_control_setup *m)
{
	if (m->answers && !pending.setups_left)
		spoor_agent_begin_answer();
	if (!m->session) { /* none wants us */
		late = false;
		spoor_agent_end_answer();
		return -ENOENT;
	}
	if (m->n_channels < 1 || m->n_channels > SPOOR_ARENA_MAX_CHANNELS || !m->n_rules)
		return -EBADMSG;
	memset(&pending, 0, sizeof(pending));
	pending.setup = m->head;
	pending.session = m->session;
	pending.rules_left = m->n_rules;
	pending.setups_left = m->left;
	pending.answers = m->answers;
	pending.record = m->flags & SPOOR_SETUP_RECORD;
	pending.result = spoor_agent_setup(m);
	if (pending.result == -EBUSY)
		strcpy(pending.said.text, "as many sessions record it as can at once");
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

/* What there is. Returns 0, or -errno: the connection is closed. */
static int serve(void)
{
	_Alignas(8) char buf[SPOOR_CONTROL_MAX_SIZE];
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
		memset(&pending, 0, sizeof(pending));
	}
	return n < 0 ? n : 0;
}

/* What belongs together comes together. */
static void serve_all(int ms)
{
	if (serve())
		return;
	while ((pending.rules_left || pending.setups_left) && connection_fd() >= 0 && connection_wait(ms))
		if (serve())
			break;
}

/* ---- the listener ---- */

/*
 * A program that has capabilities may keep them over setuid() or set them anew, which the kernel does for one thread.
 * libc then has all threads do the next setgroups(), and ends the program where one of them, ours, may not.
 */
static bool may_change_who_it_is(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { };

	sys3(SYS_capget, &head, caps, 0);
	return caps[0].permitted || caps[1].permitted;
}

static void pause_ms(int ms)
{
	long wait[2] = { ms / 1000, ms % 1000 * 1000000L };

	sys3(SYS_nanosleep, wait, 0, 0);
}

/* The recorder is gone. One that is started anew finds us, or we find it; what comes meanwhile is in the arena. */
static void find_again(void)
{
	pause_ms(AGAIN_MS);
	if (stopped || spoor_agent_lock(true))
		return;
	connection_open(0, 0);
	spoor_agent_unlock();
}

static void *listen_to(void *arg)
{
	sys3(SYS_prctl, PR_SET_NAME, "spoor-ust", 0);
	while (!stopped) {
		int fd;

		if (spoor_agent_lock(true))
			break;
		fd = connection_fd();
		spoor_agent_unlock();
		if (fd < 0) {
			find_again();
			continue;
		}
		if (!connection_wait(1000) || spoor_agent_lock(true))
			continue;
		if (connection_fd() >= 0)
			serve();
		spoor_agent_unlock();
	}
	return arg;
}

/*
 * What liburcu asks for in its constructor, which comes after ours. With one thread it costs nothing; with two the
 * kernel lets a grace period pass, some 15 ms, and the program waits.
 */
static void register_for_urcu(void)
{
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

static void start_listener(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;

	if (listening || may_change_who_it_is() || pthread_attr_init(&attr))
		return;
	register_for_urcu();
	sigfillset(&all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	listening = !pthread_create(&thread, &attr, listen_to, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	listener_pid = sys_pid();
}

/* ---- the kick ---- */

static void kicked(void)
{
	if (!process->alive && outputs_renew())
		return; /* a child, which has buffers of its own before it is told anything */
	if (spoor_agent_lock(false))
		return; /* we are to be kicked again */
	/* One to a recorder that is gone is closed by this; or there is an answer of old: that nobody wants us. */
	if (connection_fd() >= 0)
		serve_all(KICKED_MS);
	if (connection_fd() < 0 && connection_open(SPOOR_HELLO_KICKED, 0) >= 0 && connection_wait(KICKED_MS))
		serve_all(KICKED_MS);
	spoor_agent_unlock();
}

static void on_urgent(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == (void *)SPOOR_CONTROL_KICK)
		kicked();
	else if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
		before.sa_sigaction(sig, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
	errno = saved;
}

static void handle_kicks(void)
{
	struct sigaction a = { .sa_sigaction = on_urgent, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	sigfillset(&a.sa_mask);
	sigaction(SIGURG, &a, &before);
}

/* ---- what the rest of the library calls ---- */

/* Who named a recorder wants call stacks by rows from the first event on; what is compiled already is there at once. */
static void await_rows(const struct board *b)
{
	uint64_t until = clock_monotonic() + ROWS_MS * 1000000ULL;

	while (connection_fd() >= 0 && spoor_agent_rows_awaited() && board_beats(b) && clock_monotonic() < until)
		if (connection_wait(LOOK_MS) && serve())
			break;
}

static int on_note(const struct spoor_control_head *m)
{
	return on_message(m, -1);
}

/* The recorder is there, and has a HELLO of us. */
static void begin_recording(const struct board *b)
{
	if (b->n_wanted) {
		board_read(b, on_note);
		if (connection_is_private())
			await_rows(b);
		return;
	}
	late = true;
	if (connection_wait(ANSWER_MS))
		serve_all(ANSWER_MS);
}

/* Nobody at that place wants us, or nobody is there: true, it is to be asked whether another one does. */
static bool is_not_there(unsigned place, const struct board *b, unsigned flags)
{
	int r;

	if (b->fd >= 0 && !b->n_wanted && !b->single)
		return !connection_reaches(place);
	r = connection_begin(place, b, flags);
	if (r >= 0)
		begin_recording(b);
	late |= r == -EAGAIN;
	return r < 0 && r != -EAGAIN;
}

/* The sessions that are there when the program begins, or when its first sites come. */
static void find_sessions(unsigned flags)
{
	struct board board;
	bool next;
	unsigned i;
	__u32 stuck;

	if (!prepared || asked || !spoor_agent_sites(&stuck))
		return;
	asked = true;
	next = connection_fd() < 0; /* else it was called before it had sites */
	for (i = 0; next && connection_board(i, &board); i++) {
		next = is_not_there(i, &board, flags);
		board_close(&board);
	}
}

int spoor_control_start(void)
{
	bool any;

	connection_prepare();
	handle_kicks();
	if (spoor_agent_lock(true))
		return 0;
	prepared = true;
	find_sessions(may_change_who_it_is() ? SPOOR_HELLO_ALONE : 0);
	any = spoor_agent_any();
	spoor_agent_unlock();
	if (any)
		start_listener();
	return any;
}

void spoor_control_objects(void)
{
	find_sessions(SPOOR_HELLO_ALONE);
}

void spoor_control_offer(const struct spoor_agent_arena *arenas, unsigned n)
{
	unsigned i;

	connection_forget();
	if (connection_open(SPOOR_HELLO_FORKED, n) < 0)
		return;
	for (i = 0; i < n; i++) {
		struct spoor_control_arena m = { .session = arenas[i].session,
						 .flags = late ? SPOOR_ARENA_LATE : 0 };

		memcpy(m.uuid, arenas[i].uuid, sizeof(m.uuid));
		connection_send(&m.head, SPOOR_CONTROL_ARENA, sizeof(m), 0, arenas[i].fd);
	}
}

void spoor_control_stop(void)
{
	stopped = true;
}

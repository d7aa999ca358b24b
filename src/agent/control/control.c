/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/control.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/control/connection.h"
#include "agent/control/messages.h"
#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/sanitizers.h"

#define ANSWER_MS 1 /* where there is no board; what comes later is served by a kick */
#define ROWS_MS 1000
#define LOOK_MS 20 /* whether the recorder is at work yet */
#define KICKED_MS 50
#define AGAIN_MS 100 /* between two looks for a recorder that is gone */
#define STACK (128 << 10)

static uint32_t listener;   /* the process that has the thread; 0: none */
static volatile bool stopped;
static bool prepared; /* the environment was read: there may be a recorder */
static bool asked;    /* whether a session wants us */
static struct sigaction before; /* who handled SIGURG */

static int open_anew(unsigned flags, unsigned n_arenas)
{
	if (connection_fd() < 0)
		messages_cut();
	/* Who is FORKED is told no rules of what it offers, and is in no other session: anybody else is to hear all. */
	if (flags & SPOOR_HELLO_FORKED && !outputs_inherited())
		flags = SPOOR_HELLO_KICKED;
	return connection_open(flags, n_arenas);
}

/* Nobody is there who could say so. */
static void end_if_over(bool called)
{
	if (connection_fd() >= 0 || !connection_is_over(called))
		return;
	spoor_agent_begin_answer();
	spoor_agent_end_answer();
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
	if (!outputs_offer_again())
		open_anew(0, 0);
	end_if_over(false);
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
			messages_serve();
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

/* stack: bytes; 0: as many as any thread has. */
static int create_listener(size_t stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r)
		return r;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	r = pthread_create(&thread, &attr, listen_to, NULL);
	pthread_attr_destroy(&attr);
	return r;
}

/* There may be no thread more (ulimit -u): the recorder is told, who would else never call. */
static void tell_alone(void)
{
	struct spoor_control_done m = { .about = SPOOR_DONE_ALONE };

	if (spoor_agent_lock(true))
		return;
	if (connection_fd() >= 0)
		connection_send(&m.head, SPOOR_CONTROL_DONE, sizeof(m), 0, -1);
	spoor_agent_unlock();
}

static void start_listener(void)
{
	sigset_t all, old;
	int r;

	if (listener || may_change_who_it_is())
		return;
	register_for_urcu();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = create_listener(STACK);
	if (r == EINVAL) /* the program's thread-local variables, which are part of it, are larger */
		r = create_listener(0);
	if (!r)
		listener = process->pid;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		tell_alone();
}

/* ---- the kick ---- */

static void kicked(void)
{
	bool reached = false;
	int r = 0;

	if (process->alive && process->pid != sys_pid())
		return; /* a child by vfork(): all of this is its parent's */
	if (!process->alive && outputs_renew(true))
		return; /* a child, which has buffers of its own before it is told anything */
	__atomic_store_n(&process->called, sys_tid(), __ATOMIC_SEQ_CST);
	if (spoor_agent_lock(false))
		return; /* whoever has it calls us again */
	__atomic_store_n(&process->called, 0, __ATOMIC_RELAXED);
	/* One to a recorder that is gone is closed by this; or there is an answer of old: that nobody wants us. */
	if (connection_fd() >= 0)
		messages_serve_all(KICKED_MS);
	if (connection_fd() < 0 && !outputs_offer_again())
		reached = open_anew(SPOOR_HELLO_KICKED, 0) >= 0;
	if (reached && connection_wait(KICKED_MS))
		r = messages_serve_all(KICKED_MS);
	if (!reached || connection_was_refused(r))
		end_if_over(true);
	spoor_agent_unlock();
}

static bool is_of_recorder(const siginfo_t *info)
{
	return info->si_code == SI_QUEUE && info->si_value.sival_ptr == (void *)SPOOR_CONTROL_KICK;
}

/* Of who had the lock. What a program sends its own threads looks like that, and of two the kernel keeps one. */
static bool may_be_again(const siginfo_t *info)
{
	return info->si_code == SI_TKILL && info->si_pid == (pid_t)process->pid &&
	       __atomic_exchange_n(&process->again, 0, __ATOMIC_RELAXED);
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
		before.sa_sigaction(sig, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
}

/* Go, which sends it to its threads, sends none again before it has handled the first: it gets all that may be its. */
static void on_urgent(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	bool ours = is_of_recorder(info);

	if (ours || may_be_again(info))
		kicked();
	if (!ours)
		pass_on(sig, info, context);
	errno = saved;
}

static void handle_kicks(void)
{
	struct sigaction a = { .sa_sigaction = on_urgent, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	sigfillset(&a.sa_mask);
	sanitizers_sigaction(SIGURG, &a, &before);
}

/* ---- what the rest of the library calls ---- */

void spoor_control_look(void)
{
	int saved = errno;

	if (!process->alive || listener == process->pid || spoor_agent_lock(false))
		return;
	if (connection_fd() >= 0)
		messages_serve();
	spoor_agent_unlock();
	errno = saved;
}

/* Who named a recorder wants call stacks by rows from the first event on; what is compiled already is there at once. */
static void await_rows(const struct board *b)
{
	uint64_t until = clock_monotonic() + ROWS_MS * 1000000ULL;

	while (connection_fd() >= 0 && spoor_agent_rows_awaited() && board_beats(b) && clock_monotonic() < until)
		if (connection_wait(LOOK_MS) && messages_serve())
			break;
}

/* The recorder is there, and has a HELLO of us. */
static void begin_recording(const struct board *b)
{
	if (b->n_wanted) {
		board_read(b, messages_take);
		if (connection_is_private() && !connection_waits())
			await_rows(b);
		return;
	}
	messages_late = true;
	if (connection_wait(ANSWER_MS))
		messages_serve_all(ANSWER_MS);
}

/* Nobody at that place wants us, or nobody is there: true, it is to be asked whether another one does. */
static bool is_not_there(unsigned place, const struct board *b, unsigned flags)
{
	int r;

	if (b->fd >= 0 && !b->n_wanted && !b->single)
		return !connection_reaches(place);
	r = connection_begin(place, b, flags);
	if (connection_was_refused(r) && b->n_wanted && connection_reaches(place))
		r = 0; /* it had no room for us, before it heard of us: we come again, as who is told so later */
	if (r >= 0)
		begin_recording(b);
	messages_late |= r == -EAGAIN || (r < 0 && b->n_wanted);
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

static int send_arenas(const struct spoor_agent_arena *arenas, unsigned n, __u32 flags)
{
	unsigned i;
	int r = 0;

	for (i = 0; i < n && !r; i++) {
		struct spoor_control_arena m = { .session = arenas[i].session };

		m.flags = flags | (messages_late ? SPOOR_ARENA_LATE : 0) |
			  (spoor_agent_records(m.session) ? 0 : SPOOR_ARENA_STOPPED);
		memcpy(m.uuid, arenas[i].uuid, sizeof(m.uuid));
		r = connection_send(&m.head, SPOOR_CONTROL_ARENA, sizeof(m), spoor_agent_heard(m.session),
				    arenas[i].fd);
	}
	return r;
}

static int offer(const struct spoor_agent_arena *arenas, unsigned n)
{
	bool anew = connection_fd() < 0;
	int r = open_anew(SPOOR_HELLO_FORKED, n);

	return r < 0 ? r : send_arenas(arenas, n, anew && outputs_inherited() ? SPOOR_ARENA_FORKED : 0);
}

int spoor_control_offer(const struct spoor_agent_arena *arenas, unsigned n)
{
	int r;

	connection_forget();
	r = offer(arenas, n);
	if ((r != -EPIPE && r != -ECONNRESET) || connection_waits())
		return r;
	/* The recorder has ended since; the next one is to have them. */
	connection_close();
	return offer(arenas, n);
}

void spoor_control_offer_one(const struct spoor_agent_arena *arena)
{
	bool connected = connection_fd() >= 0;
	int r = connected ? offer(arena, 1) : 0;

	if (connected && ((r != -EPIPE && r != -ECONNRESET) || connection_waits()))
		return;
	connection_close();
	if (!outputs_offer_again())
		spoor_control_offer(arena, 1);
}

/* It is not heard of again before it has some: nobody is to call it in vain. */
void spoor_control_offer_none(const __u32 *sessions, unsigned n, int error)
{
	unsigned i;

	connection_forget();
	if (!n || connection_open(SPOOR_HELLO_FORKED, n) < 0)
		return;
	for (i = 0; i < n; i++)
		messages_refuse(sessions[i], error);
	connection_close();
}

void spoor_control_stop(void)
{
	stopped = true;
}

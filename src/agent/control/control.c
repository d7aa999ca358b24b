/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/control/control.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "agent/control/connection.h"
#include "agent/core/output.h"
#include "agent/core/process.h"

#define TEXT_SIZE sizeof(((struct spoor_control_done *)0)->text)
#define PRIVATE_MS 1000   /* who names a recorder wants everything from the start */
#define STANDARD_MS 1     /* what comes later is served by a kick */
#define KICKED_MS 50
#define AGAIN_MS 100      /* between two looks for a recorder that is gone */

static __u32 session;       /* of the last SETUP; 0: none */
static unsigned rules_left; /* of it, which have not come */
static bool record_then;    /* once they have */
static bool listening;      /* there is the thread */
static __u32 listener_pid;  /* in this process: it does not survive a fork */
static volatile bool stopped;
static struct sigaction before; /* who handled SIGURG */

/* ---- messages: the agent's lock is held ---- */

static void done(const struct spoor_control_head *what, int result, const char *text)
{
	struct spoor_control_done m = { .result = result };
	size_t n = strlen(text);

	memcpy(m.text, text, n < sizeof(m.text) ? n : sizeof(m.text) - 1);
	connection_send(&m.head, SPOOR_CONTROL_DONE, sizeof(m), what->serial, -1);
}

static void rules_are_there(void)
{
	char text[TEXT_SIZE];

	if (!rules_left)
		spoor_agent_record(record_then, text, sizeof(text));
}

/* The arena that we have, for a recorder that is new, or that we lost for a while. */
static void offer_present(void)
{
	__u8 uuid[16];
	int fd;

	if (!spoor_agent_arena(&fd, uuid))
		spoor_control_offer(fd, uuid);
}

static int on_setup(const struct spoor_control_setup *m)
{
	char text[TEXT_SIZE];
	int r = 0;

	if (!m->n_rules) { /* no session wants us. What is in the buffers stays there. */
		spoor_agent_record(false, text, sizeof(text));
		return -ENOENT;
	}
	if (m->n_channels < 1 || m->n_channels > SPOOR_ARENA_MAX_CHANNELS)
		return -EBADMSG;
	rules_left = m->n_rules;
	record_then = m->flags & SPOOR_SETUP_RECORD;
	if (session != m->session)
		r = spoor_agent_setup(m);
	session = m->session;
	offer_present();
	return r;
}

static int on_rule(const struct spoor_control_rule *m)
{
	struct spoor_control_rule rule = *m;
	char text[TEXT_SIZE] = "";
	int r;

	rule.pattern[sizeof(rule.pattern) - 1] = '\0';
	rule.filter[sizeof(rule.filter) - 1] = '\0';
	r = spoor_agent_rule(&rule, text, sizeof(text));
	if (rules_left) { /* they belong to a SETUP: nobody waits for an answer */
		rules_left--;
		rules_are_there();
	} else {
		done(&m->head, r, text);
	}
	return 0;
}

static void on_record(const struct spoor_control_record *m)
{
	char text[TEXT_SIZE] = "";
	int r = spoor_agent_record(m->on, text, sizeof(text));

	done(&m->head, r, text);
}

static int on_message(const struct spoor_control_head *m)
{
	if (m->version != SPOOR_CONTROL_VERSION)
		return -EPROTO;
	switch (m->type) {
	case SPOOR_CONTROL_SETUP:
		return m->size == sizeof(struct spoor_control_setup) ? on_setup((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_RULE:
		return m->size == sizeof(struct spoor_control_rule) ? on_rule((const void *)m) : -EBADMSG;
	case SPOOR_CONTROL_RECORD:
		if (m->size != sizeof(struct spoor_control_record))
			return -EBADMSG;
		on_record((const void *)m);
		return 0;
	case SPOOR_CONTROL_END:
		spoor_agent_end();
		session = 0;
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
	int n;

	while ((n = connection_receive(buf)) > 0) {
		n = on_message((void *)buf);
		if (n < 0)
			break;
	}
	if (n < 0)
		connection_close();
	return n < 0 ? n : 0;
}

/* ---- the listener ---- */

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
	connection_open(0, session);
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
		serve();
	if (connection_fd() < 0 && connection_open(SPOOR_HELLO_KICKED, session) >= 0 && connection_wait(KICKED_MS))
		serve();
	/* The rules come right behind a SETUP. */
	while (rules_left && connection_fd() >= 0 && connection_wait(KICKED_MS))
		if (serve())
			break;
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

/* The recorder's answer, and the rules that come with it. */
static void await_setup(int ms)
{
	if (!connection_wait(ms))
		return;
	serve();
	while (rules_left && connection_fd() >= 0 && connection_wait(ms))
		if (serve())
			break;
}

int spoor_control_start(void)
{
	connection_prepare();
	handle_kicks();
	if (spoor_agent_lock(true))
		return 0;
	if (connection_open(0, 0) >= 0)
		await_setup(connection_is_private() ? PRIVATE_MS : STANDARD_MS);
	spoor_agent_unlock();
	if (session)
		start_listener();
	return session != 0;
}

int spoor_control_offer(int fd, const __u8 uuid[16])
{
	struct spoor_control_arena m;
	int r;

	connection_forget();
	r = connection_open(SPOOR_HELLO_FORKED, session);
	if (r < 0)
		return r;
	memset(&m, 0, sizeof(m));
	memcpy(m.uuid, uuid, sizeof(m.uuid));
	return connection_send(&m.head, SPOOR_CONTROL_ARENA, sizeof(m), 0, fd);
}

void spoor_control_forked(void)
{
	connection_forget();
}

void spoor_control_stop(void)
{
	stopped = true;
}

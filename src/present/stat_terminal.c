/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terminal: another screen, no cursor, no wrapping, keys at once. Signals stay the terminal's (ISIG). They have
 * handlers, not a signalfd: a mask would be inherited by programs that are started meanwhile. Handlers use only what is
 * async-signal-safe.
 */
#include "present/stat_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
/* First of all CAN: it ends what escape sequence may have been cut. */
#define LEAVE "\030\033[0m\033[2J\033[?7h\033[?25h\033[?1049l"
#define PATIENCE_MS 200

static int tty = -1, wake = -1, epoll = -1;
static struct termios before, ours;
static volatile sig_atomic_t taken, changed;
static pid_t owner; /* children inherit handlers and what exit() runs; the terminal is not theirs */

static const int fatal[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGILL,  SIGABRT, SIGBUS,  SIGFPE,
			     SIGSEGV, SIGPIPE, SIGALRM, SIGXCPU, SIGXFSZ, SIGSYS,  SIGUSR1, SIGUSR2 };
#define N_FATAL (sizeof(fatal) / sizeof(*fatal))
static struct sigaction old_fatal[N_FATAL], old_stop, old_continue, old_resize;

static int put(const char *s, size_t len)
{
	while (len) {
		ssize_t n = write(tty, s, len);
		struct pollfd p = { .fd = tty, .events = POLLOUT };

		if (n > 0) {
			s += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (poll(&p, 1, PATIENCE_MS) == 0)
				return -EAGAIN;
		} else if (n < 0 && errno != EINTR) {
			return -EIO;
		}
	}
	return 0;
}

static void enter(void)
{
	tcsetattr(tty, TCSANOW, &ours);
	put(ENTER, strlen(ENTER));
	taken = 1;
}

static void leave(void)
{
	if (!taken || getpid() != owner)
		return;
	taken = 0;
	put(LEAVE, strlen(LEAVE));
	tcsetattr(tty, TCSANOW, &before);
}

static void notice(void)
{
	uint64_t one = 1;

	changed = 1;
	if (write(wake, &one, sizeof(one)) < 0)
		return; /* it is full of notices */
}

static void on_change(int number)
{
	int saved = errno;

	notice();
	errno = saved;
}

/* SA_RESETHAND: the second time it is what it would have been. */
static void on_fatal(int number)
{
	leave();
	raise(number);
}

static void on_stop(int number)
{
	/* What is masked meanwhile keeps on_continue() out until the terminal is ours again. */
	struct sigaction stop = { .sa_handler = SIG_DFL }, again;
	sigset_t set, old;
	int saved = errno;

	leave();
	sigaction(SIGTSTP, &stop, &again);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	pthread_sigmask(SIG_UNBLOCK, &set, &old); /* stops here */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sigaction(SIGTSTP, &again, NULL);
	enter();
	notice();
	errno = saved;
}

/* Continued after SIGSTOP: the shell has been at the terminal meanwhile. */
static void on_continue(int number)
{
	int saved = errno;

	if (taken && getpid() == owner)
		enter();
	notice();
	errno = saved;
}

static void handle(int number, void (*handler)(int), int flags, struct sigaction *ret_old)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigfillset(&action.sa_mask);
	sigdelset(&action.sa_mask, SIGTTOU); /* continued in the background: wait there for the terminal */
	sigaction(number, NULL, ret_old);
	if (ret_old->sa_handler == SIG_DFL)
		sigaction(number, &action, NULL);
}

static void install(void)
{
	for (unsigned i = 0; i < N_FATAL; i++)
		handle(fatal[i], on_fatal, (int)SA_RESETHAND, &old_fatal[i]);
	handle(SIGTSTP, on_stop, SA_RESTART, &old_stop);
	handle(SIGCONT, on_continue, SA_RESTART, &old_continue);
	handle(SIGWINCH, on_change, SA_RESTART, &old_resize);
}

static void uninstall(void)
{
	for (unsigned i = 0; i < N_FATAL; i++)
		sigaction(fatal[i], &old_fatal[i], NULL);
	sigaction(SIGTSTP, &old_stop, NULL);
	sigaction(SIGCONT, &old_continue, NULL);
	sigaction(SIGWINCH, &old_resize, NULL);
}

static void release_at_exit(void)
{
	if (getpid() == owner)
		spoor_terminal_release();
}

static void close_all(void)
{
	int *fds[] = { &tty, &wake, &epoll };

	for (unsigned i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static int open_all(void)
{
	struct epoll_event ev = { .events = EPOLLIN };

	/* A description of our own: that it does not block is nobody else's business. */
	tty = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (tty < 0)
		return -errno;
	wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (wake < 0 || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, tty, &ev) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &ev) < 0 || tcgetattr(tty, &before) < 0)
		return -errno;
	return 0;
}

int spoor_terminal_take(struct spoor_error *e)
{
	static int registered;
	const char *term = getenv("TERM");
	int r;

	if (tty >= 0)
		return spoor_fail(e, EBUSY, "the terminal is in use already");
	if (!term || !*term || !strcmp(term, "dumb"))
		return spoor_fail(e, ENOTTY,
				  "cannot watch: the terminal cannot move its cursor (TERM=%s); use --interval",
				  term ?: "");
	r = open_all();
	if (r < 0) {
		close_all();
		return spoor_fail(e, ENOTTY, "cannot watch: there is no terminal (/dev/tty: %s); use --interval",
				  strerror(-r));
	}
	ours = before;
	ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	ours.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	ours.c_cc[VMIN] = 1;
	ours.c_cc[VTIME] = 0;
	if (!registered)
		registered = atexit(release_at_exit) == 0;
	owner = getpid();
	install();
	enter();
	changed = 0;
	return 0;
}

void spoor_terminal_release(void)
{
	if (tty < 0)
		return;
	leave();
	uninstall();
	close_all();
}

int spoor_terminal_fd(void)
{
	return epoll;
}

int spoor_terminal_read(char *buf, size_t size)
{
	ssize_t n;

	do
		n = read(tty, buf, size);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return (int)n;
	return n < 0 && errno == EAGAIN ? 0 : -EIO;
}

int spoor_terminal_write(const char *s, size_t len)
{
	return put(s, len);
}

void spoor_terminal_size(unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize size = {};

	ioctl(tty, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row ?: 24;
	*ret_columns = size.ws_col ?: 80;
}

int spoor_terminal_changed(void)
{
	uint64_t n;
	int was = changed;

	changed = 0;
	if (read(wake, &n, sizeof(n)) < 0)
		return was;
	return 1;
}

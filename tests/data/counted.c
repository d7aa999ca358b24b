/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that makes a known number of calls of getppid, in ways that are hard on who counts:
 *
 *	counted threads N P    N threads at once, P calls each
 *	counted segv N P       the same, then all wait but one, which dereferences NULL
 *	counted hang N P       the same, but all wait: prints "ready"; to be killed
 *	counted group N P      the same, but one calls exit_group while the others wait in a read
 *	counted leader N P     the main thread ends first, then the others call
 *	counted exec N P       N threads call P times, then the last one executes `counted threads 1 P`
 *	counted storm S P      threads of P calls are born and die for S milliseconds; prints how many there were, and
 *	                       waits for the end of stdin
 *	counted kills N P      for each byte on stdin N processes of 4 threads with P calls each are born and killed;
 *	                       prints "done"
 *	counted alternate S P  one call of P others each, then getppid and getuid by turns for S milliseconds
 *	counted chain N P      the main thread makes P calls of getuid, another P of getppid; that one executes
 *	                       `counted chain N-1 P`; the last prints "last" and
 *	                       waits for the end of stdin
 *	counted processes N P  N children one after the other, P calls each
 *	counted int80 N P      N calls of getppid by int 0x80, P by syscall
 *	counted restart N P    a read interrupted by N signals, in whose handlers a nanosleep is interrupted by another,
 *	                       and a poll that goes on by restart_syscall; then P calls. Who sends the signals looks by
 *	                       preadv whether they will come into these calls
 *	counted unknown N P    N calls of number 999, P of getppid
 *	counted many N P       N different calls, P times each: more than any thread has slots for
 *	counted crowd N P      N threads make 200 different calls, P times each, and wait: prints "ready"; to be killed
 *	counted errors N P     N x ENOENT, P x EBADF, 2 x EFAULT of openat, and N x EISDIR
 *	counted busy N P       N times readv of P MiB of zeros; prints how many ns passed meanwhile, and how many on the
 *	                       CPU
 *	counted asleep N P     the same of N sleeps of P milliseconds
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int calls;
static pthread_barrier_t all, others; /* with the main thread, and without it */
static pthread_t main_thread;
static char **args;

static void call(int n)
{
	for (int i = 0; i < n; i++)
		syscall(SYS_getppid);
}

static void *call_all(void *arg)
{
	call(calls);
	pthread_barrier_wait(&all);
	return arg;
}

static void *call_and_hang(void *arg)
{
	call(calls);
	pthread_barrier_wait(&all);
	for (;;)
		pause();
	return arg;
}

static void *after_the_leader(void *arg)
{
	if (arg)
		pthread_join(main_thread, NULL);
	pthread_barrier_wait(&others);
	call(calls);
	return arg;
}

static void *execute(void *arg)
{
	char p[16];

	call(calls);
	pthread_barrier_wait(&all);
	snprintf(p, sizeof(p), "%d", calls);
	execl("/proc/self/exe", args[0], "threads", "1", p, (char *)NULL);
	return arg;
}

static void *call_shortly(void *arg)
{
	call(calls);
	return arg;
}

static void start(int n, void *(*f)(void *), pthread_t *ret)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (int i = 0; i < n; i++)
		if (pthread_create(&ret[i], &attr, f, i ? NULL : args)) {
			perror("pthread_create");
			exit(1);
		}
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int storm(int ms)
{
	long until = now_ms() + ms;
	pthread_t t[4];
	int n = 0;

	do {
		start(4, call_shortly, t);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		n += 4;
	} while (now_ms() < until);
	return n;
}

static void to_be_killed(int ready)
{
	pthread_t t[3];

	pthread_barrier_init(&all, NULL, 4);
	start(3, call_and_hang, t);
	call(calls);
	pthread_barrier_wait(&all);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void kills(int n)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		exit(1);
	while (getchar() != EOF) {
		for (int i = 0; i < n; i++) {
			pid_t pid = fork();

			if (!pid)
				to_be_killed(fds[1]);
			if (pid < 0 || read(fds[0], &byte, 1) != 1)
				exit(1);
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		puts("done");
		fflush(stdout);
	}
}

static void wait_for_end_of_stdin(void)
{
	while (getchar() != EOF)
		;
}

static void alternate(int ms)
{
	long until = now_ms() + ms;

	do {
		for (int i = 0; i < 1000; i++) {
			syscall(SYS_getppid);
			syscall(SYS_getuid);
		}
	} while (now_ms() < until);
}

static void *chain(void *arg)
{
	char n[16], p[16];

	call(calls);
	pthread_barrier_wait(&all);
	snprintf(n, sizeof(n), "%d", atoi(args[2]) - 1);
	snprintf(p, sizeof(p), "%d", calls);
	execl("/proc/self/exe", args[0], "chain", n, p, (char *)NULL);
	return arg;
}

static volatile sig_atomic_t depth;

/* The first sleeps until the second comes, which sleeps shortly. */
static void handler(int sig)
{
	struct timespec ts = { depth ? 0 : 60, 3000000 };

	depth++;
	nanosleep(&ts, NULL);
	depth--;
}

/* What /proc knows of the parent, from its begin. */
static void look(int fd, char *ret, size_t size)
{
	struct iovec iov = { ret, size - 1 };
	ssize_t n = preadv(fd, &iov, 1, 0);

	if (n <= 0) /* it has gone */
		_exit(1);
	ret[n] = 0;
}

/* In one of these states; a state in which it sleeps counts only within that call. */
static void wait_until(const int *fds, const char *states, int nr)
{
	char stat[512], call[128], *state;

	for (;; sched_yield()) {
		look(fds[0], stat, sizeof(stat));
		look(fds[1], call, sizeof(call));
		state = strrchr(stat, ')');
		if (state && strchr(states, state[2]) && (nr < 0 || (call[0] != 'r' && atoi(call) == nr)))
			return;
	}
}

static int open_of(pid_t pid, const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	return open(path, O_RDONLY);
}

static void interrupt(int n, int out)
{
	int fds[2] = { open_of(getppid(), "stat"), open_of(getppid(), "syscall") };

	for (int i = 0; i < n; i++) {
		wait_until(fds, "S", SYS_read);
		kill(getppid(), i & 1 ? SIGUSR1 : SIGUSR2);
		wait_until(fds, "S", SYS_clock_nanosleep);
		kill(getppid(), i & 1 ? SIGUSR2 : SIGUSR1); /* into the other's handler */
	}
	wait_until(fds, "S", SYS_read);
	if (write(out, "x", 1) != 1)
		_exit(1);
	wait_until(fds, "S", SYS_poll);
	kill(getppid(), SIGSTOP);
	wait_until(fds, "Tt", -1); /* t: somebody traces it */
	kill(getppid(), SIGCONT);
	wait_until(fds, "S", SYS_restart_syscall);
	_exit(write(out, "x", 1) != 1);
}

static void restart(int n)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct pollfd in = { .events = POLLIN };
	int fds[2];
	char byte;
	pid_t child;

	if (pipe(fds))
		exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	child = fork();
	if (!child)
		interrupt(n, fds[1]);
	if (read(fds[0], &byte, 1) != 1)
		exit(1);
	in.fd = fds[0];
	if (poll(&in, 1, 60000) != 1)
		exit(1);
	waitpid(child, NULL, 0);
}

static long long ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void read_zeros(int n, int mib)
{
	static char *buffer;
	static int fd = -1;
	size_t size = (size_t)mib << 20;

	if (!buffer) {
		buffer = malloc(size);
		memset(buffer, 1, size);
		fd = open("/dev/zero", O_RDONLY);
	}
	for (int i = 0; i < n; i++)
		if (readv(fd, &(struct iovec){ buffer, size }, 1) != (ssize_t)size)
			exit(1);
}

static void sleep_often(int n, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	for (int i = 0; i < n; i++)
		nanosleep(&ts, NULL);
}

/* By the scheduler's own account of this thread. */
static void measure(void (*f)(int, int), int n, int p)
{
	long long began, ran;

	f(0, p);
	ran = ns_of(CLOCK_THREAD_CPUTIME_ID);
	began = ns_of(CLOCK_MONOTONIC);
	f(n, p);
	began = ns_of(CLOCK_MONOTONIC) - began;
	ran = ns_of(CLOCK_THREAD_CPUTIME_ID) - ran;
	printf("%lld %lld\n", began, ran);
}

static long int80(long nr)
{
	long ret;

	asm volatile("int $0x80" : "=a"(ret) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

/* Numbers that do nothing without proper arguments. */
static void many(int n, int times)
{
	for (int nr = 0; nr < 335 && n; nr++) {
		switch (nr) {
		case SYS_exit:
		case SYS_exit_group:
		case SYS_fork:
		case SYS_vfork:
		case SYS_clone:
		case SYS_pause:
		case SYS_rt_sigreturn:
		case SYS_rt_sigsuspend:
		case SYS_vhangup:
		case SYS_sync:
		case SYS_munlockall:
		case SYS_setsid:
		case SYS_kill:
		case SYS_tkill:
		case SYS_tgkill:
		case SYS_brk:
		case SYS_close:
		case SYS_rt_sigtimedwait:
		case SYS_wait4:
		case SYS_select:
		case SYS_pselect6:
		case SYS_ppoll:
		case SYS_poll:
		case SYS_futex:
		case SYS_alarm:
		case SYS_umask:
		case SYS_read:
		case SYS_write:
		case SYS_restart_syscall:
		case SYS_munmap:
		case SYS_mmap:
		case SYS_personality:
			continue;
		}
		for (int i = 0; i < times; i++)
			syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
		n--;
	}
}

static void *call_many(void *arg)
{
	many(200, calls);
	pthread_barrier_wait(&all);
	for (;;)
		pause();
	return arg;
}

static void fail(int n, int p)
{
	for (int i = 0; i < n; i++)
		syscall(SYS_openat, AT_FDCWD, "/nowhere/at/all", O_RDONLY);
	for (int i = 0; i < p; i++)
		syscall(SYS_openat, 999, "relative", O_RDONLY);
	for (int i = 0; i < 2; i++)
		syscall(SYS_openat, AT_FDCWD, (char *)8, O_RDONLY);
	for (int i = 0; i < n; i++)
		syscall(SYS_openat, AT_FDCWD, "/", O_WRONLY);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t *threads = calloc(n + 1, sizeof(*threads));

	args = argv;
	calls = argc > 3 ? atoi(argv[3]) : 1;
	main_thread = pthread_self();
	pthread_barrier_init(&all, NULL, n + 1);
	pthread_barrier_init(&others, NULL, n);
	if (!strcmp(how, "threads")) {
		start(n, call_all, threads);
		pthread_barrier_wait(&all);
		for (int i = 0; i < n; i++)
			pthread_join(threads[i], NULL);
	} else if (!strcmp(how, "segv")) {
		start(n, call_and_hang, threads);
		pthread_barrier_wait(&all);
		*(volatile int *)NULL = 1;
	} else if (!strcmp(how, "hang")) {
		start(n, call_and_hang, threads);
		pthread_barrier_wait(&all);
		puts("ready");
		fflush(stdout);
		pause();
	} else if (!strcmp(how, "group")) {
		start(n, call_and_hang, threads);
		pthread_barrier_wait(&all);
		syscall(SYS_exit_group, 7);
	} else if (!strcmp(how, "leader")) {
		start(n, after_the_leader, threads);
		pthread_exit(NULL);
	} else if (!strcmp(how, "exec")) {
		start(n - 1, call_and_hang, threads);
		start(1, execute, threads + n - 1);
		pthread_barrier_wait(&all);
		for (;;)
			pause();
	} else if (!strcmp(how, "storm")) {
		printf("%d\n", storm(n));
		fflush(stdout);
		wait_for_end_of_stdin();
	} else if (!strcmp(how, "kills")) {
		kills(n);
	} else if (!strcmp(how, "alternate")) {
		many(calls, 1);
		alternate(n);
	} else if (!strcmp(how, "chain") && n) {
		pthread_barrier_init(&all, NULL, 2);
		start(1, chain, threads);
		for (int i = 0; i < calls; i++)
			syscall(SYS_getuid);
		pthread_barrier_wait(&all);
		for (;;)
			pause();
	} else if (!strcmp(how, "chain")) {
		puts("last");
		fflush(stdout);
		wait_for_end_of_stdin();
	} else if (!strcmp(how, "processes")) {
		for (int i = 0; i < n; i++) {
			pid_t pid = fork();

			if (!pid) {
				call(calls);
				_exit(0);
			}
			waitpid(pid, NULL, 0);
		}
	} else if (!strcmp(how, "int80")) {
		for (int i = 0; i < n; i++)
			int80(64);
		call(calls);
	} else if (!strcmp(how, "restart")) {
		restart(n);
		call(calls);
	} else if (!strcmp(how, "unknown")) {
		for (int i = 0; i < n; i++)
			syscall(999);
		call(calls);
	} else if (!strcmp(how, "many")) {
		many(n, calls);
	} else if (!strcmp(how, "crowd")) {
		start(n, call_many, threads);
		pthread_barrier_wait(&all);
		puts("ready");
		fflush(stdout);
		pause();
	} else if (!strcmp(how, "errors")) {
		fail(n, calls);
	} else if (!strcmp(how, "busy")) {
		measure(read_zeros, n, calls);
	} else if (!strcmp(how, "asleep")) {
		measure(sleep_often, n, calls);
	} else {
		fprintf(stderr, "counted: %s?\n", how);
		return 1;
	}
	return 0;
}

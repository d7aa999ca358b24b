/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that traces itself: ust_actor MODE [NUMBER...]. Every event carries a number; what was surely recorded is
 * said on stdout ("recorded FIRST LAST") so that a test can look for each of them. $ACTOR_TELLS: how much memory it
 * has.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(actor, step, TP_PROTO(unsigned long n, const char *what), TP_ARGS(n, what),
		 TP_FIELDS(spoor_int(unsigned long, n, n), spoor_string(what, what)))
SPOOR_TRACEPOINT(actor, nested, TP_PROTO(unsigned long n), TP_ARGS(n), TP_FIELDS(spoor_int(unsigned long, n, n)))

static unsigned long number(char **argv, int i, unsigned long otherwise)
{
	return argv[i] ? strtoul(argv[i], NULL, 0) : otherwise;
}

static void recorded(const char *event, unsigned long first, unsigned long end)
{
	printf("recorded %s %lu %lu\n", event, first, end);
	fflush(stdout);
}

static void steps(unsigned long from, unsigned long n, const char *what)
{
	unsigned long i;

	for (i = from; i < from + n; i++)
		spoor_trace(actor, step, i, what);
}

static void count(char **argv)
{
	unsigned long n = number(argv, 0, 1009);

	steps(0, n, "count");
	recorded("actor:step", 0, n);
	while (argv[0] && argv[1]) /* then wait to be killed */
		pause();
}

/* Threads */
static unsigned long per_thread;
static pthread_barrier_t barrier;

static void *short_thread(void *arg)
{
	steps((unsigned long)arg * per_thread, per_thread, "thread");
	return NULL;
}

/* That is nobody else's, buffers are not in it. */
static void tell_memory(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Anonymous:", 10))
			fputs(line, stdout);
}

static void threads(char **argv)
{
	unsigned long n = number(argv, 0, 10000), i, j;
	pthread_t t[50];
	pthread_attr_t small;

	per_thread = number(argv, 1, 3);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (i = 0; i < n; i += 50) {
		for (j = i; j < i + 50 && j < n; j++)
			if (pthread_create(&t[j - i], &small, short_thread, (void *)j))
				abort();
		for (j = i; j < i + 50 && j < n; j++)
			pthread_join(t[j - i], NULL);
	}
	recorded("actor:step", 0, n * per_thread);
	if (getenv("ACTOR_TELLS"))
		tell_memory();
}

static void *patient_thread(void *arg)
{
	steps((unsigned long)arg * 2, 1, "patient");
	pthread_barrier_wait(&barrier);
	steps((unsigned long)arg * 2 + 1, 1, "patient");
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* All at once. */
static void crowd(char **argv)
{
	unsigned long n = number(argv, 0, 10000), i;
	pthread_attr_t small;
	pthread_t t;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 32 << 10);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
	for (i = 0; i < n; i++)
		if (pthread_create(&t, &small, patient_thread, (void *)i))
			abort();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	recorded("actor:step", 0, 2 * n);
}

static unsigned long n_abrupt; /* threads whose event is written */

static void *abrupt_thread(void *arg)
{
	steps((unsigned long)arg, 1, "abrupt");
	__atomic_fetch_add(&n_abrupt, 1, __ATOMIC_RELAXED);
	syscall(SYS_exit, 0); /* no destructor runs */
	return NULL;
}

/* Nobody joins them. */
static void abrupt(char **argv)
{
	unsigned long n = number(argv, 0, 500), i;
	pthread_attr_t small;
	pthread_t t;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 32 << 10);
	for (i = 0; i < n; i++) {
		if (pthread_create(&t, &small, abrupt_thread, (void *)i))
			abort();
		usleep(300);
	}
	while (__atomic_load_n(&n_abrupt, __ATOMIC_RELAXED) < n)
		usleep(1000);
	usleep(20000);
	recorded("actor:step", 0, n);
}

static volatile unsigned long cancelled_at;

static void *endless_thread(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		spoor_trace(actor, nested, cancelled_at);
		cancelled_at++;
	}
	return arg;
}

static void cancel(char **argv)
{
	unsigned long n = number(argv, 0, 50), i;

	for (i = 0; i < n; i++) {
		pthread_t t;

		pthread_create(&t, NULL, endless_thread, NULL);
		usleep(200);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
	steps(0, 100, "after");
	recorded("actor:nested", 0, cancelled_at);
	recorded("actor:step", 0, 100);
}

/* Processes */
static void forks(char **argv)
{
	unsigned long n = number(argv, 0, 7);
	pid_t child;

	steps(0, n, "parent");
	child = fork();
	if (!child) {
		steps(1000, n, "child");
		child = fork();
		if (!child) {
			steps(2000, n, "grandchild");
			exit(0);
		}
		waitpid(child, NULL, 0);
		exit(0);
	}
	waitpid(child, NULL, 0);
	steps(n, n, "parent");
}

static void raw_clone(char **argv)
{
	unsigned long n = number(argv, 0, 7);
	pid_t child;

	steps(0, n, "parent");
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child) {
		steps(1000, n, "child");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	steps(n, n, "parent");
}

static void vforks(char **argv)
{
	static unsigned long n;
	pid_t child;

	n = number(argv, 0, 7);
	steps(0, n, "parent");
	child = vfork();
	if (!child) {
		steps(n, 1, "between");
		execl("/proc/self/exe", "ust_actor", "count", "5", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	steps(n + 1, n, "parent");
}

/* A child that has written nothing makes one that has its memory, which writes first, and ends. */
static void forks_and_vforks(char **argv)
{
	pid_t forked = fork(), child;

	(void)argv;
	if (forked) {
		waitpid(forked, NULL, 0);
		steps(0, 3, "parent");
		return;
	}
	child = vfork();
	if (!child) {
		steps(10, 4, "between");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	steps(20, 5, "child");
}

static void execs(char **argv)
{
	steps(5000, 3, "before");
	if (argv[0] && atoi(argv[0]) > 1)
		execl("/proc/self/exe", "ust_actor", "exec", "1", NULL);
	execl("/proc/self/exe", "ust_actor", "count", "5", NULL);
}

static void becomes_daemon(char **argv)
{
	int fd;

	steps(0, 10, "before");
	if (daemon(0, 1))
		abort();
	for (fd = 3; fd < 1024; fd++)
		close(fd);
	/* Numbers that were the library's are somebody else's now. */
	for (fd = 0; fd < 600; fd++)
		if (open(argv[0], O_WRONLY | O_APPEND | O_CREAT, 0600) < 0)
			break;
	steps(10, number(argv, 1, 100000), "after");
}

/* Signals */
static volatile unsigned long nested_count;

static void on_alarm(int sig)
{
	(void)sig;
	spoor_trace(actor, nested, nested_count);
	nested_count++;
}

static void start_alarm(long us)
{
	struct itimerval every = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &every, NULL);
}

static void *pest(void *arg)
{
	pid_t pid = getpid();
	pid_t tid = (pid_t)(long)arg;

	for (;;) {
		syscall(SYS_tgkill, pid, tid, SIGUSR1);
		syscall(SYS_tgkill, pid, tid, SIGUSR2);
		usleep(20); /* or it would get nowhere */
	}
	return NULL;
}

static volatile unsigned long deeper_count;

static void on_usr2(int sig)
{
	(void)sig;
	spoor_trace(actor, step, 1000000000 + deeper_count, "deeper");
	deeper_count++;
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags };

	sigaction(sig, &a, NULL);
}

static void nested(char **argv)
{
	unsigned long n = number(argv, 0, 300000), i;
	pthread_t t;
	sigset_t both;

	handle(SIGUSR1, on_alarm, 0);
	handle(SIGUSR2, on_usr2, 0);
	pthread_create(&t, NULL, pest, (void *)(long)getpid());
	for (i = 0; i < n || deeper_count < 500; i++)
		spoor_trace(actor, step, i, "nested");
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	sigprocmask(SIG_BLOCK, &both, NULL);
	recorded("actor:step", 0, i);
	recorded("actor:nested", 0, nested_count);
	recorded("actor:step", 1000000000, 1000000000 + deeper_count);
	_exit(0);
}

static sigjmp_buf out;
static volatile unsigned long jumps;

static void on_jump(int sig)
{
	(void)sig;
	jumps++;
	siglongjmp(out, 1);
}

static void jumping(char **argv, int flags)
{
	static volatile unsigned long done, n;
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	n = number(argv, 0, 2000000);
	if (flags & SA_ONSTACK)
		sigaltstack(&alternate, NULL);
	handle(SIGALRM, on_jump, flags);
	start_alarm(137);
	sigsetjmp(out, 1);
	while (done < n) {
		spoor_trace(actor, nested, done);
		done = done + 1;
	}
	start_alarm(0);
	steps(0, 10, "after");
	recorded("actor:nested", 0, n);
	recorded("actor:step", 0, 10);
	printf("jumps %lu\n", jumps);
}

static void longjmps(char **argv)
{
	jumping(argv, SA_NODEFER);
}

static void longjmps_alternate(char **argv)
{
	jumping(argv, SA_NODEFER | SA_ONSTACK);
}

static const struct mode {
	const char *name;
	void (*run)(char **argv);
} modes[] = {
	{ "count", count },	  { "threads", threads },   { "crowd", crowd },
	{ "abrupt", abrupt },	  { "cancel", cancel },	    { "fork", forks },
	{ "clone", raw_clone },	  { "vfork", vforks },	    { "exec", execs },
	{ "forked-vfork", forks_and_vforks },
	{ "daemon", becomes_daemon }, { "nested", nested }, { "longjmp", longjmps },
	{ "longjmp-alternate", longjmps_alternate },
};

int main(int argc, char **argv)
{
	unsigned i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, argv[1]))
			continue;
		modes[i].run(argv + 2);
		return 0;
	}
	return 2;
}

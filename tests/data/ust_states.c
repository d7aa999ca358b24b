/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_states DIR PATH: a child records, and is executed instruction by instruction through one of the library's paths;
 * what it shares is copied to DIR/N/ after each instruction N that changed it. A SIGKILL behind any instruction leaves
 * one of these. Prints how many instructions there were. PATH:
 *
 *	next	one more event in a packet at hand
 *	first	a thread's first event
 *	packet	six events of which four fill a packet
 *	shared	an event of a thread that found no packet free: others have them all
 *	marker	a marker
 *	stack	next, called by some functions
 *	handlers	six events, each begun in a signal handler over the one before, which is half written
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(step, event, TP_PROTO(long n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(long, n, n), spoor_string(s, s)))

SPOOR_TRACEPOINT(step, within, TP_PROTO(long n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(long, n, n), spoor_text(s, s, 17)))

/* ---- the child ---- */

static sem_t recorded;

static void trap(void)
{
	__asm__ volatile("int3" ::: "memory");
}

static void record(long from, long to, const char *s)
{
	for (; from < to; from++)
		spoor_trace(step, event, from, s);
}

static void next(void)
{
	record(0, 3, "before it");
	trap();
	record(3, 4, "seventeen letters");
	trap();
}

static void *a_thread(void *arg)
{
	(void)arg;
	trap();
	record(1, 2, "seventeen letters");
	trap();
	return NULL;
}

static void first(void)
{
	pthread_t thread;

	record(0, 1, "before it");
	pthread_create(&thread, NULL, a_thread, NULL);
	pthread_join(thread, NULL);
}

static void record_long(long from, long to)
{
	char letters[1000] = "";

	for (; from < to; from++) {
		memset(letters, 'a' + (int)(from % 26), sizeof(letters) - 1);
		record(from, from + 1, letters);
	}
}

static void packet(void)
{
	record_long(0, 60);
	trap();
	record_long(60, 66);
	trap();
}

static void *holder(void *n)
{
	record((long)n, (long)n + 1, "before it");
	sem_post(&recorded);
	pause();
	return NULL;
}

static void shared(void)
{
	pthread_t thread;
	long i;

	for (i = 0; i < 14; i++) {
		pthread_create(&thread, NULL, holder, (void *)i);
		sem_wait(&recorded);
	}
	trap();
	record(14, 15, "seventeen letters");
	trap();
}

static void marker(void)
{
	trace_mark(before, "n %ld s %s", 0L, "before it");
	trap();
	trace_mark(within, "n %ld s %s", 1L, "seventeen letters");
	trap();
}

static __attribute__((noinline)) void deep(int n)
{
	if (n)
		deep(n - 1);
	else
		next();
	__asm__ volatile("" ::: "memory");
}

static void stack(void)
{
	deep(7);
}

#define HANDLERS 6
#define PAGE 4096
static char *pages;
static long level;

/* Writing it is interrupted by SIGSEGV. */
static void record_within(void)
{
	long n = level++;

	spoor_trace(step, within, n, pages + n * PAGE);
}

static void on_fault(int sig)
{
	(void)sig;
	if (level < HANDLERS)
		record_within();
	else
		mprotect(pages, (size_t)HANDLERS * PAGE, PROT_READ);
}

static void handlers(void)
{
	struct sigaction a = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	long i;

	pages = mmap(NULL, (size_t)HANDLERS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < HANDLERS; i++)
		strcpy(pages + i * PAGE, "seventeen letters");
	mprotect(pages, (size_t)HANDLERS * PAGE, PROT_NONE);
	sigaction(SIGSEGV, &a, NULL);
	record(0, 1, "before it");
	trap();
	record_within();
	trap();
}

static int child(const char *path)
{
	static const struct {
		const char *name;
		void (*go)(void);
	} paths[] = { { "next", next },     { "first", first }, { "packet", packet },    { "shared", shared },
		      { "marker", marker }, { "stack", stack }, { "handlers", handlers } };
	unsigned i;

	sem_init(&recorded, 0, 0);
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (!strcmp(paths[i].name, path))
			paths[i].go();
	return 0;
}

/* ---- who executes it ---- */

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* Continues all of its threads until one comes to a trap; returns that one. */
static pid_t until_trap(pid_t pid)
{
	pid_t tid = pid;
	int status, sig = 0;

	for (;;) {
		check(!ptrace(PTRACE_CONT, tid, 0, sig), "cont");
		tid = waitpid(-1, &status, __WALL);
		check(tid > 0 && WIFSTOPPED(status), "wait");
		sig = WSTOPSIG(status);
		if (sig == SIGTRAP && !(status >> 16))
			return tid;
		if (sig == SIGTRAP || sig == SIGSTOP) /* a thread is made, and begins */
			sig = 0;
	}
}

/* False if it was a trap. */
static int step(pid_t tid)
{
	static int sig; /* that it is to get */
	siginfo_t info;
	int status;

	check(!ptrace(PTRACE_SINGLESTEP, tid, 0, sig) && waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status),
	      "step");
	sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	check(!ptrace(PTRACE_GETSIGINFO, tid, 0, &info), "how it stopped");
	return info.si_code != SI_KERNEL;
}

struct shared_file {
	char name[300];
	size_t size;
	const char *now;
	char *last;
	unsigned long vdso, vdso_end; /* of the child */
};

static void map_arena(struct shared_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	check(fd >= 0 && !fstat(fd, &st), path);
	f->size = (size_t)st.st_size;
	f->now = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
	f->last = malloc(f->size);
	check(f->now != MAP_FAILED && f->last, path);
	close(fd);
}

static void find_arena(pid_t pid, struct shared_file *f)
{
	char path[300], line[400];
	unsigned long start, end;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	check(!!maps, path);
	while (fgets(line, sizeof(line), maps)) {
		char name[300] = "";

		sscanf(line, "%lx-%lx %*s %*s %*s %*s %299s", &start, &end, name);
		if (!strcmp(name, "[vdso]")) {
			f->vdso = start;
			f->vdso_end = end;
		} else if (!f->now && (strstr(name, ".arena") || strstr(name, "/memfd:spoor-ust"))) {
			strcpy(f->name, name);
			snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, start, end);
			map_arena(f, path);
		}
	}
	fclose(maps);
	check(!!f->now, "its arena");
}

/* With holes where nothing was written. */
static void copy_arena(const struct shared_file *f, const char *path)
{
	static const char nothing[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t at;

	check(fd >= 0 && !ftruncate(fd, (off_t)f->size), path);
	for (at = 0; at < f->size; at += sizeof(nothing))
		if (memcmp(f->last + at, nothing, sizeof(nothing)))
			check(pwrite(fd, f->last + at, sizeof(nothing), (off_t)at) == sizeof(nothing), path);
	close(fd);
}

static void copy(const struct shared_file *f, const char *dir, long n)
{
	char path[700], command[1500], *end = strstr(f->name, ".arena");

	snprintf(path, sizeof(path), "%s/%ld", dir, n);
	check(!mkdir(path, 0700), path);
	snprintf(path, sizeof(path), "%s/%ld/a.arena", dir, n);
	copy_arena(f, path);
	snprintf(path, sizeof(path), "%.*s.spill", end ? (int)(end - f->name) : 0, f->name);
	if (access(path, F_OK))
		return;
	snprintf(command, sizeof(command), "cp %s %s/%ld/a.spill", path, dir, n);
	check(!system(command), command);
}

/*
 * Copies it if that has changed it. Not within the vDSO, which writes nothing there: it begins again when the kernel's
 * clock has ticked meanwhile, and would do so for ever.
 */
static void look(pid_t tid, struct shared_file *f, const char *dir, long n)
{
	unsigned long rip = ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user, regs.rip), 0);

	if (rip >= f->vdso && rip < f->vdso_end)
		return;
	if (n && !memcmp(f->now, f->last, f->size))
		return;
	memcpy(f->last, f->now, f->size);
	copy(f, dir, n);
}

static void walk(pid_t pid, const char *dir)
{
	struct shared_file f = { 0 };
	long n = 0;
	pid_t tid;

	check(!ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL), "options");
	tid = until_trap(pid);
	find_arena(pid, &f);
	do
		look(tid, &f, dir, n++);
	while (step(tid));
	look(tid, &f, dir, n);
	printf("%ld\n", n);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc == 2)
		return child(argv[1]);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl("/proc/self/exe", argv[0], argv[2], NULL);
		_exit(127);
	}
	check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "exec");
	walk(pid, argv[1]);
	return kill(pid, SIGKILL);
}

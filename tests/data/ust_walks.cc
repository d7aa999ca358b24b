/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_walks [PLUGIN]: events in all sorts of places, and at each what backtrace() of the C library says of the same
 * place, as a line "at N: OBJECT+OFFSET ...", innermost first. Then "done".
 */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <stdexcept>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(walks, at, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif
#define AFTER __asm__ volatile("" ::: "memory") /* so that a call is no jump */

namespace {

struct place {
	uintptr_t address, bias;
	char path[PATH_MAX];
};

int find(struct dl_phdr_info *info, size_t, void *data)
{
	place *p = static_cast<place *>(data);

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || p->address - info->dlpi_addr - ph->p_vaddr >= ph->p_memsz)
			continue;
		p->bias = info->dlpi_addr;
		if (!info->dlpi_name[0] || !realpath(info->dlpi_name, p->path)) {
			ssize_t n = readlink("/proc/self/exe", p->path, sizeof(p->path) - 1);

			p->path[n > 0 ? n : 0] = 0;
		}
		return 1;
	}
	return 0;
}

pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

APART void tell(int n, void *const *frames, int count)
{
	static place p;

	pthread_mutex_lock(&one);
	printf("at %d:", n);
	for (int i = 0; i < count; i++) {
		p.address = reinterpret_cast<uintptr_t>(frames[i]);
		p.bias = 0;
		strcpy(p.path, "?");
		dl_iterate_phdr(find, &p);
		printf(" %s+%#lx", p.path, static_cast<unsigned long>(p.address - p.bias));
	}
	printf("\n");
	fflush(stdout);
	pthread_mutex_unlock(&one);
}

APART int at(int n)
{
	void *frames[700];

	spoor_trace(walks, at, n);
	tell(n, frames, backtrace(frames, 700));
	return n;
}

APART int mark(int n)
{
	void *frames[700];

	trace_mark(walks_mark, "n %d", n);
	tell(n, frames, backtrace(frames, 700));
	return n;
}

APART int recurse(int depth, int n)
{
	int r = depth ? recurse(depth - 1, n) : at(n);

	AFTER;
	return r + 1;
}

struct witness {
	int n;
	explicit witness(int n_) : n(n_) {}
	~witness() { at(n); }
};

APART void thrower(int n)
{
	witness w(n);

	throw std::runtime_error("thrown");
}

APART void exceptions(int n)
{
	try {
		thrower(n);
	} catch (const std::runtime_error &) {
		at(n + 1);
	}
	AFTER;
}

volatile int signal_number;

void handler(int)
{
	at(signal_number);
	AFTER;
}

/* A leaf: no frame of its own, and what a signal interrupts is not behind a call. */
APART int leaf(int n)
{
	__asm__ volatile("int3" ::: "memory");
	return n + 1;
}

APART void signals(int n, bool alternate)
{
	struct sigaction a = {};
	stack_t s = {};

	a.sa_handler = handler;
	a.sa_flags = alternate ? SA_ONSTACK : 0;
	sigaction(SIGTRAP, &a, nullptr);
	if (alternate) {
		s.ss_sp = malloc(65536);
		s.ss_size = 65536;
		sigaltstack(&s, nullptr);
	}
	signal_number = n;
	leaf(n);
	AFTER;
	if (alternate) {
		s.ss_flags = SS_DISABLE;
		sigaltstack(&s, nullptr);
		free(s.ss_sp);
	}
}

int compare(const void *a, const void *b)
{
	static int done;

	if (!done++)
		at(70);
	AFTER;
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

APART void through_libc()
{
	int numbers[] = { 3, 1, 2 };

	qsort(numbers, 3, sizeof(numbers[0]), compare);
	AFTER;
}

APART int aligned(size_t size, int n)
{
	alignas(64) volatile char place[64];
	char *more = static_cast<char *>(alloca(size));

	place[0] = 1;
	memset(more, 2, size);
	at(n);
	AFTER;
	return place[0] + more[0];
}

ucontext_t home, other;

void coroutine()
{
	recurse(3, 90);
	AFTER;
	swapcontext(&other, &home);
}

APART void contexts()
{
	static char stack[65536];

	getcontext(&other);
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = sizeof(stack);
	makecontext(&other, coroutine, 0);
	swapcontext(&home, &other);
	AFTER;
}

void *thread(void *arg)
{
	int n = static_cast<int>(reinterpret_cast<intptr_t>(arg));

	recurse(n % 7, n);
	signals(n + 100, n % 2);
	AFTER;
	return nullptr;
}

APART void threads()
{
	for (int i = 0; i < 5; i++) {
		pthread_t t;

		pthread_create(&t, nullptr, thread, reinterpret_cast<void *>(static_cast<intptr_t>(200 + i)));
		pthread_join(t, nullptr);
	}
}

/* Of how many objects rows have come: each is a mapping. */
int rows_of_objects()
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[PATH_MAX + 100];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:spoor-rows") != nullptr;
	if (f)
		fclose(f);
	return n;
}

APART void plugin(const char *path)
{
	void *p = dlopen(path, RTLD_NOW);
	int (*call)(int (*back)(int), int) = nullptr;
	int before = rows_of_objects();

	if (p)
		*reinterpret_cast<void **>(&call) = dlsym(p, "call");
	for (int i = 0; call && i < 2; i++) {
		call(at, 400 + i);
		for (int ms = 0; ms < 20000 && !getenv("NO_ROWS") && rows_of_objects() == before; ms++)
			usleep(1000); /* until its rows have come */
	}
	AFTER;
}

APART void child()
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		recurse(2, 500);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, nullptr, 0);
}

} // namespace

int main(int argc, char **argv)
{
	void *frames[4];

	backtrace(frames, 4); /* loads libgcc_s before the first event */
	at(1);
	mark(2);
	for (int depth = 0; depth < 30; depth += 7)
		recurse(depth, 10 + depth);
	exceptions(50);
	signals(60, false);
	signals(61, true);
	through_libc();
	for (int i = 0; i < 3; i++)
		aligned(17 << i, 80 + i);
	contexts();
	threads();
	recurse(600, 600);
	if (argc > 1)
		plugin(argv[1]);
	child();
	puts("done");
	return 0;
}

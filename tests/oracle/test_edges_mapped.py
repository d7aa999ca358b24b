# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks through code that comes, moves and goes, or is none at times: the mappings of a process as it runs."""
import os
from collections import Counter

import pytest

import edges
from edges import LATE, asked, build, functions, late, names_of

LIBRARY = r"""
void CALLED(void (*f)(void))
{
	char pad[PAD];
	memset(pad, 1, sizeof(pad));
	__asm__ volatile("" : : "r"(pad) : "memory");
	f();
	__asm__ volatile("" : : "r"(pad) : "memory");
}
"""


def test_dlclose_and_another_object_at_its_place(tmp_path):
    """Two libraries of one size, mapped by turns; whether at the same address is counted."""
    for name, pad in (("first", 400), ("second", 4000)):
        build(tmp_path, f"{name}.so", LIBRARY, "-shared", "-fPIC", f"-DCALLED=in_{name}", f"-DPAD={pad}")
    program = build(tmp_path, "turns", r"""
	int main(void)
	{
		void *at[2] = { 0 };
		int same = 0;
		for (int i = 0; i < 101 * 2; i++) {
			void *h = dlopen(i & 1 ? "./second.so" : "./first.so", RTLD_NOW);
			void (*f)(void (*)(void)) = (void *)dlsym(h, i & 1 ? "in_second" : "in_first");
			f(ask);
			at[i & 1] = (void *)((unsigned long)f & ~4095UL);
			same += at[0] == at[1];
			dlclose(h);
		}
		printf("%d\n", same);
		fflush(stdout);
		return 0;
	}""")
    out = tmp_path / "out"
    with out.open("w") as f:
        recording = edges.record(tmp_path / "turns.spoor", "-m", "all", "-S", "512", "--", program, cwd=tmp_path,
                                 stdout=f)
    recording.check()
    assert int(out.read_text()) > 150, "the second library was not mapped where the first had been"
    assert names_of(recording, {"ask", "in_first", "in_second", "main"}) == {
        ("ask", "in_first", "main"): 101, ("ask", "in_second", "main"): 101}
    for c in asked(recording):
        own = [f for f in c["stack"] if f["function"] in ("in_first", "in_second")]
        assert os.path.basename(own[0]["object"]) == own[0]["function"][3:] + ".so"


MOVED = r"""
static const char *const libraries[] = { "./first.so", "./second.so" }, *const names[] = { "in_first", "in_second" };
static char *at, *to;
static unsigned long offsets[2];
#define BEFORE (MOVES == 2 ? 4096 : 0) /* of other mappings that are moved with it */
NOINLINE void move(int k)
{
	int fd = open(libraries[k], O_RDONLY);
	if (BEFORE)
		mmap(at, BEFORE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	mmap(MOVES % 4 ? at + BEFORE : to, 8192, PROT_READ | (MOVES % 4 ? PROT_EXEC : 0), MAP_PRIVATE | MAP_FIXED, fd,
	     offsets[k] & ~4095UL);
	close(fd);
	if (MOVES == 3 && (mmap(at + 8192, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
			   syscall(462, at + 8192, 4096, 0) || /* mseal */
			   mremap(at, 12288, 12288, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED))
		abort();
	if (MOVES == 3)
		at += 12288;
	else if (MOVES == 4 && (munmap(to + 8192, 4096) || !mprotect(to, 12288, PROT_READ | PROT_EXEC)))
		abort();
	else if (MOVES % 4)
		mremap(at, BEFORE + 8192, BEFORE + 8192, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}
NOINLINE void call(int k)
{
	((void (*)(void (*)(void)))(to + BEFORE + (offsets[k] & 4095)))(ask);
	KEEP;
}
int main(void)
{
	for (int k = 0; k < 2; k++) {
		Dl_info d;
		void *f = dlsym(dlopen(libraries[k], RTLD_NOW), names[k]);
		dladdr(f, &d);
		offsets[k] = (char *)f - (char *)d.dli_fbase;
	}
	if (!MOVES)
		personality(READ_IMPLIES_EXEC);
	at = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	to = at + (3 << 20);
	for (int i = 0; i < 20; i++)
		move(i & 1), call(i & 1);
	sleep(2); /* their rows are there */
	for (int i = 0; i < 40; i++) {
		if (fork())
			continue;
		move(i & 1);
		for (int n = 0; n < 3; n++)
			usleep(1000), call(i & 1);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
"""


KERNEL = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


ONE_AT_ONCE = pytest.mark.skipif(KERNEL < (6, 17), reason="mremap(2) moves one mapping at once")


@pytest.mark.parametrize("moves", [0, 1, pytest.param(2, marks=ONE_AT_ONCE), pytest.param(3, marks=ONE_AT_ONCE), 4])
def test_code_without_mapping_it_so(tmp_path, monkeypatch, moves):
    """Moved by mremap(2) to where other code was, or is in a process that was forked of the same; or code without
    PROT_EXEC, by personality(READ_IMPLIES_EXEC). Or mremap(2) and mprotect(2) fail, but have done it when they do."""
    for name, pad in (("first", 400), ("second", 4000)):
        build(tmp_path, f"{name}.so", LIBRARY + LATE, "-shared", "-fPIC", f"-DCALLED=in_{name}", f"-DPAD={pad}")
    program = build(tmp_path, "moved", "#include <fcntl.h>\n#include <sys/personality.h>\n" + MOVED, f"-DMOVES={moves}")
    monkeypatch.chdir(tmp_path)
    recording = late(tmp_path, monkeypatch, program)
    assert names_of(recording, {"ask", "in_first", "in_second", "call", "main"}) == {
        ("ask", "in_first", "call", "main"): 70, ("ask", "in_second", "call", "main"): 70}
    assert Counter(c["way"] for c in asked(recording))["kernel"] > 100


# push rbp; mov rbp, rsp; call rdi; nop; pop rbp; ret
FRAMED = "static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x90, 0x5d, 0xc3 };\n"
HEAP = FRAMED + r"""
#include <sys/personality.h>
static unsigned char *page;
NOINLINE void call(void) { ((void (*)(void (*)(void)))page)(ask); KEEP; }
int main(void)
{
	personality(READ_IMPLIES_EXEC);
	ask();
	page = sbrk(8192);
	memcpy(page, code, sizeof(code));
	for (int i = 0; i < 40; i++)
		call(), usleep(i < 20 ? 100 : 50000);
	return 0;
}
"""


def test_code_on_the_heap(tmp_path, monkeypatch):
    """Where brk(2) alone makes it so, by personality(READ_IMPLIES_EXEC)."""
    program = build(tmp_path, "heap", HEAP + LATE, "-fno-omit-frame-pointer")
    recording = late(tmp_path, monkeypatch, program)
    assert names_of(recording, {"ask", "call", "main"}) == {("ask", "main"): 1, ("ask", "call", "main"): 40}


FLIPPED = FRAMED + r"""
static unsigned char *page;
static volatile int wanted, is;
static void *flip(void *x)
{
	for (int i = 1; i <= 40; is = i++) {
		while (wanted < i)
			;
		mprotect(page, 4096, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC);
	}
	return x;
}
NOINLINE void turns(void)
{
	for (volatile int i = 1; i <= 40; i++) {
		wanted = i;
		while (is < i)
			;
		ask();
	}
	KEEP;
}
NOINLINE void call(void) { ((void (*)(void (*)(void)))page)(turns); KEEP; }
int main(void)
{
	pthread_t t;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof(code));
	pthread_create(&t, NULL, flip, NULL);
	usleep(100000);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	sleep(1); /* the rows of all else are there */
	call();
	return 0;
}
"""


def test_code_that_is_none_at_times(tmp_path):
    """As compilers at run time have it while they write. What is found then holds for no walk when it is code again."""
    program = build(tmp_path, "flipped", FLIPPED, "-fno-omit-frame-pointer", "-pthread")
    recording = edges.record(tmp_path / "flipped.spoor", "-m", "all", "-S", "512", "--", program)
    walks = [(c["walk"], "main" in functions(c)) for c in asked(recording)]
    assert len(walks) == 40 and set(walks[1::2]) == {("complete", True)}, walks


MAPS = r"""
#include <fcntl.h>
static const char *const libraries[] = { "./first.so", "./second.so", "./third.so" },
	*const names[] = { "in_first", "in_second", "in_third" };
static char *at, *beside;
static unsigned long offsets[3];
NOINLINE void map(char *to, int k)
{
	int fd = open(libraries[k], O_RDONLY);
	mmap(to, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, offsets[k] & ~4095UL);
	close(fd);
}
NOINLINE void call(char *to, int k)
{
	((void (*)(void (*)(void)))(to + (offsets[k] & 4095)))(ask);
	KEEP;
}
static void prepare(void)
{
	for (int k = 0; k < 3; k++) {
		Dl_info d;
		void *f = dlsym(dlopen(libraries[k], RTLD_NOW), names[k]);
		dladdr(f, &d);
		offsets[k] = (char *)f - (char *)d.dli_fbase;
	}
	at = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	beside = at + (1 << 19);
	sleep(1); /* their rows are there */
}
"""
CALLERS = {"ask", "in_first", "in_second", "in_third", "call", "main"}


def mapping(tmp_path, source, *flags):
    """A recording of a program that maps code of three libraries by itself."""
    for name, pad in (("first", 400), ("second", 4000), ("third", 2000)):
        build(tmp_path, f"{name}.so", LIBRARY, "-shared", "-fPIC", f"-DCALLED=in_{name}", f"-DPAD={pad}")
    program = build(tmp_path, "maps", MAPS + source, *flags)
    # On one processor: caches are each processor's own.
    return edges.record(tmp_path / "maps.spoor", "-m", "all", "-S", "64", "--", "taskset", "-c", "0", program,
                        cwd=tmp_path)


# At one place the first, the second, or one over the other; beside it the third, before or after; and all calls come
# through either place.
WORKERS = r"""
int main(void)
{
	prepare();
	for (int i = 0; i < WORKERS; i++) {
		int k = i & VARY & 1;
		if (fork())
			continue;
		if (i & VARY & 2)
			map(beside, 2);
		if (i & VARY & 4)
			map(at, !k), call(at, !k);
		if (i & VARY & 8)
			munmap(at, 8192);
		map(at, k);
		if (!(i & VARY & 2))
			map(beside, 2);
		for (int n = 0; n < 4; n++)
			usleep(1000), call(at, k), call(beside, 2);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
"""


def test_workers_map_other_code(tmp_path):
    """Of what one has mapped nothing may be taken for another's, whatever they have in common."""
    assert names_of(mapping(tmp_path, WORKERS, "-DWORKERS=96", "-DVARY=15"), CALLERS) == {
        ("ask", "in_first", "call", "main"): 48 * 4 + 24, ("ask", "in_second", "call", "main"): 48 * 4 + 24,
        ("ask", "in_third", "call", "main"): 96 * 4}


def test_workers_map_the_same_code(tmp_path):
    """As a server's do, which load modules each for itself: what is known of one's code serves them all."""
    recording = mapping(tmp_path, WORKERS, "-DWORKERS=200", "-DVARY=0")
    assert names_of(recording, CALLERS) == {
        ("ask", "in_first", "call", "main"): 800, ("ask", "in_third", "call", "main"): 800}
    assert recording.counters["row_cache_misses"] < 1000, "200 workers, each with ten places in code at least"


PLUGINS = r"""
static void *idle(void *x) { return x; }
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, idle, NULL);
	pthread_join(t, NULL);
	prepare();
	if (FORKED && fork()) {
		wait(NULL);
		return 0;
	}
	for (int i = 0; i < 100; i++)
		map(at + (i << 13), i & 1), call(at + (i << 13), i & 1), ask();
	return 0;
}
"""


@pytest.mark.parametrize("forked", [0, 1])
def test_code_comes_again_and_again(tmp_path, forked):
    """What is known of a process stays known when it loads a plugin, if nobody else has done the same."""
    recording = mapping(tmp_path, PLUGINS, f"-DFORKED={forked}")
    assert names_of(recording, CALLERS) == {
        ("ask", "in_first", "call", "main"): 50, ("ask", "in_second", "call", "main"): 50, ("ask", "main"): 100}
    assert recording.counters["row_cache_misses"] < 1000


# The worker shares its image with nobody, and its processor with none of the others, so that its rows stay there.
AFTER_OTHERS = r"""
#include <sched.h>
#include <spawn.h>
/* In a page that nothing was called from before. */
__attribute__((section(".text.elsewhere"), aligned(8192))) NOINLINE void elsewhere(void)
{
	ask();
	KEEP;
}
static void stay_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}
static void others(void)
{
	char *argv[] = { "true", NULL };
	pid_t pid;
	for (int i = 0; i < 1100; i++)
		if (!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, argv + 1))
			waitpid(pid, NULL, 0);
}
int main(int argc, char **argv)
{
	int begin[2], go[2];
	char c = 0;
	if (argc == 1) {
		char *worker[] = { argv[0], "worker", NULL };
		if (pipe(begin) || pipe(go))
			abort();
		if (!fork()) {
			dup2(go[0], 0);
			dup2(begin[1], 1);
			execv(argv[0], worker);
		}
		stay_on(1);
		c = read(begin[0], &c, 1);
		others();
		c = write(go[1], &c, 1);
		wait(NULL);
		return 0;
	}
	stay_on(0);
	prepare();
	map(at, 0);
	call(at, 0);
	c = write(1, &c, 1);
	c = read(0, &c, 1);
	elsewhere();
	munmap(at, 8192);
	map(at, 1);
	call(at, 1);
	return 0;
}
"""


@pytest.mark.skipif(os.cpu_count() < 2, reason="rows of a CPU that runs others do not stay")
def test_other_code_after_many_processes(tmp_path):
    """What the kernel side knows of code that may go is of bounded size."""
    assert names_of(mapping(tmp_path, AFTER_OTHERS), CALLERS | {"elsewhere"}) == {
        ("ask", "in_first", "call", "main"): 1, ("ask", "elsewhere", "main"): 1,
        ("ask", "in_second", "call", "main"): 1}

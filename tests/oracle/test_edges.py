# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of the hard cases, each a program whose own functions say what the stack has to be, and known counts of prime
numbers. Every call of interest is getppid(), which nothing else makes."""
import os
import subprocess
from collections import Counter

import pytest

from recording import record, stack_of

HEAD = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("")
NOINLINE void ask(void)
{
	syscall(SYS_getppid);
	KEEP;
}
"""


def build(tmp_path, name, source, *flags, libs=()):
    (tmp_path / f"{name}.c").write_text(HEAD + source)
    subprocess.run(["gcc", "-O2", "-g1", "-o", name, f"{name}.c", *flags, *libs], cwd=tmp_path, check=True, timeout=60)
    return tmp_path / name


def functions(call):
    """Names, innermost first, without inlined ones: symbols of the program's own are what is looked for."""
    return [f["function"] for f in call["stack"] if not f.get("inlined")]


def asked(recording):
    return [c for c in recording.calls if c["event"] == "getppid"]


def names_of(recording, own):
    """How often each sequence of the program's own functions was seen in a getppid; every walk must be complete."""
    for c in asked(recording):
        assert c["walk"] == "complete", (c["walk"], functions(c))
    return Counter(tuple(n for n in functions(c) if n in own) for c in asked(recording))


def run(tmp_path, program, *args, options=("-m", "all", "-S", "512"), **bars):
    recording = record(tmp_path / f"{program.name}.spoor", *options, "--", program, *args)
    recording.check(**bars)
    return recording


CHAIN = r"""
NOINLINE void leaf(void) { ask(); KEEP; }
NOINLINE void middle(int n) { char *p = alloca(n * 16); memset(p, 1, n); leaf(); __asm__ volatile("" : : "r"(p)); }
NOINLINE void outer(int n) { middle(n); KEEP; }
int main(void)
{
	for (int i = 0; i < 211; i++)
		outer(i % 7 + 1);
	return 0;
}
"""
WAYS = {
    "pie": ["-pie", "-fpie"], "no_pie": ["-no-pie", "-fno-pie"], "static": ["-static", "-no-pie"],
    "static_pie": ["-static-pie", "-fpie"], "stripped": ["-s"],
    "no_cfi": ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer", "-g0"],
    "frame_pointer": ["-fno-omit-frame-pointer"], "no_cet_o0": ["-O0"], "o3": ["-O3", "-fomit-frame-pointer"],
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_link(tmp_path, way):
    program = build(tmp_path, way, CHAIN, *WAYS[way])
    recording = run(tmp_path, program, user=0.2)
    if way == "stripped":
        stacks = Counter(c["walk"] for c in asked(recording))
        assert stacks == {"complete": 211}
        depths = Counter(sum(f[0] == str(program) for f in stack_of(c)) for c in asked(recording))
        assert depths == {6: 211}  # ask leaf middle outer main _start
    else:
        assert names_of(recording, {"ask", "leaf", "middle", "outer", "main"}) == {
            ("ask", "leaf", "middle", "outer", "main"): 211}


def test_recursion_beyond_the_budget(tmp_path):
    program = build(tmp_path, "deep", r"""
	NOINLINE int down(int n) { int r = n ? down(n - 1) + 1 : (ask(), 0); KEEP; return r; }
	int main(void)
	{
		int s = 0;
		for (int i = 0; i < 13; i++)
			s += down(10000) + down(100) + down(400);
		return s == 1;
	}
	""", "-fno-optimize-sibling-calls")
    recording = run(tmp_path, program)
    walks = Counter((c["walk"], len(stack_of(c))) for c in asked(recording))
    print(walks)
    assert walks[("budget", 512)] == 13 and sum(walks.values()) == 39
    assert sum(n for (walk, _), n in walks.items() if walk == "complete") == 26
    for c in asked(recording):
        if c["walk"] == "budget":
            assert functions(c)[1:] == ["ask"] + ["down"] * 510


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
        recording = record(tmp_path / "turns.spoor", "-m", "all", "-S", "512", "--", program, cwd=tmp_path, stdout=f)
    recording.check()
    assert int(out.read_text()) > 150, "the second library was not mapped where the first had been"
    assert names_of(recording, {"ask", "in_first", "in_second", "main"}) == {
        ("ask", "in_first", "main"): 101, ("ask", "in_second", "main"): 101}
    for c in asked(recording):
        own = [f for f in c["stack"] if f["function"] in ("in_first", "in_second")]
        assert os.path.basename(own[0]["object"]) == own[0]["function"][3:] + ".so"


def test_signal_handlers(tmp_path):
    """A handler, on the normal and on an alternate stack, over a leaf that spins and over pause(): the interrupted pc
    is exact, and what is beneath it as well."""
    program = build(tmp_path, "signals", r"""
	static volatile int got;
	NOINLINE void handler(int s) { ask(); got++; }
	NOINLINE void spin(void) { int want = got + 1; while (got < want) ; KEEP; }
	NOINLINE void wait_there(void) { pause(); KEEP; }
	NOINLINE void caller(int i) { if (i % 2) wait_there(); else spin(); KEEP; }
	int main(void)
	{
		static char stack[65536];
		stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
		struct sigaction sa = { .sa_handler = handler };
		struct itimerspec its = { .it_value = { 0, 1000000 } };
		struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
		timer_t t;
		sigaltstack(&ss, NULL);
		timer_create(CLOCK_MONOTONIC, &ev, &t);
		for (int i = 0; i < 4 * 53; i++) {
			sa.sa_flags = i & 2 ? SA_ONSTACK : 0;
			sigaction(SIGUSR1, &sa, NULL);
			timer_settime(t, 0, &its, NULL);
			caller(i);
		}
		return 0;
	}""")
    recording = run(tmp_path, program, user=0.2)
    own = {"ask", "handler", "spin", "wait_there", "caller", "main"}
    assert names_of(recording, own) == {("ask", "handler", "spin", "caller", "main"): 106,
                                        ("ask", "handler", "wait_there", "caller", "main"): 106}
    for c in asked(recording):
        names = functions(c)
        assert names[names.index("handler") + 1] in ("__restore_rt", None), names
    pauses = [c for c in recording.calls if c["event"] == "pause"]
    assert len(pauses) == 106 and all(c["errno"] == "EINTR" or c["ret"] == -514 for c in pauses)


FAULTS = r"""
#include <ucontext.h>
__asm__(
	".text\n.p2align 4\n.globl before\n.type before, @function\nbefore:\n"
	".cfi_startproc\n.cfi_def_cfa_offset 4096\nnop\nud2\n.cfi_endproc\n.size before, .-before\n"
	".globl at_first\n.type at_first, @function\nat_first:\n"
	".cfi_startproc\nud2\nret\n.cfi_endproc\n.size at_first, .-at_first\n"
	".globl after_push\n.type after_push, @function\nafter_push:\n"
	".cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\nud2\npop %rbx\n.cfi_def_cfa_offset 8\nud2\nret\n"
	".cfi_endproc\n.size after_push, .-after_push\n"
	".globl by_register\n.type by_register, @function\nby_register:\n"
	".cfi_startproc\nlea 8(%rsp), %r10\n.cfi_def_cfa 10, 0\nsub $4000, %rsp\nand $-32, %rsp\nud2\n"
	"lea -8(%r10), %rsp\n.cfi_def_cfa 7, 8\nret\n.cfi_endproc\n.size by_register, .-by_register\n");
void at_first(void), after_push(void), by_register(void);
static void on_fault(int s, siginfo_t *si, void *p)
{
	ask();
	((ucontext_t *)p)->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void)
{
	static char stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = on_fault };
	sigaltstack(&ss, NULL);
	for (int i = 0; i < 83; i++) {
		sa.sa_flags = SA_SIGINFO | (i & 1 ? SA_ONSTACK : 0);
		sigaction(SIGILL, &sa, NULL);
		at_first();
		after_push();
		by_register();
	}
	return 0;
}
"""


def test_interrupted_pc_is_exact(tmp_path):
    """Faults at a function's first instruction (the byte before it belongs to another, with other rules), between push
    and pop, and where the CFA hangs on a register that only the signal's frame still has."""
    program = build(tmp_path, "faults", FAULTS)
    recording = run(tmp_path, program)
    nm = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    at = {line.split()[2]: int(line.split()[0], 16) for line in nm.splitlines() if len(line.split()) == 3}
    seen = Counter()
    for c in asked(recording):
        names, frames = functions(c), stack_of(c)
        assert c["walk"] == "complete" and names[1:3] == ["ask", "on_fault"] and names[5] == "main", names
        assert frames[4][0] == str(program)
        seen[frames[4][1]] += 1
    assert seen == {at["at_first"]: 83, at["after_push"] + 1: 83, at["after_push"] + 4: 83, at["by_register"] + 16: 83}


def test_interrupted_pc_is_named_where_libc_is_left_out(tmp_path):
    """Without the trampoline's frame above it, too, the function is that of the address itself."""
    program = build(tmp_path, "faults", FAULTS)
    recording = run(tmp_path, program, options=("-m", "app-all", "-S", "16"))
    seen = Counter()
    for c in asked(recording):
        assert functions(c)[:2] == ["ask", "on_fault"] and functions(c)[3] == "main", functions(c)
        assert [bool(f.get("interrupted")) for f in c["stack"]][:4] == [False, False, True, False]
        seen[functions(c)[2]] += 1
    assert seen == {"at_first": 83, "after_push": 2 * 83, "by_register": 83}


def test_threads_end_at_clone(tmp_path):
    program = build(tmp_path, "threads", r"""
	NOINLINE void *work(void *p) { for (int i = 0; i < 1009; i++) ask(); return NULL; }
	int main(void)
	{
		pthread_t t[7];
		for (int i = 0; i < 7; i++) pthread_create(&t[i], NULL, work, NULL);
		for (int i = 0; i < 7; i++) pthread_join(t[i], NULL);
		return 0;
	}""", "-pthread")
    recording = run(tmp_path, program, user=0.05, hits=0.95)
    assert names_of(recording, {"ask", "work", "main"}) == {("ask", "work"): 7 * 1009}
    per_thread = Counter(c["tid"] for c in asked(recording))
    assert sorted(per_thread.values()) == [1009] * 7
    created = [c for c in recording.calls if c["event"] == "clone3"]
    assert len(created) == 7 and all("main" in functions(c) for c in created), [functions(c) for c in created]


def test_vfork_and_exec(tmp_path):
    """The child borrows its parent's stack; after exec it is another program."""
    program = build(tmp_path, "vforks", r"""
	NOINLINE void start(char **argv)
	{
		pid_t p = vfork();
		if (!p) {
			syscall(SYS_getppid);
			execv(argv[0], argv);
			_exit(1);
		}
		waitpid(p, NULL, 0);
	}
	int main(int argc, char **argv)
	{
		char *again[] = { argv[0], "child", NULL };
		if (argc > 1) { ask(); return 0; }
		for (int i = 0; i < 31; i++) start(again);
		return 0;
	}""", "-fno-inline")
    recording = run(tmp_path, program)
    assert names_of(recording, {"ask", "start", "main"}) == {("start", "main"): 31, ("ask", "main"): 31}
    for event in ("vfork", "execve", "wait4"):
        calls = [c for c in recording.calls if c["event"] == event and "start" in functions(c)]
        assert len(calls) == 31, event


def test_plt(tmp_path):
    """A library's call through the PLT into another object, and back."""
    build(tmp_path, "libplt.so", "void back(void); void through(void) { back(); KEEP; }", "-shared", "-fPIC")
    program = build(tmp_path, "plt", r"""
	void through(void);
	NOINLINE void back(void) { ask(); KEEP; }
	int main(void) { for (int i = 0; i < 97; i++) through(); return 0; }
	""", "-rdynamic", libs=["-L.", "-lplt", "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy"])
    recording = run(tmp_path, program)
    assert names_of(recording, {"ask", "back", "through", "main"}) == {("ask", "back", "through", "main"): 97}


def test_vdso(tmp_path):
    """clock_gettime of a clock that the vDSO leaves to the kernel: its frame is the vDSO's."""
    program = build(tmp_path, "vdso", r"""
	NOINLINE void look(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); KEEP; }
	int main(void) { for (int i = 0; i < 89; i++) look(); return 0; }
	""")
    recording = run(tmp_path, program)
    calls = [c for c in recording.calls if c["event"] == "clock_gettime" and "look" in functions(c)]
    assert len(calls) == 89
    for c in calls:
        names = functions(c)
        assert c["walk"] == "complete" and c["stack"][0]["object"] == "[vdso]" and names[-4:][0] == "main", names


def test_code_made_just_in_time(tmp_path):
    """Anonymous code that keeps frame pointers, named by /tmp/perf-PID.map."""
    program = build(tmp_path, "jit", r"""
	/* push; mov; call *%rdi; pop; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	NOINLINE void from_main(void (*f)(void (*)(void))) { f(ask); KEEP; }
	int main(void)
	{
		char map[64];
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(p, code, sizeof(code));
		mprotect(p, 4096, PROT_READ | PROT_EXEC);
		snprintf(map, sizeof(map), "/tmp/perf-%d.map", getpid());
		FILE *f = fopen(map, "w");
		fprintf(f, "%lx %zx made_just_in_time\n", (long)p, sizeof(code));
		fclose(f);
		for (int i = 0; i < 103; i++) from_main((void (*)(void (*)(void)))p);
		return 0;
	}""", "-fno-omit-frame-pointer")
    recording = run(tmp_path, program)
    os.unlink(f"/tmp/perf-{recording.calls[0]['pid']}.map")
    assert names_of(recording, {"ask", "made_just_in_time", "from_main", "main"}) == {
        ("ask", "made_just_in_time", "from_main", "main"): 103}


def test_repeated_walks_are_told_apart(tmp_path):
    """The same innermost pc at the same depth, or a whole number of pages deeper, by different ways."""
    program = build(tmp_path, "alike", r"""
	NOINLINE void leaf(void) { ask(); KEEP; }
	#define USE(p) __asm__ volatile("" : : "r"(p))
	NOINLINE void left(int n) { char *p = alloca(n * 4096 + 16); p[0] = 1; leaf(); USE(p); }
	NOINLINE void right(int n) { char *p = alloca(n * 4096 + 16); p[0] = 1; leaf(); USE(p); }
	NOINLINE void up(int n) { left(n); KEEP; }
	NOINLINE void down(int n) { right(n); KEEP; }
	NOINLINE void even(void (*f)(int), int n) { f(n); KEEP; }
	NOINLINE void odd(void (*f)(int), int n) { f(n); KEEP; }
	int main(void)
	{
		for (int i = 0; i < 1009; i++)
			(i & 1 ? odd : even)(i % 3 ? up : down, i / 251);
		return 0;
	}
	""", "-fno-optimize-sibling-calls")
    recording = run(tmp_path, program, hits=0.9)
    wanted = Counter(("ask", "leaf", *(("left", "up") if i % 3 else ("right", "down")),
                      "odd" if i & 1 else "even", "main") for i in range(1009))
    assert names_of(recording, {"ask", "leaf", "left", "right", "up", "down", "odd", "even", "main"}) == wanted
    assert recording.counters["walks_remembered"] > 700


def test_forked_processes_map_different_code_at_one_place(tmp_path):
    """They have one image until then. Both objects are mapped by mmap() with the address given."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(
            "void f_%s(void (*g)(void), int n)\n{\n\tvolatile char c[%d];\n\n"
            "\tfor (int i = 0; i < n; i++) {\n\t\tc[0] = 1;\n\t\tg();\n\t}\n}\n"
            % (name, 64 if name == "one" else 1008))
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-fno-optimize-sibling-calls", "-o", f"{name}.so",
                        f"{name}.c"], cwd=tmp_path, check=True, timeout=60)
    program = build(tmp_path, "differ", r"""
	#include <link.h>
	#include <semaphore.h>
	NOINLINE void leaf(void) { ask(); KEEP; }
	static sem_t *turn;
	NOINLINE static void child(const char *path, const char *name, int me)
	{
		sem_wait(&turn[me]);
		void *h = dlopen(path, RTLD_NOW);
		void (*f)(void (*)(void), int) = h ? (void (*)(void (*)(void), int))dlsym(h, name) : NULL;
		if (!f)
			_exit(1);
		sem_post(&turn[!me]);
		sem_wait(&turn[me]);
		for (int i = 0; i < 10; i++) {
			f(leaf, 11);
			sem_post(&turn[!me]);
			sem_wait(&turn[me]);
		}
		sem_post(&turn[!me]);
		fprintf(stderr, "%p\n", (void *)((struct link_map *)h)->l_addr);
		_exit(0);
	}
	int main(int argc, char **argv)
	{
		turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		sem_init(&turn[0], 1, 1);
		sem_init(&turn[1], 1, 0);
		leaf();
		for (int i = 0; i < 2; i++)
			if (!fork())
				child(argv[1 + i], i ? "f_two" : "f_one", i);
		int bad = 0, status;
		while (wait(&status) > 0)
			bad |= status;
		return bad;
	}
	""", "-fno-optimize-sibling-calls")
    recording = run(tmp_path, program, tmp_path / "one.so", tmp_path / "two.so")
    said = (tmp_path / "differ.spoor.err").read_text().split("\n")
    assert said[0] == said[1], "the objects do not lie at the same place: nothing is shown"
    assert names_of(recording, {"ask", "leaf", "f_one", "f_two", "child", "main"}) == {
        ("ask", "leaf", "main"): 1, ("ask", "leaf", "f_one", "child", "main"): 110,
        ("ask", "leaf", "f_two", "child", "main"): 110}


@pytest.mark.parametrize("flags", ["CLONE_VM", "CLONE_VM | CLONE_VFORK"])
def test_a_process_maps_for_another_one(tmp_path, flags):
    """They share an address space and are no threads of each other: what the child maps, the parent runs."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.S").write_text(f"""
	.globl f_{name}
	.type f_{name}, @function
	.p2align 12
f_{name}:
	.cfi_startproc
	sub ${24 if name == "one" else 1016}, %rsp
	.cfi_adjust_cfa_offset {24 if name == "one" else 1016}
	call *%rdi
	add ${24 if name == "one" else 1016}, %rsp
	.cfi_adjust_cfa_offset -{24 if name == "one" else 1016}
	ret
	.cfi_endproc
	.size f_{name}, . - f_{name}
	.section .note.GNU-stack,"",@progbits
""")
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", f"{name}.so", f"{name}.S"], cwd=tmp_path, check=True,
                       timeout=60)
    program = build(tmp_path, "maps", r"""
	#include <fcntl.h>
	#include <sched.h>
	#define PLACE ((char *)0x700000000000)
	NOINLINE void leaf(void) { ask(); KEEP; }
	static char stack[65536];
	static int map(void *path)
	{
		int fd = open(path, O_RDONLY);
		return mmap(PLACE, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 4096) == MAP_FAILED;
	}
	int main(int argc, char **argv)
	{
		void (*f)(void (*)(void)) = (void (*)(void (*)(void)))PLACE;
		int bad = map(argv[1]), status;
		for (int i = 0; i < 7; i++) {
			for (int j = 0; j < 11; j++)
				f(leaf);
			int pid = clone(map, stack + sizeof(stack), (FLAGS) | SIGCHLD, argv[2 - (i & 1)]);
			bad |= waitpid(pid, &status, 0) != pid || status;
		}
		return bad;
	}""", f"-DFLAGS={flags}")
    recording = run(tmp_path, program, tmp_path / "one.so", tmp_path / "two.so")
    assert {c["walk"] for c in asked(recording)} == {"complete"}
    assert [functions(c)[1:5] for c in asked(recording)] == [
        ["ask", "leaf", f"f_{('one', 'two')[i // 11 % 2]}", "main"] for i in range(77)]


def test_huge_pages(tmp_path):
    """A path and a thread's stack in pages of 2 MiB, where the kernel gives any: tables have a level less there."""
    program = build(tmp_path, "huge", r"""
	NOINLINE void leaf(const char *path) { access(path, 0); ask(); KEEP; }
	static void *body(void *p) { for (int i = 0; i < 101; i++) leaf(p); return NULL; }
	static char *huge(size_t size)
	{
		char *p = mmap(NULL, size + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		p = (char *)(((unsigned long)p + (2 << 20) - 1) & -(2UL << 20));
		madvise(p, size, MADV_HUGEPAGE);
		memset(p, 1, size);
		return p;
	}
	int main(void)
	{
		char *path = huge(4 << 20) + (3 << 20) + 12345;
		pthread_attr_t a;
		pthread_t t;

		strcpy(path, "/nowhere/huge");
		pthread_attr_init(&a);
		pthread_attr_setstack(&a, huge(4 << 20), 4 << 20);
		if (pthread_create(&t, &a, body, path))
			return 1;
		return pthread_join(t, NULL);
	}
	""")
    recording = run(tmp_path, program)
    assert names_of(recording, {"ask", "leaf", "body", "main"}) == {("ask", "leaf", "body"): 101}
    paths = Counter(c["args"]["filename"] for c in recording.calls if c["event"] == "access")
    assert paths["/nowhere/huge"] == 101


def test_exact_counts_and_steady_state(tmp_path):
    """10,007 calls over a second and more: none lost, and from 1 s after the last new object on at least 99.9 % are
    walked in the kernel."""
    program = build(tmp_path, "steady", r"""
	NOINLINE void burst(int n) { for (int i = 0; i < n; i++) ask(); KEEP; }
	int main(void)
	{
		struct timespec t = { 0, 1600000000 % 1000000000 };
		burst(1000);
		t.tv_sec = 1;
		nanosleep(&t, NULL);
		burst(9007);
		return 0;
	}""")
    recording = run(tmp_path, program, hits=0.95)
    assert names_of(recording, {"ask", "burst", "main"}) == {("ask", "burst", "main"): 10007}
    begin = recording.calls[0]["begin"]
    late = Counter(c["way"] for c in recording.calls if c["begin"] > begin + 1_500_000_000)
    assert late["kernel"] >= 9007 and late["user"] <= 0.001 * sum(late.values()), late

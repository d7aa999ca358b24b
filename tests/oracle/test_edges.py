# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of the hard cases, each a program whose own functions say what the stack has to be, and known counts of prime
numbers."""
import re
import shutil
import subprocess
from collections import Counter

import pytest

from edges import LATE, asked, build, functions, late, names_of, run
from recording import SPOOR, record, stack_of

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


def test_neither_unwind_tables_nor_frame_pointers(tmp_path):
    """A function that uses alloca() has a frame pointer all the same. Nothing is guessed from it: no caller is invented
    or left out, and the walk says that it could not go on."""
    flags = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer", "-g0"]
    recording = record(tmp_path / "bare.spoor", "-m", "all", "-S", "64", "--", build(tmp_path, "bare", CHAIN, *flags))
    assert Counter((c["walk"], *functions(c)) for c in asked(recording)) == {("no rows", "syscall", "ask"): 211}
    said = subprocess.run([SPOOR, "report", recording.path], capture_output=True, text=True, timeout=60).stdout
    assert "\nNo rows: " in said, said


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


NOWHERE = r"""
static void handler(int n, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	ask();
	r[REG_RIP] = *(greg_t *)r[REG_RSP]; /* as if it had returned */
	r[REG_RSP] += 8;
}
NOINLINE void call(void (*f)(void)) { f(); KEEP; }
int main(int argc, char **argv)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &a, NULL);
	for (int i = 0; i < 103; i++)
		call((void (*)(void))strtoul(argv[1], NULL, 16));
	return 0;
}
"""


@pytest.mark.parametrize("where", ["0", "123456789000"])
@pytest.mark.parametrize("known", [True, False])
def test_calls_to_where_no_code_is(tmp_path, monkeypatch, where, known):
    """The commonest crash of all. Rows that are not there yet: unwound in user space."""
    program = build(tmp_path, "nowhere", NOWHERE + ("" if known else LATE), "-no-pie")
    recording = run(tmp_path, program, where) if known else late(tmp_path, monkeypatch, program, where)
    assert names_of(recording, {"ask", "handler", "call", "main"}) == {("ask", "handler", "call", "main"): 103}
    for c in asked(recording):
        after = functions(c).index("__restore_rt") + 1
        assert c["stack"][after]["object"] is None and int(c["stack"][after]["offset"], 16) == int(where, 16)
        assert functions(c)[after + 1] == "call"


def test_signal_handlers(tmp_path):
    """A handler, on the normal and on an alternate stack, over a leaf that spins and over pause(): the interrupted pc
    is exact, and what is beneath it as well."""
    program = build(tmp_path, "signals", r"""
	static volatile int there; /* where a signal is waited for: one that comes elsewhere does not count */
	NOINLINE void handler(int s) { if (there) { there = 0; ask(); } KEEP; }
	NOINLINE void spin(void) { there = 1; while (there) ; KEEP; }
	NOINLINE void wait_there(void) { there = 1; pause(); KEEP; }
	NOINLINE void caller(int i) { if (i % 2) wait_there(); else spin(); KEEP; }
	int main(void)
	{
		static char stack[65536];
		stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
		struct sigaction sa = { .sa_handler = handler };
		struct itimerspec its = { { 0, 10000000 }, { 0, 10000000 } };
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


ALTERNATE = r"""
NOINLINE void handler(int s) { ask(); if (s == SIGUSR1) raise(SIGUSR2); ask(); KEEP; }
NOINLINE void leaf(void) { raise(SIGUSR1); KEEP; }
NOINLINE void deep(int n)
{
	char b[1000];
	memset(b, n, sizeof(b));
	n ? deep(n - 1) : leaf();
	__asm__ volatile("" : : "r"(b));
}
NOINLINE void *on(void *stack)
{
	stack_t ss = { .ss_sp = stack, .ss_size = 16000 };
	sigaltstack(&ss, NULL);
	for (int i = 0; i < 5; i++)
		deep(5);
	return NULL;
}
int main(void)
{
	static char apart[3 * 16384];
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	pthread_t t;
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	on(apart + 24); /* its mapping goes on behind it */
	on(alloca(16384)); /* beneath it, too, are pages that were never touched */
	pthread_create(&t, NULL, on, mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	return pthread_join(t, NULL);
}
"""


def test_alternate_stacks_unwound_in_user_space(tmp_path, monkeypatch):
    """What is beneath handlers on an alternate stack, one over the other, is copied for user space, too."""
    recording = late(tmp_path, monkeypatch, build(tmp_path, "alternate", ALTERNATE + LATE, "-pthread"))
    beneath = ("leaf",) + 6 * ("deep",) + ("on",)
    found = names_of(recording, {"ask", "handler", "leaf", "deep", "on", "main"})
    once, twice = ("ask", "handler") + beneath, ("ask", "handler", "handler") + beneath
    assert found == {once + ("main",): 20, twice + ("main",): 20, once: 10, twice: 10}


POPPED = r"""
#include <ucontext.h>
__asm__(
	".text\n.globl popped\n.type popped, @function\npopped:\n.cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n"
	".cfi_offset 6, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register 6\npop %rbp\n.cfi_def_cfa 7, 8\nud2\nret\n"
	".cfi_endproc\n.size popped, .-popped\n");
void popped(void);
static void handler(int s, siginfo_t *info, void *context)
{
	ask();
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}
NOINLINE void framed(int n) { char *p = alloca(n * 16); memset(p, 1, n); popped(); __asm__ volatile("" : : "r"(p)); }
int main(void)
{
	static char stack[8192];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigaltstack(&ss, NULL);
	sigaction(SIGILL, &sa, NULL);
	for (int i = 0; i < 10; i++)
		framed(i + 1);
	return 0;
}
"""


def test_alternate_stack_over_a_red_zone(tmp_path, monkeypatch):
    """Between `pop rbp` and `ret`, compilers still say that rbp was saved where that lies, below the stack pointer."""
    recording = late(tmp_path, monkeypatch, build(tmp_path, "popped", POPPED + LATE))
    assert names_of(recording, {"ask", "handler", "popped", "framed", "main"}) == {
        ("ask", "handler", "popped", "framed", "main"): 10}


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


UNREADABLE = r"""
#include <ucontext.h>
__asm__(
	".text\n.globl realigns\n.type realigns, @function\nrealigns:\n.cfi_startproc\npush %rbp\n"
	".cfi_def_cfa_offset 16\nmov $8, %ebp\n.cfi_escape 0x10, 6, 2, 0x76, 0\nud2\npop %rbp\n.cfi_restore 6\n"
	".cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size realigns, .-realigns\n"); /* rbp is at *rbp */
void realigns(void);
static void handler(int s, siginfo_t *info, void *context)
{
	ask();
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}
NOINLINE void plain(void) { realigns(); KEEP; }
NOINLINE void framed(int n) { char *p = alloca(n * 16); memset(p, 1, n); realigns(); __asm__ volatile("" : : "r"(p)); }
int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	sigaction(SIGILL, &sa, NULL);
	for (int i = 0; i < 10; i++)
		plain(), framed(i + 1);
	return 0;
}
"""


@pytest.mark.parametrize("known", [True, False])
def test_frame_pointer_that_cannot_be_read(tmp_path, monkeypatch, known):
    """It ends the walks alone that need it."""
    program = build(tmp_path, "unreadable", UNREADABLE + ("" if known else LATE))
    how = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--", program) if known else late(
        tmp_path, monkeypatch, program)
    walks = Counter((c["walk"], *(n for n in functions(c) if n in ("realigns", "plain", "framed", "main")))
                    for c in asked(how))
    assert walks == {("complete", "realigns", "plain", "main"): 10,
                     ("unreadable" if known else "truncated", "realigns", "framed"): 10}


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


def test_interrupted_frame_that_is_left_out(tmp_path):
    """What stands beneath the trampoline then is who called the code that was interrupted, and was not itself."""
    program = build(tmp_path, "raises", r"""
	static void handler(int s) { ask(); KEEP; }
	NOINLINE void caller(void) { raise(SIGUSR1); KEEP; }
	int main(void)
	{
		signal(SIGUSR1, handler);
		for (int i = 0; i < 83; i++) caller();
		return 0;
	}""")
    recording = run(tmp_path, program, options=("--scope", "libc.so*=2,main=9", "-S", "16"))
    stacks = Counter()
    for c in asked(recording):
        stacks[tuple((f["function"], bool(f.get("interrupted"))) for f in c["stack"][1:6])] += 1
    assert stacks == {(("ask", False), ("handler", False), ("__restore_rt", False), ("caller", False),
                       ("main", False)): 83}


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


STEPPED = r"""
#include <ucontext.h>
__asm__(
	".text\n.type steps, @function\nsteps:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\n"
	"xorq $0x100, (%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size steps, .-steps\n");
void steps(void);
extern char __executable_start, etext;
static void handler(int s, siginfo_t *info, void *context)
{
	unsigned long rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	if (rip >= (unsigned long)&__executable_start && rip < (unsigned long)&etext)
		ask();
	KEEP;
}
NOINLINE void calls(const char *s)
{
	steps();
	for (int i = 0; i < 2; i++) {
		if (!strlen(s))
			abort();
		__asm__ volatile("" : : : "memory"); /* which may have changed */
	}
	steps();
	KEEP;
}
int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	sigaction(SIGTRAP, &sa, NULL);
	calls(*argv);
	return 0;
}
"""


@pytest.mark.parametrize("flags, instructions", [
    (["-fuse-ld=lld", "-Wl,-z,lazy"], 5), (["-static", "-no-pie", "-fno-pie"], 1)], ids=["lld", "static"])
def test_plt_that_nothing_describes(tmp_path, flags, instructions):
    """Step by step through the stubs, the first time and again."""
    if "-fuse-ld=lld" in flags and not shutil.which("ld.lld"):
        pytest.skip("there is no lld")
    program = build(tmp_path, "stepped", STEPPED, "-fno-builtin", *flags)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    start, size = (int(n, 16) for n in re.search(r" \.plt +PROGBITS +(\w+) \w+ (\w+)", sections).groups())
    recording = run(tmp_path, program)
    at = Counter()
    for c in asked(recording):
        frame = stack_of(c)[functions(c).index("__restore_rt") + 1]
        assert c["walk"] == "complete" and "main" in functions(c), functions(c)
        if frame[0] == str(program) and start <= frame[1] < start + size:
            at[frame[1]] += 1
    assert sorted(at.values()) == [1] * (instructions - 1) + [2], at


def test_lazy_binding(tmp_path):
    """Out of what the loader calls in the midst of it, and of a signal that interrupted that: the loader's trampoline
    says where its caller is by rbx, which what it called has saved."""
    names = [f"bound_{i}" for i in range(31)]
    build(tmp_path, "liblazy.so", r"""
	static inline long call(long nr, long a, long b)
	{
		long r;
		__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
		return r;
	}
	static void empty(void) { }
	static void *pick(void) { call(SYS_kill, call(SYS_getpid, 0, 0), SIGUSR1); return empty; }
	""" + "".join(f'void {name}(void) __attribute__((ifunc("pick")));\n' for name in names), "-shared", "-fPIC")
    program = build(tmp_path, "lazy", "".join(f"void {name}(void);\n" for name in names) + r"""
	NOINLINE void handler(int s) { ask(); KEEP; }
	NOINLINE void bind(void) { """ + " ".join(f"{name}();" for name in names) + r""" KEEP; }
	int main(void) { signal(SIGUSR1, handler); bind(); return 0; }
	""", libs=["-L.", "-llazy", "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy"])
    own = {"ask", "handler", "pick", "bind", "main"}
    recording = run(tmp_path, program)
    assert names_of(recording, own) == {("ask", "handler", "pick", "bind", "main"): 31}
    assert all(any(n.startswith("_dl_runtime_resolve") for n in functions(c)) for c in asked(recording))


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

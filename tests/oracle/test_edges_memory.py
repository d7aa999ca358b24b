# SPDX-License-Identifier: GPL-2.0-or-later
"""The hard cases of code and stacks that are elsewhere than a moment ago: made just in time, mapped anew, alike."""
import os
import subprocess
from collections import Counter

import pytest

from edges import asked, build, functions, names_of, run
from processes import sleeps_in, wait_for
from recording import SPOOR, record


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


MADE = {  # each calls what it is given; from_main() and main() keep frame pointers
    # push rbp; mov rbp, rsp; call rdi; pop rbp; ret
    "kept": "0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3",
    # push rbp; mov rbp, rsp; sub rsp, 16; mov [rsp], rsi; call rdi; leave; ret: an address to return to lies there
    "old_word": "0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x34, 0x24, 0xff, 0xd7, 0xc9, 0xc3",
    # push rbp; mov rbp, rsp; push rsp; push rsi; call rdi; mov rsp, [rbp-8]; pop rbp; ret: as HotSpot's interpreter
    "by_rbp": "0x55, 0x48, 0x89, 0xe5, 0x54, 0x56, 0xff, 0xd7, 0x48, 0x8b, 0x65, 0xf8, 0x5d, 0xc3",
    # sub rsp, 8; call rdi; add rsp, 8; ret
    "not_kept": "0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3",
    # sub rsp, 8; call rdi; mov rax, [rbp+8]; add rsp, 8; ret
    "not_kept_but_read": "0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x8b, 0x45, 8, 0x48, 0x83, 0xc4, 8, 0xc3",
    # push r13; mov r13, rsp; call rdi; mov rax, [r13-8]; pop r13; ret
    "not_kept_but_r13": "0x41, 0x55, 0x49, 0x89, 0xe5, 0xff, 0xd7, 0x49, 0x8b, 0x45, 0xf8, 0x41, 0x5d, 0xc3",
    # push rbp; xor ebp, ebp; call rdi; pop rbp; ret
    "zero": "0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3",
}
CALLER = r"""
static const unsigned char code[] = { %s };
typedef void made(void (*)(void), void *);
NOINLINE void from_main(made *f, void (*g)(void)) { f(g, __builtin_return_address(0)); KEEP; }
int main(int argc, char **argv)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	for (int i = 0; i < 109; i++) from_main((made *)p, ask);
	if (argc > 1) from_main((made *)p, (void (*)(void))pause);
	return 0;
}"""
WHOLE = ("complete", ["from_main", "main"])
FOUND = {"kept": WHOLE, "old_word": WHOLE, "by_rbp": WHOLE, "not_kept": ("guessed", ["main"]),
         "not_kept_but_read": ("guessed", ["main"]), "not_kept_but_r13": ("guessed", ["main"]),
         "zero": ("guessed", [])}


def own(call):
    assert call["stack"][2]["object"] is None
    return call["walk"], [n for n in functions(call) if n in ("from_main", "main")]


@pytest.mark.parametrize("kind", MADE)
def test_frame_pointers_that_are_not_kept(tmp_path, kind):
    """A caller may be missing where code made at run time keeps none: no such walk is called complete."""
    program = build(tmp_path, kind, CALLER % MADE[kind], "-fno-omit-frame-pointer")
    recording = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--", program)
    assert Counter(map(str, map(own, asked(recording)))) == {str(FOUND[kind]): 109}
    said = subprocess.run([SPOOR, "report", recording.path], capture_output=True, text=True, timeout=60).stdout
    assert ("guessed 109 (" in said and "\nGuessed: " in said) == (FOUND[kind][0] == "guessed"), said


def test_frames_that_are_larger_at_times(tmp_path):
    """By what is pushed for a callee: then an old word hides that the frame pointer is kept. It is found out later."""
    # push rbp; mov rbp, rsp; sub rsp, 16; mov [rsp], rsi; sub rsp, rdx; mov [rsp], rsi; call rdi; leave; ret
    made = ("0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x34, 0x24, 0x48, 0x29, 0xd4, 0x48, 0x89, "
            "0x34, 0x24, 0xff, 0xd7, 0xc9, 0xc3")
    source = (CALLER % made).replace("void *)", "void *, long)").replace(
        "from_main(made *f,", "from_main(made *f, long n,").replace("address(0))", "address(0), n)").replace(
        "from_main((made *)p,", "from_main((made *)p, i < 11 ? 16 : 0,", 1)
    program = build(tmp_path, "larger", source.partition("\tif (argc")[0] + "}", "-fno-omit-frame-pointer")
    recording = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--", program)
    assert Counter(map(str, map(own, asked(recording)))) == {
        str(("guessed", ["from_main", "main"])): 11, str(WHOLE): 98}


@pytest.mark.parametrize("kind", MADE)
def test_the_same_met_asleep(tmp_path, kind):
    """Walked in user space, by the stack of who sleeps."""
    program = build(tmp_path, kind, CALLER % MADE[kind], "-fno-omit-frame-pointer")
    with subprocess.Popen([program, "sleep"]) as process:
        try:
            wait_for(lambda: sleeps_in(process.pid, 34))
            recording = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "-p", process.pid, "--duration", "1")
        finally:
            process.kill()
    call, = recording.calls
    walk, names = FOUND[kind]
    assert (call["event"], call["way"], call["walk"]) == ("pause", "user", walk)
    assert [n for n in functions(call) if n in ("from_main", "main")] == names


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


def test_pages_replaced(tmp_path):
    """Translations of a process's pages are kept: of a stack whose pages become other ones, in the ways that a program
    has, what lay there before must not be read. Callers and a path lie pages above the stack pointer."""
    program = build(tmp_path, "replaced", r"""
	#include <ucontext.h>
	#define KEEP_OF(p) __asm__ volatile("" :: "r"(p) : "memory")
	enum { SIZE = 1 << 16 };
	static char *const place = (char *)0x700000000000;
	static ucontext_t back, there;
	static int turn;
	NOINLINE void deep(const char *path) { char pad[9000]; KEEP_OF(pad); access(path, 0); ask(); KEEP_OF(pad); }
	NOINLINE void left(const char *path) { deep(path); KEEP; }
	NOINLINE void right(const char *path) { deep(path); KEEP; }
	static void body(void)
	{
		char path[64];

		sprintf(path, "/nowhere/%d", turn);
		(turn * 7 % 11 & 1 ? left : right)(path);
	}
	static void run(void)
	{
		getcontext(&there);
		there.uc_stack.ss_sp = place;
		there.uc_stack.ss_size = SIZE;
		there.uc_link = &back;
		makecontext(&there, body, 0);
		swapcontext(&back, &there);
	}
	static void *pages(void *at, int fixed)
	{
		return mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
	}
	int main(void)
	{
		pages(place, MAP_FIXED);
		for (turn = 0; turn < 101; turn++) {
			int pid = 0;
			void *other;

			switch (turn & 3) {
			case 0: /* new ones */
				pages(place, MAP_FIXED);
				break;
			case 1: /* those are given back */
				madvise(place, SIZE, MADV_DONTNEED);
				break;
			case 2: /* others are moved there */
				other = pages(NULL, 0);
				memset(other, 1, SIZE);
				mremap(other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
				break;
			case 3: /* a child has them: who writes gets copies */
				pid = fork();
				if (!pid) {
					usleep(1000);
					_exit(0);
				}
			}
			run();
			if (pid && waitpid(pid, NULL, 0) != pid)
				return 1;
		}
		return 0;
	}""")
    recording = run(tmp_path, program, explained=3 * 101)  # glibc does not describe where its coroutines begin
    assert [functions(c)[1:4] for c in asked(recording)] == [
        ["ask", "deep", "left" if turn * 7 % 11 & 1 else "right"] for turn in range(101)]
    paths = [c["args"]["filename"] for c in recording.calls if c["event"] == "access"]
    assert [p for p in paths if p.startswith("/nowhere")] == [f"/nowhere/{turn}" for turn in range(101)]


def test_pages_given_back_by_another_thread(tmp_path):
    """As often as it can, of which the kernel tells no more than that it was: deep walks are hardly ever done without
    that, and all are done in the kernel, to their ends."""
    program = build(tmp_path, "flushes", r"""
	static volatile int ended;
	static void *flush(void *p)
	{
		for (p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); !ended;) {
			*(char *)p = 1;
			madvise(p, 4096, MADV_DONTNEED);
		}
		return p;
	}
	NOINLINE void deep(int n)
	{
		char pad[4096];

		__asm__ volatile("" :: "r"(pad) : "memory");
		if (n)
			deep(n - 1);
		else
			for (int i = 0; i < 20011; i++)
				ask();
		__asm__ volatile("" :: "r"(pad) : "memory");
	}
	int main(void)
	{
		pthread_t t;

		if (pthread_create(&t, NULL, flush, NULL))
			return 1;
		deep(299);
		ended = 1;
		return pthread_join(t, NULL);
	}""", "-pthread")
    recording = run(tmp_path, program, options=("-m", "all", "-S", "512", "-e", "getppid"), user=0)
    assert names_of(recording, {"ask", "deep", "main"}) == {("ask", *["deep"] * 300, "main"): 20011}


def test_path_in_secret_memory(tmp_path):
    """The kernel does not have it mapped for itself: read there, it is zero."""
    program = build(tmp_path, "secret", r"""
	int main(void)
	{
		int fd = syscall(SYS_memfd_secret, 0);
		char *path;

		if (fd < 0)
			return 77;
		ftruncate(fd, 4096);
		path = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		strcpy(path, "/nowhere/secret");
		return !access(path, 0);
	}""")
    if subprocess.run([program], timeout=60).returncode == 77:
        pytest.skip("this kernel has no memfd_secret")
    recording = run(tmp_path, program)
    assert [c["args"]["filename"] for c in recording.calls if c["event"] == "access"][-1] == "/nowhere/secret"


def test_path_at_no_address(tmp_path):
    """Page tables do not look at the bits above those that they are about: an address that has some is none."""
    program = build(tmp_path, "high", r"""
	int main(void)
	{
		const char *path = "/nowhere/high";

		access(path, 0);
		return !access((const char *)((unsigned long)path | 1UL << 60), 0);
	}""")
    recording = run(tmp_path, program)
    paths = [c for c in recording.calls if c["event"] == "access" and c["errno"] in ("ENOENT", "EFAULT")]
    assert [c["errno"] for c in paths[-2:]] == ["ENOENT", "EFAULT"]
    assert paths[-2]["args"]["filename"] == "/nowhere/high" != paths[-1]["args"]["filename"]


def test_code_in_a_memfd(tmp_path):
    """As runtimes that map their code twice have it: it was made at run time, as code in anonymous memory was. Nothing
    has that file but the process, which need not live until somebody looks at it."""
    program = build(tmp_path, "double", r"""
	/* push; mov; call *%rdi; pop; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	NOINLINE void through(void (*f)(void (*)(void))) { f(ask); KEEP; }
	int main(void)
	{
		int fd = memfd_create("doublemapped", 0);
		write(fd, code, sizeof(code));
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
		for (int i = 0; i < 107; i++) through((void (*)(void (*)(void)))p);
		return 0;
	}""", "-fno-omit-frame-pointer")
    recording = run(tmp_path, program)
    assert names_of(recording, {"ask", "through", "main"}) == {("ask", "through", "main"): 107}
    assert {c["stack"][2]["object"] for c in asked(recording)} == {None}

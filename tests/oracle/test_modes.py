# SPDX-License-Identifier: GPL-2.0-or-later
"""Modes app, app-all, lib and custom equal what the stacks of mode `all` imply, of other runs of the same deterministic
programs; and babeltrace2 reads the same events as Spoor's reader, of a recording of real programs."""
import fnmatch
import os
import subprocess
from collections import Counter

import bt2
import pytest

from edges import build
from likeness import CREATES
from recording import record, stack_of

PYTHON = """
import collections, ctypes, json, sqlite3, ssl, zlib
db = sqlite3.connect(':memory:')
db.create_function('f', 1, lambda x: len(open('/etc/passwd').read()))
def deep(n): return deep(n - 1) if n else db.execute('select f(1)').fetchall()
for i in range(11): deep(i)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def order(a, b): return open('/etc/group').read() and 0
ctypes.CDLL(None).qsort((ctypes.c_int * 5)(), 5, 4, order)
"""
MADE = r"""
/* push; mov; call *%rdi; pop; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
static void (*made)(void (*)(void));
static int deep;
NOINLINE void again(void) { if (deep--) made(again); else ask(); KEEP; }
int main(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	made = (void (*)(void (*)(void)))p;
	for (int i = 0; i < 7; i++) { deep = i; made(again); }
	return 0;
}"""
CXX = r"""
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
struct Asks { ~Asks() { ask(); } };  // by the catch that ends; where frames are unwound; at exit, of a thread, too
struct Early : Asks { Early() { ask(); } } early;
thread_local Early late;
struct Shape { virtual void draw(int n, const std::function<void()> &f) = 0; };
static Shape *shapes[2];
struct Round : Shape {
	NOINLINE void draw(int n, const std::function<void()> &f) override
	{
		Asks unwound;
		if (!n) { f(); throw Asks(); }
		shapes[n % 2]->draw(n - 1, f);
		KEEP;
	}
} round_;
struct Square : Shape {
	NOINLINE void draw(int n, const std::function<void()> &f) override
	{
		try { round_.draw(n, f); } catch (const Asks &) { ask(); throw; }
	}
} square;
NOINLINE void work(int most)
{
	(void)&late;
	for (int n = 0; n < most; n++) {
		std::once_flag once;
		try {
			shapes[n % 2]->draw(n, [&] { std::call_once(once, [&] { ask(); KEEP; }); ask(); KEEP; });
		} catch (const Asks &) { ask(); }
	}
}
int main(void)
{
	std::vector<std::thread> threads;
	shapes[0] = &round_, shapes[1] = &square;
	for (int most : { 2, 3, 5, 7 }) threads.emplace_back(work, most);
	work(4);
	for (auto &t : threads) t.join();
}"""
GOSU = "/usr/sbin/gosu"
PROGRAMS = {
    "python3": ["/usr/bin/python3", "-I", "-S", "-c", PYTHON],
    "git": ["/usr/bin/git", "--version"],
    "openssl": ["/usr/bin/openssl", "dgst", "-sha256", "/etc/passwd"],
    "perl": ["/usr/bin/perl", "-e", "sub f { my $n = shift; $n ? f($n - 1) : -e '/etc' } f($_) for 1..50; `true`"],
    "rg": ["/usr/bin/rg", "-j1", "root", "/etc/passwd", "/etc/group", "/etc/apt"],
    "gosu": [GOSU, "root", GOSU, "nobody", GOSU, "--version"],
    "made at run time": MADE,
    "C++, threads": CXX,
}
FLAGS = {"made at run time": ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"],
         "C++, threads": ["-U_GNU_SOURCE", "-pthread"]}
# Where not all calls are the same in each run, those for which the program's own code asks: beside them Go's runtime,
# whose main goroutine gosu keeps in the main thread, waits and makes room as it comes, and libc's threads wait.
ASKED = {"C++, threads": {"getppid"},
         "gosu": {"openat", "read", "fcntl", "newfstatat", "close", "epoll_create1", "epoll_ctl", "pipe2", "getuid",
                  "getgid", "setgroups", "setgid", "setuid", "execve", "write", "exit_group", "rt_sigaction"}}
THREADED = {"C++, threads"}  # others have one, or some that come as the runtime sees fit


def is_main(path, program):
    return path is not None and os.path.realpath(path) == os.path.realpath(program)


def is_named(path, pattern):
    name = os.path.basename(path) if path else "[anonymous]"
    return name == pattern or fnmatch.fnmatch(name, pattern)


def app_frames(frames, names, program):
    return [f for f in frames if (any(is_named(f[0], n) for n in names) if names else is_main(f[0], program))]


def per_object(frames, limit_of):
    taken, out = Counter(), []
    for obj, offset in frames:
        if taken[obj] < limit_of(obj):
            taken[obj] += 1
            out.append((obj, offset))
    return out


def cut(frames, budget):
    """The frames and how the walk has to end: when the budget is used up it says so, even if that was all."""
    return frames[:budget], "budget" if len(frames) >= budget else "complete"


def scope(rules, program):
    def limit(obj):
        for pattern, n in rules:
            if is_main(obj, program) if pattern == "main" else is_named(obj, pattern):
                return n
        return 0
    return limit


RULES = [("main", 3), ("libssl*", 1), ("libc.so*", 0), ("ld-*", 2), ("*", 1)]
NAMED = "libpython*,libsqlite*,libcrypto*,git,perl,rg,gosu,libstdc++*"
MODES = {  # name: (options, the stack and status that follow from `all`)
    "app": (["-m", "app"], lambda f, p: (app_frames(f, [], p)[:1], "complete")),
    "app_all": (["-m", "app-all"], lambda f, p: cut(app_frames(f, [], p), 5)),
    "app_all_3": (["-m", "app-all", "-S", "3"], lambda f, p: cut(app_frames(f, [], p), 3)),
    "app_named": (["-m", "app-all", "-S", "40", "--app", NAMED],
                  lambda f, p: cut(app_frames(f, NAMED.split(","), p), 40)),
    "app_made": (["-m", "app-all", "-S", "3", "--app", "[anonymous],libpython*"],
                 lambda f, p: cut(app_frames(f, ["[anonymous]", "libpython*"], p), 3)),
    "lib": (["-m", "lib", "-S", "64"], lambda f, p: cut(per_object(f, lambda o: 1), 64)),
    "lib_2": (["-m", "lib", "-S", "2"], lambda f, p: cut(per_object(f, lambda o: 1), 2)),
    "custom": (["-m", "custom", "-S", "64", "--scope", ",".join(f"{p}={n}" for p, n in RULES)],
               lambda f, p: cut(per_object(f, scope(RULES, p)), 64)),
    "custom_4": (["-S", "4", "--scope", ",".join(f"{p}={n}" for p, n in RULES)],
                 lambda f, p: cut(per_object(f, scope(RULES, p)), 4)),
    "custom_few": (["-S", "64", "--scope", "main=1,libsqlite*=2,libz*=0"],
                   lambda f, p: (per_object(f, scope([("main", 1), ("libsqlite*", 2)], p)), "complete")),
    "custom_none": (["--scope", "*=0"], lambda f, p: ([], "complete")),
    "custom_made": (["-S", "64", "--scope", "[anonymous]=2,*=0"],
                    lambda f, p: cut(per_object(f, scope([("[anonymous]", 2)], p)), 64)),
    "all_7": (["-m", "all", "-S", "7"], lambda f, p: cut(f, 7)),
}


def record_calm(path, options, command):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0",
           "PERL_PERTURB_KEYS": "0", "HOME": "/nonexistent"}
    return record(path, *options, "--", *command, env=env, prefix=["/usr/bin/setarch", "-R"])


def record_in_time(path, options, command, user=0.05):
    """The process lives for some 20 ms: a loader that had to wait for one of them for a processor has another try."""
    for i in range(3):
        recording = record_calm(path.with_suffix(f".{i}.spoor"), options, command)
        if recording.walks.user <= user * recording.walks.done:
            break
    recording.check(user=user, hits=0.65)
    return recording


def chosen(recording, program):
    """The main thread's calls from its first execve on; of a program with threads also theirs, in the order in which
    they were made: [(thread, call)]."""
    threads = recording.by_thread()
    calls = threads[recording.calls[0]["tid"]]
    begin = next(i for i, c in enumerate(calls) if c["event"] == "execve" and c["ret"] == 0) + 1
    all_of = [calls[begin:]]
    if program in THREADED:
        all_of += [threads[c["ret"]] for c in calls[begin:] if c["event"] in CREATES]
    return [(i, c) for i, calls in enumerate(all_of) for c in calls
            if c["walk"] is not None and (program not in ASKED or c["event"] in ASKED[program])]


def steady_stack(call):
    """But for the place in libc from which a read of /proc comes: getdelim() has two, for what was read before may end
    with a line or within one. libffi reads `status` so, where one time in some thirty it does (there is the pid)."""
    fd = call["args"].get("fd")
    chance = call["event"] == "read" and isinstance(fd, dict) and (fd.get("path") or "").startswith("/proc/")
    return [(o, None if chance and is_named(o, "libc.so*") else offset) for o, offset in stack_of(call)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_modes_follow_from_all(program, tmp_path):
    command = PROGRAMS[program]
    if isinstance(command, str):
        compiler = "g++" if command is CXX else "gcc"
        command = [str(build(tmp_path, "made", command, *FLAGS[program], compiler=compiler))]
    record_calm(tmp_path / "warm.spoor", ["-m", "app"], command)  # so that rows come from the cache
    full = record_calm(tmp_path / "all.spoor", ["-m", "all", "-S", "512"], command)
    full.check()
    want = chosen(full, program)
    for mode, (options, implied) in MODES.items():
        recording = record_in_time(tmp_path / mode, options, command)
        got = chosen(recording, program)
        assert [(t, c["event"]) for t, c in got] == [(t, c["event"]) for t, c in want], mode
        wrong, cut_short = [], 0
        for (_, a), (_, b) in zip(want, got):
            if "truncated" in (a["walk"], b["walk"]):
                cut_short += 1  # a copy for user space that was too short for a deep stack
                continue
            assert a["walk"] == "complete", a
            frames, status = implied(steady_stack(a), command[0])
            if steady_stack(b) != frames or b["walk"] != status:
                wrong.append((b["event"], b["way"], b["walk"], stack_of(b), status, frames, stack_of(a)))
        print(f"{program}, {mode}: {len(want)} calls, {len(wrong)} differ, {cut_short} cut short")
        assert not wrong, wrong[0]
        assert cut_short <= 0.02 * len(want) + 1


DEEP = "NOINLINE void deep(int n) { if (n) deep(n - 1); else ask(); KEEP; } int main(void) { deep(100); return 0; }"


@pytest.mark.parametrize("options, most", [
    (["-m", "app"], 4), (["--scope", "main=3,*=0"], 6), (["--scope", "main=1,libnone*=5"], 4), (["--scope", "*=0"], 0)])
def test_walks_end_when_nothing_more_can_be_collected(options, most, tmp_path):
    """Known by the frames that the kernel has stepped over. Another run has put the rows into the cache before."""
    program = str(build(tmp_path, "deep", DEEP, "-fno-optimize-sibling-calls"))
    whole = record_calm(tmp_path / "all.spoor", ["-m", "all", "-S", "512", "-e", "getppid"], [program])
    assert whole.calls and all(len(c["stack"]) > 100 for c in whole.calls)
    assert whole.counters["frames"] > 100 * len(whole.calls)
    recording = record_calm(tmp_path / "t.spoor", [*options, "-e", "getppid"], [program])
    assert [c["walk"] for c in recording.calls] == ["complete"] * len(whole.calls)
    assert {c["way"] for c in recording.calls} == {"kernel"}
    assert recording.counters["frames"] <= most * len(recording.calls)


# ---- babeltrace2 ----

def integer(value):
    return int(value) if isinstance(value, int) else int(value, 16)


def test_babeltrace_reads_the_same(tmp_path):
    recording = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--", "/bin/sh", "-c",
                       "ls -l /etc >/dev/null; for i in 1 2 3; do cat /etc/passwd; done | wc; cat /nonexistent; true")
    ours = [(c["end"], c["event"], c["pid"], c["tid"], c["dur"], integer(c["ret"]) % 2**64)
            for c in recording.calls if not c.get("unfinished")]
    theirs = []
    for message in bt2.TraceCollectionMessageIterator(str(tmp_path / "t.spoor")):
        if type(message) is bt2._EventMessageConst and "ret" in (message.event.payload_field or {}):
            event = message.event
            tid = (event.common_context_field or event.specific_context_field)["tid"]
            theirs.append((message.default_clock_snapshot.value, event.name.removeprefix("syscall:"),
                           int(event.payload_field["pid"]), int(tid), int(event.payload_field["dur"]),
                           int(event.payload_field["ret"]) % 2**64))
    assert len(ours) > 300
    assert sorted(ours) == sorted(theirs)
    out = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0 and not out.stderr, out.stderr[:500]

# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways of building a program with tracepoints and of giving it the library."""
import os
import re
import shutil
import subprocess
import time

import arenas
import pytest
import tracing
from daemons import daemon, end_keeper, in_a_row, open_place  # noqa: F401
from processes import NOBODY, ready

WAYS = ["-O0", "-O3 -funroll-loops", "-fPIC -pie", "-fno-pic -no-pie", "-flto", "-flto -O0", "-fuse-ld=gold",
        "-ffunction-sections -Wl,--gc-sections", "-fno-plt -Wl,-z,now", "-fsanitize=address,undefined",
        "-fstack-protector-all -D_FORTIFY_SOURCE=2",
        # Linkers that drop what nobody refers to, and fold what is equal.
        *[f"-fuse-ld={ld} -ffunction-sections -fdata-sections -Wl,--gc-sections,--icf=all" for ld in ("lld", "gold")],
        "-fuse-ld=lld -flto", "-fuse-ld=lld -flto=thin -ffunction-sections -Wl,--gc-sections"]


def flags(build, *more, package="spoor-ust"):
    env = os.environ | {"PKG_CONFIG_PATH": str(build / "meson-uninstalled")}
    run = subprocess.run(["pkg-config", *more, package], env=env, capture_output=True, text=True, check=True)
    return run.stdout.split()


def check(out, n=101):
    trace = arenas.arena(out)
    assert [e.values for e in trace.events] == [{"n": i, "what": "count"} for i in range(n)]
    assert trace.state == arenas.ENDED


# What a compiler makes for link-time optimization is for a linker that knows it.
@pytest.mark.parametrize("compiler, way", [(c, w) for c in ("gcc", "clang") for w in WAYS
                                           if "lto" not in w or (c == "clang") == ("lld" in w)])
def test_flags(build, tmp_path, compiler, way):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *way.split(), compiler=compiler)
    preload = "sanitize" not in way  # whose runtime wants to be first
    if not preload:
        program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *way.split(), *flags(build, "--libs"),
                                        compiler=compiler)
    run, _ = tracing.traced(build, tmp_path / "out", program, "count", 101, preload=preload)
    assert run.returncode == 0, run.stderr
    check(tmp_path / "out")


@pytest.mark.parametrize("after", ["strip", "strip --strip-all -R .comment", "objcopy --strip-unneeded",
                                   "objcopy --strip-debug --add-gnu-debuglink"])
def test_stripped(build, spoor, tmp_path, after):
    """Sites are found by what is loaded, not by sections; a file of debug information alone has none, and says so."""
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    debug = tmp_path / "actor.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    before = spoor("ust", "list", program).stdout
    command = after.replace("debuglink", f"debuglink={debug}").split()
    subprocess.run([*command, program], check=True)
    assert spoor("ust", "list", program).stdout == before and before.count("actor:step") > 5
    tracing.traced(build, tmp_path / "out", program, "count", 101)
    check(tmp_path / "out")
    run = spoor("ust", "list", debug)
    assert run.returncode == 1 and "debug information alone" in run.stderr


def linked(build, way):
    """What gives a program the library in its own file."""
    if way == "linked":
        return flags(build, "--cflags", "--libs")
    if way == "static":
        return ["-static", *flags(build, "--static", "--libs")]
    return ["-static-pie", "-fPIE", *flags(build, "--static", "--define-variable=rpath=", "--libs")]


@pytest.mark.parametrize("way", ["linked", "static", "static-pie"])
def test_linked(build, tmp_path, way):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *linked(build, way))
    run, _ = tracing.traced(build, tmp_path / "out", program, "count", 101, preload=False)
    assert run.returncode == 0, run.stderr
    check(tmp_path / "out")


NAMESAKES = """
#include <spoor/tracepoint.h>
#include <ust/marker.h>
#include <core/lock.h>
#include <base/time.h>
int main(void) { trace_mark(mine_event, "n %d", OWN_LOCK + OWN_TIME); return 0; }
"""


@pytest.mark.parametrize("package", ["spoor-ust", "spoor-lttng-ust"])
def test_from_the_build_tree_only_what_is_for_programs(build, tmp_path, package):
    """A program's headers may be called as those are that the library is made of."""
    for name, text in ("core/lock.h", "#define OWN_LOCK 1\n"), ("base/time.h", "#define OWN_TIME 2\n"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "mine.c").write_text(NAMESAKES)
    words = flags(build, "--cflags", "--libs", package=package)
    subprocess.run(["gcc", "-o", "mine", "mine.c", *words, "-I."], cwd=tmp_path, check=True, timeout=60)
    _, (trace,) = tracing.traced(build, tmp_path / "out", tmp_path / "mine", preload=False)
    assert [e.values for e in trace.events] == [{"n": 3}]


OTHERS_SIGURG = """
import signal, time
signal.signal(signal.SIGURG, lambda *x: print("hit"))
print("ready", flush=True)
time.sleep(60)
"""


def build_ticker(build, tmp_path, way):
    archive = ["-Wl,--whole-archive", build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive", "-lurcu-bp"]
    if way == "archive":
        return tracing.build_program(tmp_path / "actor", "ust_ticker.c", *archive)
    if way != "archive in an object":
        return tracing.build_program(tmp_path / "actor", "ust_ticker.c", *linked(build, way))
    tracing.build_program(tmp_path / "libactor.so", "ust_ticker.c", "-shared", "-fPIC", "-Dmain=act", *archive)
    (tmp_path / "main.c").write_text("int act(int, char **);\nint main(int n, char **v) { return act(n, v); }\n")
    return tracing.build_program(tmp_path / "actor", tmp_path / "main.c", f"-L{tmp_path}", "-lactor",
                                 f"-Wl,-rpath,{tmp_path}")


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("way", ["linked", "static", "static-pie", "archive", "archive in an object"])
def test_attached_while_it_runs(build, daemon, tmp_path, way, stripped):
    """A program that no session wanted when it began has no buffers: that it has the library in it is found."""
    program = build_ticker(build, tmp_path, way)
    if stripped:
        subprocess.run(["strip", program], check=True)
    p = daemon.program(program, 1, 0, 500, preload=False)
    other = daemon.program("python3", "-c", OTHERS_SIGURG, preload=False)
    assert daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", p.pid).stdout == "1 program, 1 site\n"
    daemon.ust("start", "-s", "all", "-o", "all.spoor", "-e", "zoo:rare")
    time.sleep(0.2)
    other.kill()
    assert other.communicate()[0] == b""  # who handles SIGURG for himself is not sent one
    assert ", 0 lost" in daemon.ust("end").stdout and ", 0 lost" in daemon.ust("end", "-s", "all").stdout
    assert in_a_row(daemon.ticks()[p.pid, 0])
    assert {e["event"] for e in daemon.events("all.spoor")} == {"zoo:rare"}


def test_attached_after_its_file_was_removed(build, open_place):
    """As an update does, by a user who has no rights but his own."""
    program = build_ticker(build, open_place, "static")
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(open_place)}
    p = ready(subprocess.Popen([*NOBODY, program, "1", "0", "500"], env=env, stdout=subprocess.PIPE))
    program.unlink()
    shutil.copy(build / "spoor", open_place)
    spoor, how = open_place / "spoor", {"cwd": open_place, "env": env, "text": True}
    d = subprocess.Popen([*NOBODY, spoor, "daemon"], stderr=subprocess.PIPE, **how)
    try:
        assert "ready" in d.stderr.readline()
        for words, said in ("start -o t.spoor -e zoo:tick", "1 program, 1 site"), (f"list {p.pid}", "zoo:tick"):
            run = subprocess.run([*NOBODY, spoor, "ust", *words.split()], capture_output=True, timeout=20, **how)
            assert said in run.stdout, run
    finally:
        for process in p, d:
            process.kill()
            process.wait()
        end_keeper(f"{open_place}/spoor-ust.sock.keeper")


@pytest.mark.parametrize("way", ["preloaded", "linked", "static", "static-pie"])
def test_from_the_first_constructor_to_the_last_destructor(build, tmp_path, way):
    more = linked(build, way) if way != "preloaded" else ["-no-pie", "-fno-pie"]
    program = tracing.build_program(tmp_path / "order", "ust_order.c", *more)
    _, (trace,) = tracing.traced(build, tmp_path / "out", program, preload=way == "preloaded")
    assert [e.values["n"] for e in trace.events] == list(range(7)) and not trace.lost()


def test_preloaded_and_linked_is_one(build, tmp_path):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *flags(build, "--libs"))
    tracing.traced(build, tmp_path / "out", program, "count", 101)
    check(tmp_path / "out")


def test_only_what_is_ours_is_exported(build):
    """By the library and by the archive: a program's own names never clash with them. What ends programs without exit()
    the library alone has, by libc's versions, which no linker takes."""
    ends = {"_exit", "_Exit", "daemon", "execl", "execlp", "execle", "execv", "execve", "execvp", "execvpe", "fexecve",
            "execveat"}

    def names(*words):
        run = subprocess.run(["nm", "--defined-only", *words], capture_output=True, text=True, check=True)
        lines = [line.split() for line in run.stdout.splitlines()]
        return {line[2] for line in lines if len(line) == 3 and line[1] != "A"}

    shared = names("-D", tracing.agent(build))
    own = {n.split("@@SPOOR_")[0] for n in shared if "@@SPOOR_" in n}
    assert own and all(n.startswith("spoor_") for n in own), shared
    assert {re.sub(r"(?<!@)@GLIBC_[0-9.]+$", "", n) for n in shared if "@@" not in n} == ends
    assert names("--extern-only", build / "src/agent/libspoor-ust.a") == own


SCOPES = ["gcc", "gcc -O0", "gcc -flto", "clang", "clang -O0", "clang -Os -fno-inline", "clang -fuse-ld=lld -flto",
          "g++", "g++ -O0", "g++ -flto", "clang++ -std=c++11", "clang++ -O0", "clang++ -fuse-ld=lld -flto",
          "clang -O0 -DSPOOR_FLAG_SITES", "clang -DSPOOR_FLAG_SITES",
          *[f"{c} -Wno-unused-command-line-argument {o}" for c in ("clang-19", "clang++-19") if shutil.which(c)
            for o in ("-O0", "-O2")]]


@pytest.mark.parametrize("compiler", SCOPES)
def test_sites_between_scopes_that_nothing_jumps_into(build, spoor, tmp_path, compiler):
    """clang before 17 takes each asm goto of a function for one to all labels of the others."""
    program = tracing.build_program(tmp_path / "scopes", "ust_scopes.c", "-Wshadow", "-Wpedantic", compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    passed = [int(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0 and len(set(passed)) > 9
    found = [(e.name.split(":")[0], e.values["n"]) for e in trace.events]
    assert found == [(kind, n) for n in passed for kind in ("scopes", "marker", "log", "scopes")]
    assert all(e.name.endswith(f"ust_scopes.c:{e.values['n']}") for e in trace.events if e.name.startswith("log:"))
    listed = re.findall(r"^(\S+) .*ust_scopes\.c:(\d+) ", spoor("ust", "list", program).stdout, re.M)
    assert {int(n) for name, n in listed if name == "marker:scoped"} == set(passed)
    assert {int(n) for name, n in listed if name == "scopes:point"} > set(passed), "and the function's"


INLINE = """
#include <spoor/marker.h>
inline int squared(int n) { trace_mark(inlined, "n %d", n); return n * n; }
template <class T> int made(T n) { spoor_log("n %d", (int)n); return squared((int)n); }
int in_library(int n);
"""


@pytest.mark.parametrize("compiler", ["g++", "g++ -O0", "clang++", "clang++ -O0"])
def test_markers_in_inline_functions_of_libraries(build, tmp_path, compiler):
    """Each object has its own, whichever of the equal functions is called."""
    (tmp_path / "inline.h").write_text(INLINE)
    (tmp_path / "lib.cc").write_text('#include "inline.h"\n'
                                     'int in_library(int n) { return made(n) + made((short)n); }\n')
    (tmp_path / "main.cc").write_text('#include "inline.h"\nint main() { return in_library(1) + made(3) - 11; }\n')
    library = tracing.build_program(tmp_path / "lib.so", tmp_path / "lib.cc", "-fPIC", "-shared", compiler=compiler)
    program = tracing.build_program(tmp_path / "main", tmp_path / "main.cc", library, compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    found = [(e.name.split(":")[0], e.values["n"]) for e in trace.events]
    assert run.returncode == 0 and found == [(kind, n) for n in (1, 1, 3) for kind in ("log", "marker")]


MODERN = """
#include <concepts>
#include <coroutine>
#include <type_traits>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
namespace app {
enum class Color : unsigned char { red, green };
SPOOR_TRACEPOINT(app, at, TP_PROTO(int n, Color c), TP_ARGS(n, c), TP_FIELDS(spoor_int(int, n, n),
    spoor_enum(Color, c, c, spoor_label("red", Color::red), spoor_label("green", Color::green))))
constexpr int constant(int n)
{
    if (!std::is_constant_evaluated()) {
        spoor_trace(app, at, n, Color::green);
        trace_mark(constant, "n %d", n);
    }
    return n;
}
static_assert(constant(1) == 1);
template <std::integral T> T of_concept(T n) { spoor_trace(app, at, static_cast<int>(n), Color::red); return n; }
struct task {
    struct promise_type {
        task get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};
task coroutine(int n) { spoor_log("n %d", n); co_await std::suspend_never{}; spoor_trace(app, at, n, Color::red); }
inline auto variable = [](auto n) { spoor_trace(app, at, n, Color::red); };
struct member { int n = [] { spoor_trace(app, at, 6, Color::red); return 6; }(); };
}
int main()
{
    app::constant(2); app::of_concept(3L); app::coroutine(4); app::variable(5); app::member m;
    return m.n - 6;
}
"""


@pytest.mark.parametrize("compiler", ["g++ -std=c++20", "g++ -std=c++20 -fno-exceptions -fno-rtti",
                                      "clang++ -std=c++20"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_modern_cxx(build, tmp_path, compiler, level):
    (tmp_path / "modern.cc").write_text(MODERN)
    program = tracing.build_program(tmp_path / "modern", tmp_path / "modern.cc", "-pedantic", level, compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.returncode == 0 and [e.values["n"] for e in trace.events] == [2, 2, 3, 4, 4, 5, 6]
    assert [e.values["c"] for e in trace.events if e.name == "app:at"] == [1, 0, 0, 0, 0]


HOOKS = """
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define HOOK __attribute__((no_instrument_function)) void
HOOK __cyg_profile_func_enter(void *function, void *site);
HOOK __cyg_profile_func_exit(void *function, void *site);
#ifdef __cplusplus
}
#endif
SPOOR_TRACEPOINT(hook, at, TP_PROTO(void *f, const char *s), TP_ARGS(f, s),
		 TP_FIELDS(spoor_pointer(f, f), spoor_string(s, s)))
DECLARE_TRACE(hook_left, TP_PROTO(void *f), TP_ARGS(f));
DEFINE_TRACE(hook_left);
void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	spoor_trace(hook, at, function, "enter");
	trace_mark(hook_entered, "f %p", function);
}
void __cyg_profile_func_exit(void *function, void *site)
{
	(void)site;
	trace_hook_at(function, "exit");
	trace_hook_left(function);
}
int main(void)
{
	return 0;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_events_in_hooks_of_functions(build, tmp_path, compiler, level):
    """Nothing that the headers bring calls the hooks again."""
    hooks = "-finstrument-functions" + ("-after-inlining" if "clang" in compiler else "")
    (tmp_path / "hooks.c").write_text(HOOKS)
    program = tracing.build_program(tmp_path / "hooks", tmp_path / "hooks.c", hooks, level, compiler=compiler)
    assert subprocess.run([program], timeout=60).returncode == 0
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    names = ["hook:at", "marker:hook_entered", "hook:at", "trace:hook_left"]
    assert run.returncode == 0 and [e.name for e in trace.events] == names
    assert [e.values["s"] for e in trace.events if e.name == "hook:at"] == ["enter", "exit"]


@pytest.mark.parametrize("by", ["#pragma pack(push, 1)", "-fpack-struct=1"])
@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_packed_programs(build, spoor, tmp_path, compiler, by):
    """What is in force where the headers are included, as old ones leave it, is the program's alone."""
    flags = [by] if by.startswith("-") else []
    before, after = ("", "") if flags else (by + "\n", "#pragma pack(pop)\n")
    (tmp_path / "packed.c").write_text(before + OFF + """
struct own { char a; int n; };
int main(void)
{
	return (int)sizeof(struct own) - 5 + off(3, "s") - 3;
}
""" + after)
    program = tracing.build_program(tmp_path / "packed", tmp_path / "packed.c", *flags, compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.returncode == 0 and [e.values for e in trace.events][:2] == [{"n": 3, "s": "s"}] * 2
    listed = spoor("ust", "list", program).stdout.splitlines()
    assert len(trace.events) == 3 and len({line.split()[0] for line in listed}) == 3


OFF = """
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(off, e, TP_PROTO(int n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(int, n, n), spoor_string(s, s)))
int off(int n, const char *s);
int off(int n, const char *s)
{
	spoor_trace(off, e, n, s);
	trace_mark(off_marker, "n %d s %s", n, s);
	spoor_log("text %d", n);
	return n;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++", "gcc -fPIC", "clang++ -fPIC"])
def test_off_a_site_is_one_instruction(tmp_path, compiler):
    """That loads nothing and does not branch."""
    source = tmp_path / "off.c"
    source.write_text(OFF)
    command, *more = compiler.split()
    language = "c++" if "++" in command else "c"
    subprocess.run([command, "-O2", *more, f"-I{tracing.INCLUDE}", "-x", language, "-c", "-o", tmp_path / "off.o",
                    source], check=True, timeout=60)
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", tmp_path / "off.o"], capture_output=True, text=True,
                          check=True).stdout
    lines = code[code.index("<_Z3offiPKc>:" if language == "c++" else "<off>:"):].split("\n\n")[0].splitlines()[1:]
    body = [line.split("\t", 1)[1].strip() for line in lines]
    straight = body[:next(i for i, line in enumerate(body) if line.startswith("ret"))]
    assert sum(line.startswith("test ") for line in straight) == 3, straight
    does = [line for line in straight if not line.startswith("nop")]
    assert not [line for line in does if line.startswith(("j", "call")) or "(" in line], straight

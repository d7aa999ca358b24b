# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that may not write their code (MemoryDenyWriteExecute and its like): patched nevertheless through
/proc/self/mem, or by a flag, or said to be impossible, by everybody who is asked."""
import json
import os
import subprocess
import time

import arenas
import pytest
import tracing
from denials import all_of, by_killing, by_prctl, by_seccomp, without_proc

FLAG = ["-DSPOOR_FLAG_SITES"]
# what is denied -> how sites are switched then, and those that ask a flag
DENIED = {
    "nothing": (None, "patched", "patched"),
    "no proc": (without_proc, "patched", "patched"),
    "prctl": (by_prctl, "mem", "mem"),
    "seccomp": (by_seccomp, "mem", "mem"),
    "seccomp, which kills": (by_killing, "mem", "mem"),
    "prctl, no proc": (all_of(without_proc, by_prctl), "refused", "flag"),
    "seccomp, no proc": (all_of(without_proc, by_seccomp), "refused", "flag"),
}
WHY = "build it with -DSPOOR_FLAG_SITES"


def listed(spoor, pid):
    run = spoor("ust", "list", "--format", "json", pid)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture
def begun(ends_with_the_test):
    """begun(program, env, deny): it has said that it recorded, and waits."""
    def go(program, env, deny=None):
        p = ends_with_the_test(subprocess.Popen([program, "count", "101", "wait"], env=env, preexec_fn=deny,
                                                stdout=subprocess.PIPE))
        assert p.stdout.readline().startswith(b"recorded")
        return p
    return go


@pytest.mark.parametrize("flags", [[], FLAG], ids=["plain", "flag"])
@pytest.mark.parametrize("denied", DENIED)
@pytest.mark.parametrize("compiler", ["gcc", "clang++"])
def test_is_traced_or_says_why(spoor, build, tmp_path, denied, flags, compiler):
    program = tracing.build_program(tmp_path / "types", "ust_types.c", *flags, compiler=compiler)
    deny, plain, by_flag = DENIED[denied]
    done = subprocess.run([program], env=tracing.environment(build, tmp_path / "out"), capture_output=True, timeout=30,
                          preexec_fn=deny)
    assert done.returncode == 0
    refused = (by_flag if flags else plain) == "refused"
    assert len(arenas.arena(tmp_path / "out").events) == (0 if refused else 33)
    run = spoor("ust", "recover", tmp_path / "out", "-o", "t.spoor")
    assert run.returncode == 0 and (WHY in run.stderr) == refused, run.stderr


@pytest.mark.parametrize("flags", [[], FLAG], ids=["plain", "flag"])
@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("denied", DENIED)
def test_list_tells_what_is_in_force(spoor, build, tmp_path, begun, denied, recording, flags):
    """Of the process, with a recorder or without; the file alone says how it was built."""
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *flags)
    deny, plain, by_flag = DENIED[denied]
    p = begun(program, tracing.environment(build, tmp_path / "out" if recording else None), deny)
    sites = listed(spoor, p.pid)
    assert len(sites) > 10 and {s["how"] for s in sites} == {by_flag if flags else plain}
    on = recording and (by_flag if flags else plain) != "refused"
    assert {s["state"] for s in sites} == {"on" if on else "off"}
    assert {s["how"] for s in listed(spoor, program)} == {"flag" if flags else "patched"}
    p.kill()


def test_list_without_the_library(spoor, build, tmp_path, begun):
    for flags in [], FLAG:
        program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *flags)
        p = begun(program, tracing.environment(build, None, preload=False))
        assert {(s["how"], s["state"]) for s in listed(spoor, p.pid)} == {("absent", "off")}


def test_list_of_a_static_program(spoor, build, tmp_path, begun):
    archive = ["-static", "-Wl,--whole-archive", build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive",
               "-lurcu-bp"]
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c", *archive)
    p = begun(program, tracing.environment(build, None, preload=False), by_prctl)
    assert {s["how"] for s in listed(spoor, p.pid)} == {"mem"}


def test_a_policy_that_comes_later(spoor, build, tmp_path):
    """Both objects stay switchable; the second one finds the policy there already."""
    (tmp_path / "late.c").write_text("""
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <dlfcn.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(late, step, TP_PROTO(long n), TP_ARGS(n), TP_FIELDS(spoor_int(long, n, n)))
int main(int argc, char **argv)
{
	spoor_trace(late, step, 1);
	if (argc < 2 || prctl(65, 1, 0, 0, 0) || !dlopen(argv[1], RTLD_NOW))
		return 1;
	spoor_trace(late, step, 2);
	puts("ready");
	fflush(stdout);
	pause();
}
""")
    subprocess.run(["gcc", f"-I{tracing.INCLUDE}", "-o", tmp_path / "late", tmp_path / "late.c"], check=True)
    plugin = tracing.build_program(tmp_path / "plugin.so", "ust_plugin.c", "-shared", "-fPIC")
    p = subprocess.Popen([tmp_path / "late", plugin], env=tracing.environment(build, tmp_path / "out"),
                         stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"ready\n"
        sites = listed(spoor, p.pid)
        assert len(sites) > 3 and {(s["how"], s["state"]) for s in sites} == {("mem", "on")}
        assert [e.values["n"] for e in arenas.arena(tmp_path / "out").events if e.name == "late:step"] == [1, 2]
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("deny, switches, threads", [(by_prctl, 100000, 1), (by_prctl, 5000, 3), (by_seccomp, 5000, 3),
                                                     (without_proc, 5000, 3)])
def test_patched_under_fire(build, tmp_path, deny, switches, threads):
    # ust_fire.c calls what is no name outside of the library.
    archive = ["-Wl,--whole-archive", build / "src/agent/libspoor-ust-parts.a", "-Wl,--no-whole-archive", "-lurcu-bp"]
    program = tracing.build_program(tmp_path / "fire", "ust_fire.c", *archive)
    env = tracing.environment(build, tmp_path / "out", preload=False, SPOOR_UST_MODE="overwrite")
    done = subprocess.run([program, str(switches), str(threads), "200"], env=env, capture_output=True, text=True,
                          timeout=90, preexec_fn=deny)
    checked = (switches // 200 * 2 + 1) * threads
    assert done.returncode == 0 and done.stdout.startswith(f"checked {checked} of "), done.stdout


@pytest.fixture
def daemon(build, tmp_path):
    p = subprocess.Popen([build / "spoor", "daemon", "--socket", tmp_path / "ust.sock"], cwd=tmp_path,
                         stderr=subprocess.PIPE, text=True)
    while "ready" not in (line := p.stderr.readline()):
        assert line
    def ust(*words):
        return subprocess.run([build / "spoor", "ust", words[0], "--socket", tmp_path / "ust.sock",
                               *map(str, words[1:])], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    yield ust
    ust("end")  # or what its programs left would be kept for another daemon
    p.terminate()
    p.wait(10)


@pytest.mark.parametrize("before", [False, True])
def test_who_enables_is_told(build, tmp_path, daemon, begun, before):
    """Whether the program was there first or the session; and nobody is told that all is well."""
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    env = tracing.environment(build, None) | {"SPOOR_UST_SOCKET": str(tmp_path / "ust.sock")}
    refused = DENIED["seccomp, no proc"][0]
    if before:
        p = begun(program, env, refused)
        run = daemon("start", "-o", "t.spoor", p.pid)
        assert WHY in run.stdout and run.returncode == 1, run
    else:
        assert daemon("start", "-o", "t.spoor").returncode == 0
        p = begun(program, env, refused)
    run = daemon("enable", "actor:*", p.pid)
    assert run.returncode == 1 and "-DSPOOR_FLAG_SITES" in run.stdout, run
    deadline = time.monotonic() + 5
    while f"{p.pid} " not in (said := daemon("status").stdout):
        assert time.monotonic() < deadline
    assert WHY in said, said


PROBES = r"""
#include <stdio.h>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(denied, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static int ran;
static void probe(void *data, int n) { (void)data; ran += n; }
static void mark(void *data, void *call_data, const char *format, va_list *args)
{
	(void)data; (void)call_data; (void)format; (void)args;
	ran++;
}

int main(void)
{
	int step = register_trace_denied_step(probe, NULL), marker = marker_probe_register("m", NULL, mark, NULL);

	spoor_trace(denied, step, 1);
	trace_mark(m, "n %d", 1);
	printf("%d %d %d", step, marker, ran);
	printf(" %d %d", unregister_trace_denied_step(probe, NULL), marker_probe_unregister("m", mark, NULL));
	printf(" %d\n", marker_probe_register("none", NULL, mark, NULL));
	return 0;
}
"""


@pytest.mark.parametrize("flags", [[], FLAG], ids=["plain", "flag"])
def test_who_registers_a_probe_is_told(build, tmp_path, flags):
    """But for an event that has no site yet."""
    (tmp_path / "probes.c").write_text(PROBES)
    program = tracing.build_program(tmp_path / "probes", tmp_path / "probes.c", *flags)
    done = subprocess.run([program], env=tracing.environment(build, None), capture_output=True, text=True, timeout=30,
                          preexec_fn=DENIED["seccomp, no proc"][0])
    assert done.stdout.split() == ("0 0 2 0 0 0" if flags else "-1 -1 0 -2 -2 0").split(), done


def denied_script(path, program, *args, seccomp):
    """For a recorder's command: the recorder itself is not denied anything."""
    path.write_text(f"import os, sys\nsys.path.insert(0, {os.path.dirname(__file__)!r})\nimport denials\n"
                    f"denials.{'all_of(denials.without_proc, denials.by_seccomp)' if seccomp else 'by_prctl'}()\n"
                    f"os.execv({str(program)!r}, {[str(program), *map(str, args)]!r})\n")
    return ["/usr/bin/python3", path]


@pytest.mark.parametrize("verb", ["run", "record"])
def test_recorders_of_their_own_tell(spoor, build, tmp_path, verb):
    program = tracing.build_program(tmp_path / "types", "ust_types.c")
    words = ["ust", "run"] if verb == "run" else ["record", "--ust"]
    for seccomp in False, True:
        run = spoor(*words, "-o", f"{seccomp}.spoor", "--",
                    *denied_script(tmp_path / "denied.py", program, seccomp=seccomp))
        assert run.returncode == 0 and (WHY in run.stderr) == seccomp, run.stderr


def test_the_kernels_stacks_are_right(spoor, tmp_path):
    """Of a program whose code was written in that way: as of one where nothing was."""
    program = tracing.build_program(tmp_path / "ticker", "ust_ticker.c")
    stacks = {}
    for name, command in ("bare", [program, 1, 31, 100]), \
                         ("written", denied_script(tmp_path / "d.py", program, 1, 31, 100, seccomp=False)):
        user = ["--ust"] if name == "written" else []
        run = spoor("record", *user, "-o", name + ".spoor", "-e", "clock_nanosleep", "--", *command)
        assert run.returncode == 0, run.stderr
        lines = spoor("report", "--format", "json", name + ".spoor").stdout.splitlines()
        events = [json.loads(line) for line in lines[:-1]]
        assert sum(e["event"] == "zoo:tick" for e in events) == (31 if user else 0)
        stacks[name] = [(e["walk"], [(f["object"], f["function"], f["line"]) for f in e["stack"]])
                        for e in events if e["event"] == "clock_nanosleep"]
    assert len(stacks["bare"]) == 31 and stacks["written"] == stacks["bare"]
    assert "complete" == stacks["bare"][0][0] and "main" in [f[1] for f in stacks["bare"][0][1]]


BROKEN = """
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(w, first, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
SPOOR_TRACEPOINT(w, second, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(void)
{
	spoor_trace(w, first, 1);
	spoor_trace(w, second, 2);
	return 0;
}
"""


def test_a_breakpoint_on_a_site(spoor, build, tmp_path):
    """What is not a site any more is not written; that its events are missing is said."""
    (tmp_path / "broken.c").write_text(BROKEN)
    program = tracing.build_program(tmp_path / "broken", tmp_path / "broken.c", "-no-pie")
    (site,) = [s for s in listed(spoor, program) if s["event"] == "w:first"]
    (tmp_path / "commands").write_text(f"break *{site['address']}\nrun\ndelete\ncontinue\n")
    run = spoor("ust", "run", "-o", "t.spoor", "--", "gdb", "-q", "-nx", "-batch", "-x", tmp_path / "commands", program)
    assert "1 program could not be traced wholly" in run.stderr and "a breakpoint" in run.stderr, run.stderr
    shown = spoor("report", "--events", "t.spoor").stdout
    assert " w:second " in shown and " w:first " not in shown

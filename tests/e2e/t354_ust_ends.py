# SPDX-License-Identifier: GPL-2.0-or-later
"""How programs ended that nobody saw: by themselves, without exit(), or by a crash."""
import json
from collections import Counter

import pytest

import tracing

BY_ITSELF = {"_exit": 3, "_Exit": 3, "quick_exit": 3, "thread": 3, "failed-exited": 3, "execl": 0, "execlp": 0,
             "execle": 0, "execv": 0, "execve": 0, "execvp": 0, "execvpe": 0, "fexecve": 0, "execveat": 0}
WAYS = {way: (code, Counter(ended=1)) for way, code in BY_ITSELF.items()} | {
    "kill": (-9, Counter(crashed=1)), "abort": (-6, Counter(crashed=1)), "failed-killed": (-9, Counter(crashed=1)),
    "children-killed": (-9, Counter(crashed=1)), "child-killed": (-11, Counter(crashed=1, ended=1)),
    "daemon": (0, Counter(ended=2))}


@pytest.fixture(scope="module")
def linked(build, tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("ends") / "ends", "ust_ends.c", "-Wl,--no-as-needed",
                                 tracing.agent(build), f"-Wl,-rpath,{build}/src/agent")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("ends") / "ends", "ust_ends.c")


def recovered(spoor, directory):
    run = spoor("ust", "recover", directory, "-o", "t.spoor")
    assert run.returncode == 0, run.stderr
    summary = json.loads(spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[-1])
    return run.stdout, Counter(p["state"] for p in summary["programs"])


@pytest.mark.parametrize("preload", [False, True], ids=["linked", "preloaded"])
@pytest.mark.parametrize("way", WAYS)
def test_without_a_recorder(spoor, build, linked, bare, tmp_path, way, preload):
    code, expected = WAYS[way]
    run, _ = tracing.traced(build, tmp_path / "alone", bare if preload else linked, way, preload=preload)
    assert run.returncode == code, run
    said, states = recovered(spoor, "alone")
    assert states == expected
    assert f"; {expected['crashed']} ended by a crash\n" in said if expected["crashed"] else "ended by" not in said
    assert ("Crashed: ends[" in spoor("report", "t.spoor").stdout) == bool(expected["crashed"])


@pytest.mark.parametrize("way", ["_exit", "kill", "execl"])
def test_linked_statically(spoor, build, tmp_path, way):
    """libc's own functions are called there: which it was cannot be known, and is not said."""
    program = tracing.build_program(tmp_path / "ends", "ust_ends.c", "-Wl,--whole-archive",
                                    build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive", "-lurcu-bp")
    tracing.traced(build, tmp_path / "alone", program, way, preload=False)
    said, states = recovered(spoor, "alone")
    assert states == Counter({"without exit()": 1})
    assert "; 1 ended by a crash, or by _exit() or execve()\n" in said
    assert "Ended without exit(), by a crash or not: ends[" in spoor("report", "t.spoor").stdout


def test_executes_what_is_traced_too(spoor, build, tmp_path):
    """The buffers of one process, one of each program that it was: while the last one runs, and when it was killed."""
    actor = tracing.build_program(tmp_path / "ust_actor", "ust_actor.c")
    tracing.traced(build, tmp_path / "alone", actor, "exec", 3)
    said, states = recovered(spoor, "alone")
    assert set(states) == {"ended"} and states["ended"] > 1 and "ended by" not in said


@pytest.mark.parametrize("end", ["_exit(3)", "kill(getpid(), 9)", "exit(3)"])
def test_loaded_later(spoor, build, tmp_path, end):
    """The library of a plugin comes behind libc, whose functions the program has then."""
    (tmp_path / "plugin.c").write_text("#include <spoor/tracepoint.h>\nSPOOR_TRACEPOINT(ends, plugin, TP_PROTO(int n), "
                                       "TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))\n"
                                       "void act(void) { spoor_trace(ends, plugin, 7); }\n")
    tracing.build_program(tmp_path / "plugin.so", tmp_path / "plugin.c", "-shared", "-fPIC", "-Wl,--no-as-needed",
                          tracing.agent(build), f"-Wl,-rpath,{build}/src/agent")
    (tmp_path / "host.c").write_text("#include <dlfcn.h>\n#include <signal.h>\n#include <stdlib.h>\n"
                                     "#include <unistd.h>\nint main(int c, char **v)\n{\n\t(void)c;\n"
                                     "\t((void (*)(void))dlsym(dlopen(v[1], RTLD_NOW), \"act\"))();\n"
                                     f"\t{end};\n}}\n")
    host = tracing.build_program(tmp_path / "host", tmp_path / "host.c")
    tracing.traced(build, tmp_path / "alone", host, tmp_path / "plugin.so", preload=False)
    said, states = recovered(spoor, "alone")
    assert said.startswith("1 event of 1 program")
    assert states == Counter({"ended" if end == "exit(3)" else "without exit()": 1})

# SPDX-License-Identifier: GPL-2.0-or-later
"""Walks of user events' call stacks, with backtrace() and gdb as oracles, in code that is hard to walk or to find."""
import os
import pickle
import re
import sys
from pathlib import Path

import pytest

import tracing
from userwalks import WAYS, events_of, frames, run_walks, told, walks # noqa: F401 (fixture)

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))
import elf # noqa: E402


@pytest.mark.parametrize("way, compiler", [(w, "g++") for w in WAYS] + [("default", "clang++"), ("O0", "clang++")])
def test_as_backtrace_says(spoor, walks, way, compiler): # noqa: F811
    """Exceptions, signals over leaves, signal stacks, makecontext, threads, callbacks, forks, 600 frames."""
    is_static = way.startswith("static") # dlopen() is none of its things
    places, events = run_walks(spoor, walks(way, compiler), "--stack", "all,512", plugin=not is_static)
    walked = [e["fields"]["n"] for e in events]
    assert sorted(walked) == sorted(places) and len(walked) >= 28
    for e in events:
        n, found, oracle = e["fields"]["n"], frames(e), places[e["fields"]["n"]]
        if n == 400 and not is_static: # the plugin had come that moment
            assert e["way"] == "frame pointers"
            continue
        assert e["way"] == "rows", e
        if n == 600:
            assert e["walk"] == "budget" and len(found) == 512
            oracle = oracle[:512]
        elif n == 90: # the begin of a context has no caller, and says so or not
            assert e["walk"] in ("complete", "no rows")
        else:
            assert e["walk"] == "complete", e
        assert found[1:] == oracle[1:], (n, found, oracle)
        assert found[0][0] == oracle[0][0]
        assert e["stack"][0]["function"].split("::")[-1].split("(")[0] in ("at", "mark")


def limited(stack, limit):
    """The scope of mode lib and custom: so many of each object."""
    taken, left = [], {}
    for path, offset in stack:
        left.setdefault(path, limit(path))
        if left[path]:
            left[path] -= 1
            taken.append((path, offset))
    return taken


@pytest.mark.parametrize("options, scope, budget", [
    (["app"], "app", 1), (["app-all"], "app", 5), (["app-all,30"], "app", 30), (["lib"], "lib", 5),
    (["all,7"], "all", 7), (["custom,9", "--scope", "main=2,libc*=1,*=0"], "custom", 9),
    (["app-all,9", "--app", "libc.so*"], "libc", 9)])
def test_modes(spoor, walks, options, scope, budget): # noqa: F811
    """What the stacks of mode all imply."""
    program = walks("default")
    places, events = run_walks(spoor, program, "--stack", *options, plugin=False)
    assert len(events) == len(places)
    wanted = {
        "app": lambda s: [f for f in s if f[0] == str(program)], "all": lambda s: s,
        "libc": lambda s: [f for f in s if "/libc.so" in f[0]], "lib": lambda s: limited(s, lambda p: 1),
        "custom": lambda s: limited(s, lambda p: 2 if p == str(program) else 1 if "/libc.so" in p else 0)}[scope]
    for e in events:
        n, oracle = e["fields"]["n"], places[e["fields"]["n"]]
        found = frames(e)
        if found and found[0][0] == str(program): # another line of the same function
            oracle[0] = found[0]
        expected = wanted(oracle)
        assert found == expected[:budget], (n, found, expected)
        if budget == 1:
            assert e["walk"] == "complete"
        elif len(expected) > budget:
            assert e["walk"] == "budget"
    names = {f["function"] for e in events for f in e["stack"]}
    assert names


def test_wrong_options(spoor):
    for words, why in ((["--stack", "most"], "most"), (["--stack", "all,0"], "behind the comma"),
                       (["--stack", "all,513"], "512"), (["--stack", "custom"], "--scope"),
                       (["--stack", "none"], "app-all"), (["--scope", "x"], "PATTERN=NUMBER"),
                       (["--scope", "main=1", "--stack", "all"], "--stack custom alone")):
        run = spoor("ust", "run", *words, "-o", "t.spoor", "--", "true")
        assert run.returncode == 2 and why in run.stderr, (words, run)
        assert len(run.stderr.splitlines()) == 1


# ---- gdb's ----

def gdb_stacks(spoor, program, out):
    """Where gdb stopped the program while it was traced: {n: (mappings, [(pc, kind, name)])}."""
    run = spoor("ust", "run", "--stack", "all,512", "-o", "t.spoor", "--", "gdb", "-nx", "-batch", "-iex",
                "set debuginfod enabled off", "-x", ORACLE / "gdb_user_stops.py", "--args", program,
                program.parent / "one.so", env=os.environ | {"STOPS_OUT": str(out), "DEBUGINFOD_URLS": ""}, timeout=100)
    assert run.returncode == 0 and out.exists() and "Traceback" not in run.stdout + run.stderr, run
    return pickle.loads(out.read_bytes())


def machine_frames(maps, found):
    """gdb's frames but those that the machine does not have: (object, offset, name)."""
    inline, tail_call, signal = 2, 3, 4 # gdb.INLINE_FRAME, gdb.TAILCALL_FRAME, gdb.SIGTRAMP_FRAME
    taken, exact = [], False
    for pc, kind, name in found:
        if kind in (inline, tail_call):
            continue
        taken.append((*elf.locate(maps, pc, exact), name))
        exact = kind == signal
    return taken


def last_name(function):
    return function.split("(anonymous namespace)::")[-1].split("(")[0]


@pytest.mark.parametrize("way", ["default", "O0", "no-pie"])
def test_as_gdb_says(spoor, walks, tmp_path, way): # noqa: F811
    """gdb stops behind each event: the same frames, by object, offset and name, out to _start and clone."""
    program = walks(way)
    stops = gdb_stacks(spoor, program, tmp_path / "stops")
    events = {e["fields"]["n"]: e for e in events_of(spoor)}
    assert len(stops) >= 27 and stops.keys() <= events.keys()
    for n, (maps, found) in stops.items():
        oracle, event = machine_frames(maps, found), events[n]
        if n == 400: # the plugin had come that moment
            continue
        own = [f for f in event["stack"] if not f.get("inlined")]
        assert [(f["object"], f["offset"]) for f in own[1:]] == \
            [(path, hex(offset)) for path, offset, _ in oracle[1:len(own)]], (n, own, oracle)
        assert len(own) == min(512, len(oracle)) or n == 90 # the begin of a context has no caller
        for f, (path, _, name) in zip(own, oracle, strict=False):
            if path.startswith(str(program.parent)): # gdb has other names of libc's functions
                assert last_name(f["function"]) == last_name(name), (n, f, name)


# ---- code that is of no object, or of one that cannot be seen from here ----

def test_code_made_at_run_time(spoor, tmp_path):
    """The walk goes on beneath it; with /tmp/perf-PID.map it has a name, and keeps it when it is packed."""
    program = tracing.build_program(tmp_path / "jit", "ust_jit.c", "-fno-optimize-sibling-calls")
    run = spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", program)
    assert run.returncode == 0, run.stderr
    begin, size, back = re.match(r"made at (\S+), (\d+) bytes\ninner returns to (\S+)\n", run.stdout).groups()
    found = events_of(spoor)
    assert len(found) == 5
    for e in found:
        assert e["walk"] == "complete" and e["way"] == "frame pointers", e # the made code has no rows
        assert [f["function"] for f in e["stack"]][:4] == ["inner", None, "outer", "main"]
        assert e["stack"][1]["object"] is None and e["stack"][1]["offset"] == back
    names = Path(f"/tmp/perf-{found[0]['pid']}.map")
    try:
        names.write_text(f"{begin[2:]} {int(size):x} made_later\n")
        assert {e["stack"][1]["function"] for e in events_of(spoor)} == {"made_later"}
        assert spoor("pack", "t.spoor").returncode == 0
    finally:
        names.unlink()
    assert {e["stack"][1]["function"] for e in events_of(spoor)} == {"made_later"}


@pytest.mark.parametrize("options", [("app-all", "--app", "[anonymous]"), ("app", "--app", "libc.so*,[[]anonymous]"),
                                     ("custom", "--scope", "[anonymous]=1,*=0")])
def test_code_made_at_run_time_is_named(spoor, tmp_path, options):
    program = tracing.build_program(tmp_path / "jit", "ust_jit.c", "-fno-optimize-sibling-calls")
    run = spoor("ust", "run", "--stack", *options, "-o", "t.spoor", "--", program)
    assert run.returncode == 0, run.stderr
    back = re.search(r"^inner returns to (\S+)$", run.stdout, re.M)[1]
    assert [frames(e) for e in events_of(spoor)] == 5 * [[(None, back)]]


def test_in_another_mount_namespace(spoor, walks, tmp_path): # noqa: F811
    """Its file is seen through /proc/PID/root alone; no rows are in the cache."""
    place = tmp_path / "place"
    place.mkdir()
    run = spoor("ust", "run", "--stack", "all,512", "-o", "t.spoor", "--", "unshare", "-m", "--propagation", "private",
                "sh", "-c", f"mount -t tmpfs none {place} && cp {walks('default')} {place}/there && exec {place}/there",
                env=os.environ | {"SPOOR_CACHE_DIR": str(tmp_path / "cache")})
    assert run.returncode == 0 and not list(place.iterdir()), run.stderr
    places = told(run.stdout)
    events = events_of(spoor)
    assert len(events) == len(places) >= 28
    for e in events:
        found, oracle = frames(e), places[e["fields"]["n"]]
        assert e["way"] == "rows" and found[0][0] == str(place / "there"), e
        assert found[1:] == oracle[1:512], (found, oracle)

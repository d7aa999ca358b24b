# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program leaves that is killed behind any instruction of the library's paths: whole events, in a row, from the
commit on. (t322 kills it there.)"""
import subprocess

import pytest

import arenas
import tracing
from daemons import daemon  # noqa: F401
from fakeprogram import board
from t314_ust_hostile_recorder import Recorder, rule, session_setup

SHORT = "seventeen letters"


def long_one(n):
    return chr(ord("a") + n % 26) * 999


def expected(before, within, text=lambda n: "before it", last=lambda n: SHORT):
    return [(n, text(n)) for n in range(before)] + [(before + n, last(before + n)) for n in range(within)]


PATHS = {  # path, environment, what is recorded before and within it, how many instructions it has at least
    "next": ("next", {}, expected(3, 1), 80),
    "overwriting": ("next", {"SPOOR_UST_MODE": "overwrite"}, expected(3, 1), 80),
    "contexts": ("next", {"SPOOR_UST_CONTEXT": "*,!callstack"}, expected(3, 1), 150),
    "filter": ("next", {"SPOOR_UST_FILTER": "n >= 0"}, expected(3, 1), 150),
    "first of a thread": ("first", {}, expected(1, 1), 500),
    "packets": ("packet", {}, expected(60, 6, long_one, long_one), 5000),
    "packets overwritten": ("packet", {"SPOOR_UST_MODE": "overwrite"}, expected(60, 6, long_one, long_one), 5000),
    "shared packet": ("shared", {}, expected(14, 1), 500),
    "marker": ("marker", {}, expected(1, 1), 150),
}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "states", "ust_states.c")


def walk(program, env, path, where, least):
    """Of each state that the path has: where it is."""
    where.mkdir()
    done = subprocess.run([program, where, path], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = sorted(where.iterdir(), key=lambda d: int(d.name))
    assert int(done.stdout) > least and len(found) > 5
    return found


def recovered(spoor, state):
    done = spoor("ust", "recover", "-o", state / "t.spoor", state)
    assert done.returncode == 0, done
    return int(done.stdout.split()[0])


@pytest.mark.parametrize("what", PATHS)
def test_each_state(build, spoor, states, tmp_path, what):
    path, how, expect, least = PATHS[what]
    env = tracing.environment(build, tmp_path / "out", SPOOR_UST_BUFFERS="64K", **how)
    came, packets, recovered_last = [], set(), None
    for state in walk(states, env, path, tmp_path / "states", least):
        trace = arenas.arena(state)
        got = [(e.values["n"], e.values["s"]) for e in trace.events]
        gone = trace.channels[0]["overwritten"]
        assert not trace.lost() and got == expect[gone:gone + len(got)], (state.name, got)
        came.append(gone + len(got))
        packets |= {e.packet for e in trace.events}
        held = [p for p in trace.packets if p.state == arenas.READING and "overwritten" in what]  # recover leaves them
        left = len(got) - sum(len(p.events) for p in held)
        if left != recovered_last or int(state.name) % 8 == 0: # most only copy a little more of a text
            assert recovered(spoor, state) == left
        recovered_last = left
    assert came == sorted(came) and {*came} == {*range(came[0], len(expect) + 1)} and came[0] < came[-1]
    assert len(packets) >= {"packet": 13, "shared": 13, "first": 2}.get(path, 1)
    assert gone or what != "packets overwritten"


def test_each_state_with_call_stacks(build, daemon, states, tmp_path):
    """Walked by rows, which the recorder gives; it goes on reading meanwhile."""
    daemon.ust("start", "-o", "t.spoor", "--context", "callstack", "--stack", "all,32")
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=daemon.socket)
    came = []
    for state in walk(states, env, "stack", tmp_path / "states", 500):
        trace = arenas.arena(state)
        assert [(e.values["n"], e.values["s"]) for e in trace.events] == expected(3, 1)[:len(trace.events)]
        assert all(not e.values["callstack_status"] and len(e.values["callstack"]) > 10 for e in trace.events)
        came.append(len(trace.events))
    assert came == sorted(came) and {*came} == {3, 4}
    assert " 0 lost" in daemon.ust("end").stdout


@pytest.mark.parametrize("how", [{}, {"SPOOR_UST_FILTER": "n >= 0"}], ids=["as it is", "filtered"])
def test_each_state_in_handlers(build, spoor, states, tmp_path, how):
    """Six over one another over half-written events: what the inner ones have committed is there, and no other."""
    env = tracing.environment(build, tmp_path / "out", SPOOR_UST_BUFFERS="64K", **how)
    came = []
    for state in walk(states, env, "handlers", tmp_path / "states", 1500):
        trace = arenas.arena(state)
        got = sorted((e.values["n"], e.values["s"]) for e in trace.events if e.name == "step:within")
        assert not trace.lost() and got == [(n, SHORT.encode()) for n in range(6 - len(got), 6)], (state.name, got)
        came.append(len(got))
        if int(state.name) % 8 == 0:
            assert recovered(spoor, state) == 1 + len(got)
    assert came == sorted(came) and {*came} == {*range(7)}


def test_each_state_of_several_channels(build, spoor, states, tmp_path):
    """An event that goes to three of them is in one after the other."""
    (tmp_path / "sock.sessions").write_bytes(board(session_setup(n_channels=3, buffers=3 << 16), rule(channels=7)))
    recorder = Recorder(tmp_path / "sock", [])
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
    came = []
    for state in walk(states, env, "next", tmp_path / "states", 100):
        trace = arenas.arena(state)
        counts = [0, 0, 0]
        for channel in range(3):
            events = sorted((e for p in trace.packets if p.channel == channel for e in p.events), key=lambda e: e.ts)
            counts[channel] = len(events)
            assert [(e.values["n"], e.values["s"]) for e in events] == expected(3, 1)[:len(events)]
        came.append(counts)
        assert recovered(spoor, state) == sum(counts)
    recorder.close()
    assert sorted(map(tuple, came)) == [tuple(c) for c in came]
    assert came[0] == [3, 3, 3] and came[-1] == [4, 4, 4] and [4, 3, 3] in came and [4, 4, 3] in came

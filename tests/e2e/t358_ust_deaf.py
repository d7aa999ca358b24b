# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks of programs that no signal reaches, and that have no listener (root's): rows come all the same."""
import json
import signal
import subprocess

import pytest

import tracing
from daemons import daemon  # noqa: F401 (fixture)
from processes import wait_for

NO_FP = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls"]
ALL = ["main", "same", "none"]


@pytest.fixture
def program(tmp_path):
    """Whose rows nobody has compiled yet."""
    tracing.build_program(tmp_path / "deaf.so", "ust_deaf_plugin.c", *NO_FP, "-shared", "-fPIC")
    return tracing.build_program(tmp_path / "deaf", "ust_deaf.c", *NO_FP)


@pytest.fixture
def stacks(spoor):
    """What there is so far: {way: [(walk, way of it, frames, frames that backtrace() found)]}."""
    def read():
        found = {way: [] for way in ALL}
        for line in spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]:
            e = json.loads(line)
            if e["event"] == "deaf:at":
                n = sum(not f.get("inlined") for f in e["stack"])
                found[ALL[e["fields"]["way"]]].append((e["walk"], e["way"], n, e["fields"]["frames"]))
        return found
    return read


def nothing_is_called_complete_that_is_not(found):
    for way in ALL:
        for walk, _, n, all_of_them in found[way]:
            assert walk != "complete" or n == all_of_them, (way, walk, n, all_of_them)


def test_without_a_recorder(build, spoor, program, stacks, tmp_path):
    """There are no rows ever."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_CONTEXT="callstack", SPOOR_UST_STACK="all,64")
    run = subprocess.run([program, program.parent / "deaf.so"], env=env, input=b"xx", capture_output=True, timeout=60)
    assert run.returncode == 0, run
    assert spoor("ust", "recover", "alone", "-o", "t.spoor").returncode == 0
    found = stacks()
    assert all(found[way] and {k[0] for k in found[way]} <= {"no rows", "unreadable"} for way in ALL), found


@pytest.mark.parametrize("who", [[], ["child"]], ids=["", "child"])
def test_rows_come(daemon, program, stacks, tmp_path, monkeypatch, who):  # noqa: F811
    """A recorder that is not named by SPOOR_UST_SOCKET is not waited for."""
    def come(*ways):
        found = stacks()
        return all(found[w] and found[w][-1][:2] == ("complete", "rows") for w in ways)

    daemon.kill(signal.SIGTERM)
    daemon.socket = tmp_path / "spoor-ust.sock"
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    daemon.start()
    daemon.ust("start", "--stack", "all,64", "-o", "t.spoor")
    p = daemon.program(program, tmp_path / "deaf.so", *who, stdin=subprocess.PIPE, SPOOR_UST_SOCKET="",
                       XDG_RUNTIME_DIR=str(tmp_path))
    for ways in ALL[:1], ALL:
        wait_for(lambda w=ways: come(*w), 60, 0.1)
        p.stdin.write(b"x")
        p.stdin.flush()
    assert p.wait(20) == 0
    daemon.ust("end")
    found = stacks()
    assert found["same"][0][0] != "complete", found # the object had come that moment
    nothing_is_called_complete_that_is_not(found)

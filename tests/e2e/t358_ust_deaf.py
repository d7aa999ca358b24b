# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks of programs that no signal reaches."""
import json
import subprocess

import pytest

import tracing

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


def test_without_a_recorder(build, spoor, program, stacks, tmp_path):
    """There are no rows ever."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_CONTEXT="callstack", SPOOR_UST_STACK="all,64")
    run = subprocess.run([program, program.parent / "deaf.so"], env=env, input=b"xx", capture_output=True, timeout=60)
    assert run.returncode == 0, run
    assert spoor("ust", "recover", "alone", "-o", "t.spoor").returncode == 0
    found = stacks()
    assert all(found[way] and {k[0] for k in found[way]} <= {"no rows", "unreadable"} for way in ALL), found

# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that seccomp answers are over before the kernel tells of their begin: they are events all the same. (Their
results and arguments are compared with strace's in tests/oracle.)"""
from collections import Counter

import pytest

TIMES = 31
WIDE = 1 << 40
ANSWERED = {"mkdir": -1, "openat": -13, "fsync": 0, "socket": -97, "getpgrp": 111, "getsid": None, "flock": WIDE}


@pytest.fixture
def refused(compiled):
    """tests/data/refused.c, compiled."""
    return compiled("refused.c")


def answered(trace):
    """Those that the program makes after it has the filter."""
    return [c for c in trace.calls if c["event"] in ANSWERED and c["stack"] and c["stack"][-1]["function"] == "_start"
            and any(f["function"] == "ask" for f in c["stack"])]


def test_each_is_there(spoor, read, refused, tmp_path):
    assert spoor("record", "-m", "all", "-S", "64", "-o", tmp_path / "t.spoor", "--", refused, TIMES).returncode == 0
    calls = answered(read(tmp_path / "t.spoor"))
    assert Counter(c["event"] for c in calls) == {name: 2 * TIMES for name in ANSWERED}
    for c in calls:
        assert c["walk"] == "complete" and c["way"] == "kernel" and "start_exact" not in c
        assert ANSWERED[c["event"]] in (None, c["ret"])
        assert c["event"] != "mkdir" or c["args"]["pathname"] == "/nowhere/at/all"
    assert [c["ret"] for c in calls if c["event"] == "getsid"] == list(range(1234567, 1234567 + 2 * TIMES))


def test_only_those_that_are_wanted(spoor, read, refused, tmp_path):
    assert spoor("record", "-e", "mkdir,getuid", "-o", tmp_path / "t.spoor", "--", refused, TIMES).returncode == 0
    calls = read(tmp_path / "t.spoor").calls
    assert Counter(c["event"] for c in calls) == {"mkdir": 2 * TIMES, "getuid": 4 * TIMES}


def test_wider_than_its_type(spoor, read, refused, tmp_path):
    """By its name everywhere, with the arguments that it has."""
    trace = tmp_path / "t.spoor"
    assert spoor("record", "-m", "all", "-o", trace, "--", refused, TIMES).returncode == 0
    shown = read(trace)
    calls = shown.of("flock")
    assert len(calls) == 2 * TIMES and not [c for c in shown.calls if c["event"].startswith("syscall_")]
    assert all((c["args"], c["ret"]) == ({"fd": {"fd": -7}, "cmd": 8}, WIDE) for c in calls)
    lines = spoor("report", trace, "--events", "-e", "flock").stdout
    assert lines.count(f"flock(-7, 8) = {WIDE}") == lines.count("flock(") == 2 * TIMES
    table = spoor("report", trace, "-e", "flock").stdout
    assert "flock" in table and "syscall" not in table
    folded = spoor("report", trace, "-e", "flock", "--folded").stdout
    assert sum(int(line.rsplit(None, 1)[1]) for line in folded.splitlines() if "flock" in line) == 2 * TIMES
    assert "flock" not in spoor("report", trace, "--events", "-e", "all,flock=none").stdout


def test_by_site(count, refused):
    done, (counters,) = count("--by", "site", "--", refused, str(TIMES))
    assert done.returncode == 0
    assert {name: n for (name, _), (n, _) in counters.whole().returned().items() if name in ANSWERED and
            name != "openat"} == {name: 2 * TIMES for name in ANSWERED if name != "openat"}

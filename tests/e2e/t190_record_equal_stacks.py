# SPDX-License-Identifier: GPL-2.0-or-later
"""Equal stacks are stored once per segment, also those that user space unwound, each under an id of its own."""
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter

import pytest

from processes import wait_for
from recordings import segments

CALLS = 20011
STACK = re.compile(r" spoor:stack: .*\{ id = (\d+), (status = .*) \}$")
ALIAS = re.compile(r" spoor:stack_alias: .*\{ id = (\d+), stack = (\d+)")
USER = "way = 1,"


class Stacks:
    """What babeltrace2 says that a segment defines, and which ids its calls have."""

    def __init__(self, segment):
        run = subprocess.run(["babeltrace2", segment], capture_output=True, text=True, check=True, timeout=60)
        lines = run.stdout.splitlines()
        self.full = dict(m.groups() for m in map(STACK.search, lines) if m)
        self.aliases = dict(m.groups() for m in map(ALIAS.search, lines) if m)
        self.used = Counter(m[1] for m in (re.search(r" getppid: .* stack = (\d+),", line) for line in lines) if m)
        assert len(self.full) == sum(map(bool, map(STACK.search, lines))), "an id is defined twice"

    def check(self):
        """No two in full are equal; each other id is of one in full; whatever a call has is one of these."""
        twice = [stack for stack, n in Counter(self.full.values()).items() if n > 1]
        assert not twice, f"{len(twice)} stacks are stored more than once, the first: {twice[0]}"
        assert set(self.aliases.values()) <= self.full.keys() and not self.aliases.keys() & self.full.keys()
        assert self.used.keys() <= self.full.keys() | self.aliases.keys()
        return self

    def unwound(self):
        """Ids of stacks that user space unwound, and how many different stacks these are."""
        first = {i for i, stack in self.full.items() if USER in stack}
        return len(first) + sum(full in first for full in self.aliases.values()), len(first)


def own_stacks(build, segment):
    """What our reader says."""
    run = subprocess.run([build / "tests/tools/trace_dump", segment], capture_output=True, text=True, check=True,
                         timeout=60)
    assert "damage" not in run.stderr
    return re.findall(r" spoor:stack id=\d+ (.*)", run.stdout)


@pytest.fixture
def perl(tmp_path, monkeypatch):
    """A program that nobody has seen before: its rows have to be made while it runs."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copy("/usr/bin/perl", tmp_path / "quokkaperl")
    # Not so fast that there is no room for many of the raw copies.
    return [tmp_path / "quokkaperl", "-e", f"for (1 .. {CALLS}) {{ getppid; 1 for 1 .. 200 }}"]


def unwound(trace):
    """All segments are as they should be; (ids, different stacks) that user space unwound, of each."""
    return [Stacks(s).check().unwound() for s in segments(trace)]


def lost(trace):
    return trace.summary["walks"].get("lost", 0)


def walks_lost(trace):
    """Raw copies for which there was no room, in a ring or in the queue: no other stack may be missing."""
    return json.loads((trace / "manifest").read_text())["counters"].get("walks_lost", 0)


@pytest.mark.parametrize("rotate", [(), ("--rotate", "20ms")], ids=["whole", "rotated"])
def test_equal_once(build, record, read, perl, rotate):
    recording = record("-n", "quokkaperl", "-m", "all", "-e", "getppid", *rotate)
    for _ in range(3):
        subprocess.run(perl, check=True, timeout=60)
    assert recording.stop() == 0
    trace = read(recording.trace)
    assert trace.summary["discarded"] == 0 and lost(trace) == walks_lost(recording.trace)
    of_segments = unwound(recording.trace)
    ids, different = map(sum, zip(*of_segments))
    print(f"{ids} ids of {different} stacks that user space unwound, in {len(of_segments)} segments")
    assert ids > 2 * different and ids >= trace.summary["ways"]["user"] and different <= 30 * len(of_segments)
    assert len(of_segments) > 1 if rotate else len(of_segments) == 1
    for segment in segments(recording.trace):
        stacks = own_stacks(build, segment)
        assert len(stacks) == len(set(stacks))
    # Whatever its id: each call has a stack, and all have the same caller.
    callers = Counter((c["stack"][0]["offset"], c["walk"]) for c in trace.calls if c["walk"] != "lost")
    assert trace.count() == 3 * CALLS and len(callers) == 1


def test_snapshot_and_limit(record, read, perl, tmp_path):
    """What is dropped takes nothing with it that is left; a snapshot is as whole as the recording."""
    recording = record("-n", "quokkaperl", "-m", "all", "-e", "getppid", "--max-size", "4M", "--snapshot-on", "SIGUSR2")
    for _ in range(2):
        subprocess.run(perl, check=True, timeout=60)
        os.kill(recording.pid, signal.SIGUSR2)
        wait_for(lambda: "snapshot in" in recording.said())
    assert recording.stop() == 0
    snapshots = sorted(tmp_path.glob("*.snapshot-*.spoor"))
    assert snapshots and all(ids for s in [*snapshots, recording.trace] for ids in [sum(n for n, _ in unwound(s))])
    for trace in [*snapshots, recording.trace]:
        assert lost(read(trace)) <= walks_lost(recording.trace)

# SPDX-License-Identifier: GPL-2.0-or-later
"""A snapshot is a trace of its own, for babeltrace2, for Spoor's reader and for its report; the recording goes on."""
import json
import os
import re
import subprocess

import bt2
import pytest


@pytest.fixture
def snapshot(build, tmp_path):
    """snapshot(path) -> the finished process; the recording is tmp_path/t.spoor."""
    def run(path, trace="t.spoor"):
        return subprocess.run([build / "tests/tools/trace_gen", "snapshot", tmp_path / trace, path],
                              capture_output=True, text=True, timeout=60)
    return run


def lines(build, trace):
    run = subprocess.run([build / "tests/tools/trace_dump", trace], capture_output=True, text=True, check=True)
    assert "damage" not in run.stderr
    return run.stdout.splitlines()


def oracle(trace):
    """Times of the events as babeltrace2 gives them."""
    return [m.default_clock_snapshot.ns_from_origin for m in bt2.TraceCollectionMessageIterator(str(trace))
            if type(m) is bt2._EventMessageConst]


def manifest(trace):
    return json.loads((trace / "manifest").read_text())


def segments(trace):
    return sorted(p.name for p in trace.glob("*/kernel/seg-*"))


def check_snapshot(build, spoor, taken, recording):
    found = lines(build, taken)
    whole = lines(build, recording)
    epoch = manifest(recording)["epoch_offset"]
    assert epoch == manifest(taken)["epoch_offset"]
    assert set(found) < set(whole)
    assert oracle(taken) == [int(line.split(" ", 1)[0]) for line in found]
    assert manifest(taken)["snapshot"] is True and manifest(taken)["ended"] is True
    listed = manifest(taken)["hosts"][0]["parts"][0]["segments"]
    assert [s["directory"] for s in listed] == segments(taken) == [f"seg-{i:06}" for i in range(1, 11)]
    assert "snapshot" not in manifest(recording)
    assert segments(recording) == [f"seg-{i:06}" for i in range(1, 22)]
    report = spoor("report", "--format", "json", taken)
    assert report.returncode == 0, report.stderr
    assert "This is a snapshot: the recording went on." in spoor("report", taken).stdout
    assert "snapshot" not in spoor("report", recording).stdout.splitlines()[-1]
    summary = json.loads(report.stdout.splitlines()[-1])
    assert summary["ended"] is True and summary["damages"] == [] and summary["calls"] > 1000


def test_hard_links(build, spoor, snapshot, tmp_path):
    taken = tmp_path / "s.spoor"
    run = snapshot(taken)
    assert run.returncode == 0, run.stderr
    check_snapshot(build, spoor, taken, tmp_path / "t.spoor")
    for file in taken.glob("*/kernel/seg-*/*"):
        assert file.samefile(tmp_path / "t.spoor" / file.relative_to(taken))


@pytest.fixture
def mounted(tmp_path):
    """mounted(megabytes) -> an empty file system of that size."""
    made = []

    def mount(size):
        where = tmp_path / "mnt"
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "spoor-test", where], check=True)
        made.append(where)
        return where
    yield mount
    for where in made:
        subprocess.run(["umount", "--lazy", where], check=True)


def test_another_file_system(build, spoor, snapshot, tmp_path, mounted):
    """Copied; of the metadata, which is the same everywhere, once."""
    taken = mounted("16m") / "s.spoor"
    run = snapshot(taken)
    assert run.returncode == 0, run.stderr
    check_snapshot(build, spoor, taken, tmp_path / "t.spoor")
    assert len({os.stat(f).st_ino for f in taken.glob("*/kernel/seg-*/metadata")}) == 1


@pytest.mark.parametrize("size", ["12k", "100k", "300k", "400k"])
def test_no_space(build, snapshot, tmp_path, mounted, size):
    """At different places in it: nothing is left, and the recording is what it would have been."""
    where = mounted(size)
    run = snapshot(where / "s.spoor")
    assert run.returncode == 3
    assert re.fullmatch(r"trace_gen: \S+/s.spoor: no snapshot: No space left on device\n", run.stderr)
    assert list(where.iterdir()) == []
    assert len(lines(build, tmp_path / "t.spoor")) > 2000
    oracle(tmp_path / "t.spoor")


def test_exists(build, snapshot, tmp_path):
    taken = tmp_path / "s.spoor"
    taken.mkdir()
    (taken / "file").write_text("mine")
    run = snapshot(taken)
    assert run.returncode == 3 and "File exists" in run.stderr
    assert [p.name for p in taken.iterdir()] == ["file"]
    assert len(lines(build, tmp_path / "t.spoor")) > 2000

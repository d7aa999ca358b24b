# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording that was killed: shown as far as it goes, and repaired for babeltrace2."""
import os
import re
import subprocess

import pytest

from processes import NOBODY, wait_for


def babeltrace(trace):
    return subprocess.run(["babeltrace2", "-o", "dummy", trace], capture_output=True, text=True, timeout=60)


@pytest.fixture
def killed(record, start, tmp_path):
    """A trace of a recording that got SIGKILL."""
    busy = start("sh", "-c", "while :; do read x < /etc/passwd; done")
    running = record("-p", busy.pid)
    wait_for(lambda: any(f.stat().st_size > 10000 for f in tmp_path.glob("t.spoor/*/kernel/seg-*/cpu*")))
    running.kill()
    return tmp_path / "t.spoor"


def test_killed(spoor, killed):
    out = spoor("report", killed).stdout
    assert "The recording was cut off" in out and "read" in out
    # Whether the kill tore a packet is chance: make sure.
    stream = max(killed.glob("*/kernel/seg-*/cpu*"), key=lambda f: f.stat().st_size)
    os.truncate(stream, stream.stat().st_size - 12)
    assert babeltrace(killed).returncode != 0
    out = spoor("report", killed).stdout
    torn = int(re.search(r"The recording was cut off: (\d+) bytes are of packets that are not whole", out).group(1))
    assert 12 < torn <= stream.stat().st_size
    run = spoor("repair", killed)
    assert run.returncode == 0 and run.stdout == f"{torn} bytes of packets that were not whole were cut.\n"
    after = babeltrace(killed)
    assert after.returncode == 0, after.stderr
    out = spoor("report", killed).stdout
    assert "The recording was cut off: what came after the last whole packet is not here." in out
    assert "Damaged" not in out
    assert spoor("repair", killed).stdout == "Nothing to repair: every packet is whole.\n"


@pytest.mark.parametrize("packed", [False, True])
def test_streams_that_shrank(spoor, tmp_path, packed):
    """After its end: what is whole of them is read, and what is missing is said, also once it was repaired."""
    assert spoor("record", "-o", "t.spoor", "--", "true").returncode == 0
    if packed:
        assert spoor("pack", "t.spoor").returncode == 0
    assert "Lost: nothing.\n" in spoor("report", "t.spoor").stdout
    stream = max((tmp_path / "t.spoor").glob("*/kernel/seg-*/cpu*"), key=lambda f: f.stat().st_size)
    size = stream.stat().st_size
    os.truncate(stream, size - 8)
    assert spoor("repair", "t.spoor").returncode == 0
    host = stream.parent.parent.parent
    for missing in (size - stream.stat().st_size, size):
        for path in "t.spoor", host:
            out = spoor("report", path).stdout
            assert missing > 8 and "Lost: nothing that is known of, but see below.\n" in out
            assert f"manifest: offset 0: kernel: segment 1: {missing} bytes of its streams are not there\n" in out
        stream.unlink(missing_ok=True)


def test_streams_that_shrank_of_a_recording_that_was_killed(record, spoor, start, actor):
    """What its manifest knew of when it was written last."""
    busy = start("python3", "-c", "import os\nwhile True: os.getppid()")
    recording = record("-p", busy.pid, "--rotate", "1M", "-e", "getppid", "-m", "app")
    first = recording.trace
    wait_for(lambda: list(first.glob("*/kernel/seg-000003")))
    recording.process.kill()
    recording.process.wait()
    busy.kill()
    wait_for(lambda: "was cut off" in (said := spoor("report", first).stdout) and "not there" not in said)
    sizes = [s.stat().st_size for s in first.glob("*/kernel/seg-000001/cpu*")]
    for stream in first.glob("*/kernel/seg-000001/cpu*"):
        stream.unlink()
    assert f"segment 1: {sum(sizes)} bytes of its streams are not there\n" in spoor("report", first).stdout


def test_fifo(spoor, tmp_path):
    """Something else in a stream's place: said, and nothing is cut."""
    assert spoor("record", "-o", "t.spoor", "--", "true").returncode == 0
    stream = max((tmp_path / "t.spoor").glob("*/kernel/seg-*/cpu*"), key=lambda f: f.stat().st_size)
    size = stream.stat().st_size
    os.truncate(stream, size - 8)
    fifo = stream.parent / "cpu4000"
    os.mkfifo(fifo)
    run = spoor("repair", "t.spoor", timeout=10)
    assert run.returncode == 1 and not run.stdout and stream.stat().st_size == size - 8
    assert "cpu4000: not a regular file" in run.stderr and run.stderr.count("\n") == 1
    fifo.unlink()
    assert spoor("repair", "t.spoor").returncode == 0 and stream.stat().st_size < size - 8


@pytest.mark.parametrize("verb", ["report", "repair", "pack"])
def test_trace_of_somebody_else(spoor, anywhere, verb):
    assert spoor("record", "-o", anywhere / "t.spoor", "--", "true").returncode == 0
    run = subprocess.run([*NOBODY, anywhere / "spoor", verb, anywhere / "t.spoor"], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 1 and not run.stdout
    assert run.stderr == f"spoor {verb}: {anywhere}/t.spoor: cannot read it: Permission denied\n"


@pytest.mark.parametrize("args, code, said", [([], 2, "which trace?"), (["a", "b"], 2, "which trace?"),
                                              (["-x", "a"], 2, "no options"), (["/nonexistent"], 1, "No such file")])
def test_misuse(spoor, args, code, said):
    run = spoor("repair", *args)
    assert run.returncode == code and said in run.stderr and run.stderr.count("\n") == 1 and not run.stdout

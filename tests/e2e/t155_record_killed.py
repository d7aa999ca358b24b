# SPDX-License-Identifier: GPL-2.0-or-later
"""Spoor is killed: what lay in its rings is in the trace all the same, once, and soon nothing is left of it."""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from processes import has_ended, ready, sleeps_in, state, tell, wait_for
from recordings import bpf_objects

READ, LSEEK = 0, "lseek"


def rescuer_of(recording):
    return recording.helpers()["trace-rescue"]


@pytest.fixture
def cat(start):
    """cat: each line that it is given comes back, and then it hangs in read(2)."""
    process = start("cat")
    wait_for(lambda: sleeps_in(process.pid, READ))
    return process


def hang_again(cat):
    """A hang that begins now."""
    tell(cat, b"line\n")
    assert cat.stdout.readline() == b"line\n"
    wait_for(lambda: sleeps_in(cat.pid, READ), every=0.0002)


def hang_in(spoor, trace):
    lines = spoor("report", "--blocked", "-f", "json", trace).stdout.splitlines()
    (hang,) = [e for e in map(json.loads, lines) if e.get("event") == "read"]
    return hang


@pytest.mark.parametrize("how", [(), ("--rotate", "100ms"), ("--snapshot-on", "SIGUSR2")],
                         ids=lambda how: "".join(how))
def test_loses_no_hang(spoor, record, read, cat, tmp_path, nothing_attached, how):
    """However soon after it began: with its stack and what it is about."""
    for _ in range(5):
        recording = record("-p", cat.pid, "-m", "all", *how)
        hang_again(cat)
        time.sleep(random.random() * 0.02)
        recording.kill()
        hang = hang_in(spoor, recording.trace)
        assert hang["tid"] == cat.pid and hang["start_exact"] is True and hang["so_far"] < 5e9
        assert hang["walk"] in ("complete", "budget") and hang["stack"][0]["object"].endswith("/libc.so.6")
        assert "pipe:[" in json.dumps(hang)
        trace = read(recording.trace, ended=False)
        assert trace.summary["ended"] is False and trace.summary["discarded"] == 0 and not trace.summary["damages"]
        assert trace.count("write") == 1 and trace.count("read") == 2
        assert not cat.poll()
        nothing_attached(recording)
        shutil.rmtree(recording.trace)


def test_group_is_killed(spoor, record, cat, nothing_attached):
    """kill -9 -PGID, as a shell's or a service's end: the rescuer is in a session of its own."""
    recording = record("-p", cat.pid, "-m", "all", start_new_session=True)
    assert os.getpgid(recording.pid) == recording.pid
    hang_again(cat)
    recording.kill(group=True)
    assert hang_in(spoor, recording.trace)["start_exact"] is True
    nothing_attached(recording)


def by_thread(offsets):
    found = {}
    for offset in offsets:
        found.setdefault(offset >> 40, []).append(offset & (1 << 40) - 1)
    return found


def by_babeltrace(path):
    run = subprocess.run(["babeltrace2", path], capture_output=True, text=True, check=True, timeout=60)
    return [int(n) for n in re.findall(r" lseek: .* offset = (\d+),", run.stdout)]


def last_ended(path, threads):
    return [struct.unpack_from("<Q", path.read_bytes(), 64 * i)[0] for i in range(threads)]


@pytest.mark.parametrize("how, threads", [((), 1), (("--rotate", "100ms"), 2)], ids=["one", "rotating"])
def test_every_call_once(record, read, start, compiled, tmp_path, how, threads):
    """Killed at any moment: every call that had ended is there, none twice, up to what the kernel wrote last."""
    counts = tmp_path / "counts"
    for _ in range(4):
        target = ready(start(compiled("numbered.c", "-O2"), counts, threads))
        recording = record("-p", target.pid, "-m", "none", "-e", LSEEK, *how)
        attached = last_ended(counts, threads)
        time.sleep(random.random() * 0.15)
        ended = last_ended(counts, threads)
        recording.kill()
        target.kill()
        trace = read(recording.trace, ended=False)
        assert trace.summary["discarded"] == 0 and not trace.summary["damages"]
        offsets = [e["args"]["offset"] for e in trace.of(LSEEK)]
        assert sorted(by_babeltrace(recording.trace)) == sorted(offsets)
        found = by_thread(offsets)
        for thread in range(threads):
            calls = found.get(thread, [])
            assert calls == list(range(calls[0], calls[-1] + 1)) if calls else ended[thread] <= attached[thread] + 1
            assert not calls or calls[0] <= attached[thread] + 2 and ended[thread] <= calls[-1]
        shutil.rmtree(recording.trace)


def test_asks_for_nothing(record, cat):
    """The rescuer has no BPF object, no descriptor but directories, no privileges, little memory; it can wait."""
    recording = record("-p", cat.pid)
    pid = rescuer_of(recording)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert not bpf_objects(pid) and os.getsid(pid) == pid
    assert all(int(status[c], 16) == 0 for c in ("CapEff", "CapPrm", "CapInh")) and status["NoNewPrivs"] == "1"
    files = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
    assert all(f in ("/dev/null", "anon_inode:[pidfd]") or f.startswith(str(recording.trace)) for f in files), files
    memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
    assert sum(int(n) for n in re.findall(r"^Private_\w+: +(\d+) kB", memory, re.M)) < 4096, memory
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    assert recording.stop() == 0 and has_ended(pid)


def test_rescuer_is_killed(record, read, cat):
    """Spoor goes on, and says once what that means."""
    recording = record("-p", cat.pid)
    os.kill(rescuer_of(recording), signal.SIGKILL)
    wait_for(lambda: "trace-rescue was killed" in recording.said(), 2)
    hang_again(cat)
    time.sleep(0.5)
    assert recording.stop() == 0
    assert recording.said().count("trace-rescue") == 1
    assert read(recording.trace).count("write") == 1


def test_directory_is_gone(record, cat, nothing_attached):
    """Then there is nothing to save; nothing hangs."""
    recording = record("-p", cat.pid)
    hang_again(cat)
    recording.process.send_signal(signal.SIGSTOP)  # or it would put files there meanwhile, or find that out itself
    wait_for(lambda: state(recording.pid) == "T")
    shutil.rmtree(recording.trace)
    recording.kill()
    nothing_attached(recording)
    assert not recording.trace.exists()


def test_disk_is_full(build, read, cat, tmp_path):
    """What was written stays; nothing hangs."""
    script = (f"{build}/spoor record -o disk/t.spoor -p {cat.pid} 2>said & "
              "until grep -q recording said; do sleep 0.02; done; dd if=/dev/zero of=disk/x bs=1k 2>/dev/null; "
              "echo go; read line; kill -9 $!; wait; "
              "for i in 1 2 3 4 5 6 7 8 9 10; do cat disk/t.spoor/manifest >/dev/null; sleep 0.05; done; "
              "cp -r disk/t.spoor kept.spoor")
    (tmp_path / "disk").mkdir()
    with subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c",
                           f"mount -t tmpfs -o size=2m none disk && {script}"],
                          cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout.readline() == b"go\n"
        hang_again(cat)
        tell(shell)
        assert shell.wait(20) == 0
    assert read(tmp_path / "kept.spoor", ended=False).summary["ended"] is False
    assert not [p for p in Path("/proc").glob("[0-9]*") if of_name(p) == "trace-rescue" and cwd_of(p) == str(tmp_path)]


def of_name(process):
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return None


def cwd_of(process):
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return None

# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs on a file system that does not answer any more: what hangs on a sick server can be looked at anyway."""
import json
import os
import shutil
import signal
import subprocess

import pytest

from processes import sleeps_in, wait_for

NANOSLEEP = 230


@pytest.fixture
def silent(tmp_path, start, ends_with_the_test):
    """The pid of a program that sleeps, on a file system whose server has stopped, and a trace from before."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    (tmp_path / "files").mkdir()
    (tmp_path / "mounted").mkdir()
    shutil.copy("/usr/bin/sleep", tmp_path / "files/dozer")
    server = start("bindfs", "-f", "files", "mounted")
    wait_for(lambda: (tmp_path / "mounted/dozer").exists())
    dozer = start(tmp_path / "mounted/dozer", "1000")
    wait_for(lambda: sleeps_in(dozer.pid, NANOSLEEP))
    server.send_signal(signal.SIGSTOP)
    yield dozer
    server.send_signal(signal.SIGCONT)
    dozer.kill()
    dozer.wait()
    subprocess.run(["umount", tmp_path / "mounted"], check=True)
    server.wait(20)


@pytest.mark.parametrize("whom", ["the program", "all"])
def test_record_and_report(silent, spoor, whom):
    """It begins, ends by itself, and tells of the call in which the program hangs; its stack is as far as it goes."""
    run = spoor("record", "-o", "t.spoor", "-m", "all", "-e", "clock_nanosleep", "--duration", "1s",
                *(["-a"] if whom == "all" else ["-p", silent.pid]), timeout=40)
    assert run.returncode == 0, run.stderr
    *calls, summary = map(json.loads, spoor("report", "-f", "json", "t.spoor", timeout=40).stdout.splitlines())
    (call,) = [c for c in calls if c["pid"] == silent.pid]
    assert call["event"] == "clock_nanosleep" and call["unfinished"] == "before" and summary["discarded"] == 0
    libc = [f["function"] for f in call["stack"] if f["object"] and "libc" in f["object"]]
    assert any("nanosleep" in name for name in libc if name), call


def test_interrupted(silent, record):
    recording = record("-p", silent.pid)
    recording.process.send_signal(signal.SIGINT)
    assert recording.process.wait(20) == 0


def test_report_of_before(silent, spoor, tmp_path):
    """A report of a program whose file does not answer: names of it are missing, not the report."""
    trace = tmp_path / "t.spoor"
    run = spoor("record", "-o", trace, "-m", "all", "-p", silent.pid, "--duration", "100ms", timeout=40)
    assert run.returncode == 0, run.stderr
    run = spoor("report", trace, timeout=30)
    assert run.returncode == 0 and "dozer" in run.stdout, run


def test_without_room_for_a_thread(spoor, build, tmp_path):
    """Files are opened by threads, so that one that does not answer is no trouble; where there can be none, without."""
    assert spoor("record", "-o", "t.spoor", "-m", "all", "--", "/usr/bin/python3", "-c", "pass").returncode == 0
    report = [build / "spoor", "report", "--format", "json", "t.spoor"]
    poor = ["prlimit", "--nproc=1", "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    rich, limited = (subprocess.run([*how, *report], cwd=tmp_path, capture_output=True, text=True, timeout=60)
                     for how in ([], poor))
    assert limited.returncode == 0, limited.stderr
    assert "_PyEval_EvalFrameDefault" in rich.stdout and limited.stdout == rich.stdout

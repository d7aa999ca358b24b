# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs on a file system that does not answer any more: what hangs on a sick server can be looked at anyway."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import PATIENCE, daemon, ticker  # noqa: F401
from processes import sleeps_in, wait_for

NANOSLEEP = 230


@pytest.fixture
def files(tmp_path, start, ends_with_the_test):
    """A file system, `mounted`, of what lies in `files`, and its server. Who maps of it is to end before."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    (tmp_path / "files").mkdir()
    (tmp_path / "mounted").mkdir()
    shutil.copy("/usr/bin/sleep", tmp_path / "files/dozer")
    server = start("bindfs", "-f", "files", "mounted")
    wait_for(lambda: (tmp_path / "mounted/dozer").exists())
    yield server
    subprocess.run(["umount", tmp_path / "mounted"], check=True)
    server.wait(20)


@contextlib.contextmanager
def stopped(server, program):
    server.send_signal(signal.SIGSTOP)
    try:
        yield program
    finally:
        server.send_signal(signal.SIGCONT)
        program.kill()
        program.wait()


@pytest.fixture
def silent(tmp_path, start, files):
    """A program that sleeps, on a file system whose server has stopped."""
    dozer = start(tmp_path / "mounted/dozer", "1000")
    wait_for(lambda: sleeps_in(dozer.pid, NANOSLEEP))
    with stopped(files, dozer):
        yield dozer


LIBRARIES = 70  # more than there may be threads that hang in opening
MAPPER = """
import ctypes, signal, time
signal.signal(signal.SIGURG, lambda *_: None)
for i in range(%d): ctypes.CDLL(f"mounted/l{i}.so")
print("ready", flush=True)
time.sleep(1000)
""" % LIBRARIES


@pytest.fixture
def mapper(tmp_path, start, files):
    """A program that has mapped many files of that file system."""
    for i in range(LIBRARIES):
        shutil.copy("/lib/x86_64-linux-gnu/libdl.so.2", tmp_path / f"files/l{i}.so")
    mapper = start("python3", "-c", MAPPER)
    assert mapper.stdout.readline() == b"ready\n"
    with stopped(files, mapper):
        yield mapper


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


def test_many_of_one_program(mapper, spoor, start):
    """Each is waited for once. What another program has mapped is not given up for them."""
    other = start("python3", "-c", "import time\nwhile True: time.sleep(.01)")
    run = spoor("record", "-o", "t.spoor", "-m", "all", "-p", mapper.pid, "-p", other.pid, "--duration", "1s",
                timeout=60)
    assert run.returncode == 0, run.stderr
    *calls, _ = map(json.loads, spoor("report", "-f", "json", "t.spoor", timeout=40).stdout.splitlines())
    walks = {c["walk"] for c in calls if c["pid"] == other.pid}
    assert walks and walks <= {"complete", "budget"}, walks


def test_daemon_that_looks_for_the_library(mapper, daemon):
    """In what they map, of programs that take SIGURG for themselves: no thread is left behind for each file."""
    for name in "one", "two":
        run = daemon.ust("start", "-s", name, "-o", f"{name}.spoor", "-e", "no:one")
        assert run.returncode == 0, run.stderr
    assert len(os.listdir(f"/proc/{daemon.process.pid}/task")) < 8


SENDER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from fakeprogram import Arena, Program
silent = os.open("mounted/dozer", os.O_RDONLY)
p = Program(sys.argv[3])
if sys.argv[2] == "daemon": p.setup()
print("ready", flush=True)
sys.stdin.readline()
p.offer(Arena(), silent)
print("sent", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("who", ["daemon", "keeper"])
def test_descriptors_sent_to_a_recorder(files, daemon, ticker, tmp_path, who):  # noqa: F811
    """Who closes a file has its server asked: neither the daemon waits for that, which throws it away, nor who keeps
    what programs say while there is none."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    if who == "keeper":
        daemon.kill()
    place = daemon.socket if who == "daemon" else f"{daemon.socket}.waiting"
    sender = subprocess.Popen([sys.executable, "-c", SENDER, Path(__file__).parent, who, place], cwd=tmp_path,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sender.stdout.readline() == b"ready\n"
    with stopped(files, sender):
        sender.stdin.write(b"\n")
        sender.stdin.flush()
        assert sender.stdout.readline() == b"sent\n"
        assert daemon.program(ticker, 1, 4).wait(PATIENCE) == 0
        if who == "keeper":
            daemon.start()
        assert daemon.ust("end").stdout.startswith("4 events of 1 program, 0 lost")


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

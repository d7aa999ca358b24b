# SPDX-License-Identifier: GPL-2.0-or-later
"""A `spoor daemon` of a test's own, programs for it, and what it wrote."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest
import tracing
from processes import wait_for

PATIENCE = 300  # seconds: what takes so long hangs, on a slow machine too


@pytest.fixture(scope="session")
def ticker(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "ticker", "ust_ticker.c")


@pytest.fixture
def open_place():
    """A directory that every user can use, where setuid works."""
    path = Path(tempfile.mkdtemp(prefix="spoor-test-", dir="/var/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


class Daemon:
    def __init__(self, build, tmp_path):
        self.build, self.cwd = build, tmp_path
        self.socket = tmp_path / "ust.sock"
        self.running, self.process = [], None

    def start(self):
        self.process = subprocess.Popen([self.build / "spoor", "daemon", "--socket", self.socket], cwd=self.cwd,
                                        stderr=subprocess.PIPE, text=True)
        self.said = [self.process.stderr.readline()]
        while "ready" not in self.said[-1]:
            assert self.said[-1], self.process.wait()
            self.said.append(self.process.stderr.readline())
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def ust(self, *words, check=True):
        run = subprocess.run([self.build / "spoor", "ust", words[0], "--socket", self.socket, *map(str, words[1:])],
                             cwd=self.cwd, capture_output=True, text=True, timeout=PATIENCE)
        assert not check or run.returncode == 0, (words, run.stderr)
        return run

    def environment(self, preload=True):
        """Of programs that it is to record."""
        return tracing.environment(self.build, None, preload, SPOOR_UST_SOCKET=self.socket)

    def program(self, *argv, preload=True, stdin=None, **env):
        """A program that has said that it is ready."""
        env = self.environment(preload) | env
        p = subprocess.Popen([str(a) for a in argv], cwd=self.cwd, env=env, stdin=stdin,
                             stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        self.running.append(p)
        return p

    def lines(self, pid):
        """What status says of a program: a line for each session. (Its number may be within any other there.)"""
        return [line for line in self.ust("status").stdout.splitlines() if line.startswith(f"{pid} ")]

    def line(self, pid):
        """The first of them; "": there is none."""
        return next(iter(self.lines(pid)), "")

    def finish(self, p):
        """Kills a program, and waits until what it left has been taken."""
        p.kill()
        p.wait()
        wait_for(lambda: not self.lines(p.pid))

    def so_far(self, name="t.spoor"):
        """What Spoor's reader finds in a trace that is still written; babeltrace2 is not for such."""
        run = subprocess.run([self.build / "spoor", "report", "--format", "json", name], cwd=self.cwd,
                             capture_output=True, text=True, timeout=PATIENCE)
        assert run.returncode == 0, run.stderr
        *events, self.summary = [json.loads(line) for line in run.stdout.splitlines()]
        assert not self.summary["damages"]
        return [e for e in events if e["event"].startswith("zoo:")]

    def events(self, name="t.spoor"):
        events = self.so_far(name)
        babel = subprocess.run(["babeltrace2", "-o", "dummy", name], cwd=self.cwd, capture_output=True, text=True)
        assert babel.returncode == 0, babel.stderr
        return events

    def ticks(self, name="t.spoor"):
        """{(pid, thread): [n, ...]} in the order of time."""
        found = defaultdict(list)
        for e in self.events(name):
            if e["event"] == "zoo:tick":
                found[e["pid"], e["fields"]["thread"]].append(e["fields"]["n"])
        return found


def keeper_pid(path):
    """The process that listens at PATH.keeper; None: nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(path)
        except OSError:
            return None
        return struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def end_keeper(path):
    """What a daemon that was killed has left behind on purpose."""
    pid = keeper_pid(path)
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.unlink(path)


@pytest.fixture
def daemon(build, tmp_path):
    d = Daemon(build, tmp_path)
    yield d.start()
    for p in d.running:
        if p.poll() is None:
            p.kill()
        p.wait()
    if d.process.poll() is None:
        d.kill()
    end_keeper(f"{d.socket}.keeper")


def in_a_row(numbers):
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def stop_and_start(daemon, p):
    """A daemon that is stopped in order and started again, some times, under a program of its session."""
    for _ in range(3):
        time.sleep(0.3)
        daemon.kill(signal.SIGTERM)
        time.sleep(0.2)
        daemon.start()
        wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    time.sleep(0.5)


def all_of_two_threads(ticks, p):
    """Each event that a ticker of two threads wrote up to some moment, once."""
    assert sorted(ticks) == [(p.pid, 0), (p.pid, 1)]
    for numbers in ticks.values():
        assert numbers[0] == 0 and in_a_row(numbers) and len(numbers) > 1000


def counters(path, n):
    """A file of counters for TICKER_COUNTER."""
    path.write_bytes(bytes(8 * n))
    return path


def behind(counter):
    """Of each thread of a ticker: how many ticks it has behind it."""
    return [n for n, in struct.iter_unpack("<Q", counter.read_bytes())]


def exactly(ticks, counter):
    """Each event that a thread has behind it, once, and none that it had not begun: it may have written one more."""
    written = defaultdict(list)
    for (_, thread), numbers in ticks.items():
        written[thread] += numbers
    counts = behind(counter)
    assert set(written) <= set(range(len(counts)))
    for thread, n in enumerate(counts):
        numbers = written[thread]
        assert numbers == list(range(len(numbers))) and len(numbers) - n in (0, 1), (thread, n, len(numbers))
    return sum(counts)


def listed(daemon, pid):
    """The sites of a process, by name, as `spoor ust list` has them."""
    out = subprocess.run([daemon.build / "spoor", "ust", "list", "--format", "json", str(pid)], capture_output=True,
                         text=True, check=True).stdout
    return {s["event"]: s for s in map(json.loads, out.splitlines())}

# SPDX-License-Identifier: GPL-2.0-or-later
"""A `spoor daemon` of a test's own, programs for it, and what it wrote."""
import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)
    return value


@pytest.fixture(scope="session")
def ticker(tmp_path_factory):
    out = tmp_path_factory.mktemp("bin") / "ticker"
    subprocess.run(["gcc", "-O2", "-g", "-pthread", f"-I{ROOT}/include", "-o", out, ROOT / "tests/data/ust_ticker.c"],
                   check=True, timeout=60)
    return out


@pytest.fixture(scope="session")
def library(build):
    return build / "src/agent/libspoor-ust.so"


class Daemon:
    def __init__(self, build, tmp_path, library):
        self.build, self.cwd, self.agent = build, tmp_path, library
        self.socket = tmp_path / "ust.sock"
        self.running, self.process = [], None

    def start(self):
        self.process = subprocess.Popen([self.build / "spoor", "daemon", "--socket", self.socket], cwd=self.cwd,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        while "ready" not in line:
            assert line, self.process.wait()
            line = self.process.stderr.readline()
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(10)

    def ust(self, *words, check=True):
        run = subprocess.run([self.build / "spoor", "ust", words[0], "--socket", self.socket, *map(str, words[1:])],
                             cwd=self.cwd, capture_output=True, text=True, timeout=30)
        assert not check or run.returncode == 0, (words, run.stderr)
        return run

    def program(self, *argv, preload=True, stdin=None, **env):
        """A program that has said that it is ready."""
        if preload:
            env["LD_PRELOAD"] = str(self.agent)
        env = os.environ | {"SPOOR_UST_SOCKET": str(self.socket)} | env
        p = subprocess.Popen([str(a) for a in argv], cwd=self.cwd, env=env, stdin=stdin,
                             stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        self.running.append(p)
        return p

    def finish(self, p):
        """Kills a program, and waits until what it left has been taken."""
        p.kill()
        p.wait()
        wait_for(lambda: str(p.pid) not in self.ust("status").stdout)

    def events(self, name="t.spoor"):
        run = subprocess.run([self.build / "spoor", "report", "--format", "json", name], cwd=self.cwd,
                             capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        *events, self.summary = [json.loads(line) for line in run.stdout.splitlines()]
        assert not self.summary["damages"]
        babel = subprocess.run(["babeltrace2", "-o", "dummy", name], cwd=self.cwd, capture_output=True, text=True)
        assert babel.returncode == 0, babel.stderr
        return [e for e in events if e["event"].startswith("zoo:")]

    def ticks(self, name="t.spoor"):
        """{(pid, thread): [n, ...]} in the order of time."""
        found = defaultdict(list)
        for e in self.events(name):
            if e["event"] == "zoo:tick":
                found[e["pid"], e["fields"]["thread"]].append(e["fields"]["n"])
        return found


def end_keeper(path):
    """What a daemon that was killed has left behind on purpose."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(path)
        except OSError:
            return
        pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    os.kill(pid, signal.SIGKILL)
    os.unlink(path)


@pytest.fixture
def daemon(build, tmp_path, library):
    d = Daemon(build, tmp_path, library)
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


def counted(path, threads):
    """A file of as many counters as TICKER_COUNTER wants, and how to read them."""
    path.write_bytes(bytes(4096))
    return {"TICKER_COUNTER": str(path)}, lambda: struct.unpack_from(f"<{threads}Q", path.read_bytes())


def check_each_once(ticks, pid, behind):
    """Of each thread all are there, in a row: as many as it has behind it, and at most one that it had not counted."""
    for thread, n in enumerate(behind):
        numbers = ticks[pid, thread]
        assert numbers[0] == 0 and in_a_row(numbers) and len(numbers) - n in (0, 1)


def listed(daemon, pid):
    """The sites of a process, by name, as `spoor ust list` has them."""
    out = subprocess.run([daemon.build / "spoor", "ust", "list", "--format", "json", str(pid)], capture_output=True,
                         text=True, check=True).stdout
    return {s["event"]: s for s in map(json.loads, out.splitlines())}

# SPDX-License-Identifier: GPL-2.0-or-later
"""A relay, daemons that send to it, and a network between them that can be cut, slowed and stopped."""
import fnmatch
import os
import random
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress

import pytest

from daemons import Daemon, end_keeper  # noqa: F401 (fixtures)
from processes import wait_for


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        return s.getsockname()[1]


class Relay:
    def __init__(self, build, directory, *options, host="127.0.0.1", scheme="tcp"):
        self.build, self.directory, self.options = build, directory, options
        self.port = free_port(host)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{shown}:{self.port}"
        self.log = directory.parent / f"{directory.name}.log"
        self.process = None

    def start(self):
        at = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.build / "spoor", "relay", "-o", self.directory, "--listen", self.url,
                                             *self.options], stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while b"ready at" not in self.log.read_bytes()[at:]:
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.005)
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(20)

    def said(self):
        return self.log.read_text()


class Sender(Daemon):
    """A daemon whose traces go to a relay, and the directory of what it sends."""
    def __init__(self, build, tmp_path, name, url, *options):
        where = tmp_path / name
        where.mkdir()
        super().__init__(build, where)
        self.name, self.options = name, ["--relay", url, "--host-name", name, *options]
        self.enter = []  # what executes it

    def start(self):
        self.errors = open(self.cwd / "daemon.log", "ab+")
        at = self.errors.seek(0, 2)
        self.process = subprocess.Popen([*self.enter, self.build / "spoor", "daemon", "--socket", self.socket,
                                         *self.options], cwd=self.cwd, stderr=self.errors, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while "spoor daemon: ready" not in self.said()[at:]:
            assert self.process.poll() is None and time.monotonic() < until, self.said()
            time.sleep(0.005)
        return self

    def said(self):
        return (self.cwd / "daemon.log").read_text()

    def end(self, *words):
        """Its last word: of a session that is at the relay, or, where that is slow, on its way there."""
        run = self.ust("end", *words, check=False)
        assert run.returncode in (0, 3) and (run.returncode == 3) == ("are on the way" in run.stderr), run
        return run.stdout

    def status(self):
        return self.ust("status").stdout

    def found(self):
        """All that can be seen of it and its programs, where something does not happen."""
        stacks = [subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(p.pid), "-ex", "thread apply all backtrace"],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
                  for p in [self.process, *self.running]]
        return "\n".join([self.said(), self.ust("status", check=False).stdout, *stacks])

    def close(self):
        for p in self.running:
            if p.poll() is None:
                p.kill()
            p.wait()
        if self.process and self.process.poll() is None:
            self.kill()
        end_keeper(f"{self.socket}.keeper")


class Proxy(threading.Thread):
    """Bytes from here to a port, as long as it likes: cut() breaks all connections at the byte where they are."""
    def __init__(self, to_port, rate=None):
        super().__init__(daemon=True)
        self.to_port, self.rate = to_port, rate
        self.listener = socket.create_server(("127.0.0.1", 0))
        if rate:  # else the system keeps megabytes on the way
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.port = self.listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self.pairs, self.lock = [], threading.Lock()
        self.cut_after, self.cuts, self.ends, self.passed = None, 0, False, 0
        self.holds = ()  # from which side nothing is taken: 0 the sender's, 1 the relay's
        self.carried = []  # of each pair: bytes from here, and back
        self.random = random.Random(20)
        self.start()

    def drop(self, pair):
        for s in pair[:2]:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            s.close()
        self.pairs.remove(pair)

    def cut(self):
        with self.lock:
            for pair in list(self.pairs):
                self.drop(pair)
            self.cuts += 1

    def take_in(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self.to_port))
        except OSError:
            near.close()
            return
        self.carried.append([0, 0])
        self.pairs.append((near, far, self.carried[-1]))

    def carry(self, pair, source):
        near, far, carried = pair
        to = far if source is near else near
        most = 65536 if not self.rate or source is far else max(1, self.rate // 50)
        try:
            data = source.recv(most)
            carried[source is far] += len(data)
            if self.cut_after is not None and source is near:
                self.cut_after -= len(data)
                if self.cut_after <= 0:
                    to.sendall(data[:max(0, len(data) + self.cut_after)])
                    data = b""
                    self.cut_after = None
                    self.cuts += 1
            if not data:
                raise OSError
            to.sendall(data)
        except OSError:
            self.drop(pair)
            return
        if source is near:
            self.passed += len(data)
            if self.rate:
                time.sleep(len(data) / self.rate)

    def run(self):
        while not self.ends:
            with self.lock:
                known = {pair[i]: pair for pair in self.pairs for i in (0, 1) if i not in self.holds}
            ready, _, _ = select.select([self.listener, *known], [], [], 0.02)
            with self.lock:
                for s in ready:
                    if s is self.listener:
                        self.take_in()
                    elif known[s] in self.pairs:
                        self.carry(known[s], s)

    def close(self):
        self.ends = True
        self.join()
        self.listener.close()
        for pair in list(self.pairs):
            self.drop(pair)


def written(directory, pattern):
    """[size] of the files there of such a name. What is renamed while they are looked for, as segments are that begin,
    may be missing."""
    sizes = []
    for where, _, names in os.walk(directory):
        for name in fnmatch.filter(names, pattern):
            with suppress(FileNotFoundError):
                sizes.append(os.stat(os.path.join(where, name)).st_size)
    return sizes


def rss_kb(pid, which="VmHWM"):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(which))


def quiet():
    return {k: v for k, v in os.environ.items() if not k.startswith("SPOOR_")}


@pytest.fixture
def relay(build, tmp_path):
    r = Relay(build, tmp_path / "relayed").start()
    yield r
    if r.process.poll() is None:
        r.kill(signal.SIGTERM)


@pytest.fixture
def sender(build, tmp_path, relay):  # noqa: F811
    made = []

    def make(name, url=None, *options):
        made.append(Sender(build, tmp_path, name, url or relay.url, *options).start())
        return made[-1]
    yield make
    for s in made:
        s.close()


@pytest.fixture
def proxy(relay):
    made = []

    def make(**options):
        made.append(Proxy(relay.port, **options))
        return made[-1]
    yield make
    for p in made:
        p.close()


def there(s, relay, name="t.spoor"):
    """{(pid, thread): [n ...]} of what the relay has."""
    return s.ticks(relay.directory / s.name / name)


def finish(s, relay, name="t.spoor"):
    said = s.end()
    wait_for(lambda: f"{s.name}/{name} (" in relay.said() and "complete" in relay.said())
    assert "silent" not in relay.said()
    return said

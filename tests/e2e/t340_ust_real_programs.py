# SPDX-License-Identifier: GPL-2.0-or-later
"""Open programs with a few tracepoints and markers added to their sources (tests/data/NAME.patch): what they say of
themselves, against what they or their clients know otherwise."""
import os
import random
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter

import pytest

from processes import wait_for
from recordings import user_events

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="session")
def built(build, tmp_path_factory):
    """built("bzip2", "make ...") -> the directory in which it was patched and built."""
    def run(package, how):
        archives = build / "debian-source"
        fetched = subprocess.run([f"{ROOT}/scripts/debian-source", archives, package], capture_output=True, text=True,
                                 timeout=200)
        assert fetched.returncode == 0, fetched.stderr
        where = tmp_path_factory.mktemp(package) / package
        shutil.copytree(archives / package, where)
        with open(f"{ROOT}/tests/data/{package}.patch", encoding="ascii") as patch:
            subprocess.run(["patch", "--quiet", "-p1"], cwd=where, stdin=patch, check=True, timeout=20)
        made = subprocess.run(how.replace("INCLUDE", f"-I{ROOT}/include"), shell=True, cwd=where, capture_output=True,
                              text=True, timeout=300)
        assert made.returncode == 0, made.stdout + made.stderr
        return where
    return run


@pytest.fixture(scope="session")
def bzip2(built):
    return built("bzip2", "make -s -j2 CFLAGS='-O2 -g -D_FILE_OFFSET_BITS=64 INCLUDE' bzip2") / "bzip2"


@pytest.fixture(scope="session")
def memcached(built):
    how = "./configure -q --disable-extstore --disable-docs CPPFLAGS=INCLUDE && make -s -j2 memcached"
    return built("memcached", how) / "memcached"


def of(events, name):
    return [e["fields"] for e in events if e["event"] == name]


def test_bzip2(spoor, bzip2, tmp_path):
    """Each block's number, checksums and size as `bzip2 -vvvv` prints them; packing and unpacking, several files."""
    rng = random.Random(7)
    files = [tmp_path / f"{name}.data" for name in ("one", "two two", "empty")]
    for path, size in zip(files, (2_300_003, 910_007, 0)):
        path.write_bytes(bytes(rng.choices(b"abcdefgh\n", k=size)))
    run = spoor("ust", "run", "-o", "t.spoor", "--", bzip2, "-vvvv", "-k", *files, timeout=120)
    assert run.returncode == 0, run.stderr
    events = user_events(spoor, tmp_path / "t.spoor")
    printed = re.findall(r"block (\d+): crc = 0x(\w+), combined CRC = 0x(\w+), size = (\d+)", run.stderr)
    assert len(printed) == 5
    blocks = [(e["number"], int(e["crc"], 16), int(e["combined"], 16), e["size"]) for e in of(events, "bzip2:block")]
    assert blocks == [(int(n), int(crc, 16), int(both, 16), int(size)) for n, crc, both, size in printed]
    assert of(events, "marker:bzip2_file") == [{"in": str(p), "out": f"{p}.bz2"} for p in files]
    unpacked = spoor("ust", "run", "-o", "u.spoor", "--", bzip2, "-dvvvv", "-c", f"{files[0]}.bz2", text=False)
    assert unpacked.stdout == files[0].read_bytes()
    again = of(user_events(spoor, tmp_path / "u.spoor"), "marker:bzip2_unpacked")
    checked = [(int(e["stored"], 16), int(e["computed"], 16)) for e in again]
    assert checked == [(crc, crc) for _, crc, _, _ in blocks[:3]]


class Client:
    """Talks to memcached, and knows what it has done."""

    def __init__(self, path, number):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rwb")
        self.rng = random.Random(number)
        self.done, self.number = Counter(), number

    def ask(self, line, body=None):
        self.file.write(line.encode() + b"\r\n" + (body + b"\r\n" if body is not None else b""))
        self.file.flush()
        return self.file.readline().decode().split()

    def store(self, verb, key, size):
        answer, = self.ask(f"{verb} {key} 0 0 {size}", b"x" * size)
        self.done["store", key, size + 2, answer.lower()] += 1

    def get(self, key):
        head = self.ask(f"get {key}")
        if head == ["END"]:
            self.done["miss", key] += 1
            return
        self.file.read(int(head[3]) + 2)
        assert self.file.readline() == b"END\r\n"
        self.done["hit", key, int(head[3]) + 2] += 1

    def work(self, n):
        for i in range(n):
            key = f"key-{self.number}-{self.rng.randrange(40)}"
            if self.rng.random() < 0.4:
                self.store(self.rng.choice(["set", "add", "replace"]), key, self.rng.randrange(2000))
            else:
                self.get(key)
        self.socket.shutdown(socket.SHUT_WR)
        assert self.file.read() == b""  # its event comes before it closes its end
        self.file.close()
        self.socket.close()


def test_memcached(spoor, start, build, memcached, tmp_path):
    """Four worker threads, many connections at once: stores, hits and misses as the clients count them, connections
    as the server's own log has them."""
    path = tmp_path / "memcached.sock"
    log = tmp_path / "log"
    with open(log, "wb") as to:
        server = start(build / "spoor", "ust", "run", "-o", "t.spoor", "--", memcached, "-s", path, "-u", "root", "-vv",
                       "-t", "4", stderr=to)
    wait_for(path.exists, 20)
    clients = [Client(path, i) for i in range(20)]
    threads = [threading.Thread(target=c.work, args=(500,)) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wait_for(lambda: log.read_text(errors="replace").count("connection closed") >= 20, 20)
    child, = (int(p) for p in open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii").read().split())
    os.kill(child, 15)
    assert server.wait(20) == 0
    events = user_events(spoor, tmp_path / "t.spoor")
    seen = Counter(("store", e["key"], e["bytes"], e["result"]["name"]) for e in of(events, "memcached:store"))
    seen += Counter(("hit", e["key"], e["bytes"]) for e in of(events, "memcached:hit"))
    seen += Counter(("miss", e["key"]) for e in of(events, "marker:memcached_miss"))
    assert seen == sum((c.done for c in clients), Counter()) and seen.total() == 20 * 500
    said = log.read_text(errors="replace")
    closed = Counter(int(fd) for fd in re.findall(r"<(\d+) connection closed", said))
    assert Counter(e["fd"] for e in of(events, "memcached:connection") if not e["opened"]) == closed
    opened = Counter(int(fd) for fd in re.findall(r"<(\d+) new auto-negotiating client connection", said))
    assert Counter(e["fd"] for e in of(events, "memcached:connection") if e["opened"] and e["fd"] in opened) == opened
    assert len({e["tid"] for e in events if e["event"] in ("memcached:store", "memcached:hit")}) == 4

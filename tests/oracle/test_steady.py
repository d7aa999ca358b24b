# SPDX-License-Identifier: GPL-2.0-or-later
"""A server under load, attached to while it runs: what it is asked for is counted to the last call, and from 1 s on it
is walked in the kernel, out of the cache; processes that come later are so from their first call on."""
import json
import socket
import subprocess
import time
from collections import Counter

from processes import wait_for
from recording import Recording, record as record_command

REQUESTS = 20011


def ping(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
            s.sendall(b"PING\r\n")
            return s.recv(10) == b"+PONG\r\n"
    except OSError:
        return False


def ask(port, times):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(times):
            s.sendall(b"ECHO %06d\r\n" % i)
            assert s.recv(64)


def test_redis_under_load(start, record, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = start("/usr/bin/redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path,
                   stdout=subprocess.DEVNULL)
    wait_for(lambda: ping(port))
    spoor = record("-m", "all", "-S", "64", "-p", server.pid)
    ask(port, 7)
    time.sleep(1.2)
    ask(port, REQUESTS)
    assert spoor.stop() == 0
    recording = Recording(spoor.trace)
    recording.check(hits=0.95)
    writes = [c for c in recording.calls if c["event"] == "write" and "socket" in c["args"]["fd"]]
    assert len(writes) == REQUESTS + 7 and all(c["ret"] > 0 for c in writes)
    assert len({json.dumps(c["stack"]) for c in writes}) == 1
    begin = min(c["begin"] for c in recording.calls if not c.get("unfinished"))
    late = Counter(c["way"] for c in recording.calls if c["begin"] > begin + 1_000_000_000)
    statuses = Counter(c["walk"] for c in recording.calls if c["begin"] > begin + 1_000_000_000)
    print(f"after 1 s: {dict(late)}, {dict(statuses)}")
    assert late["kernel"] >= 0.999 * sum(late.values()) and statuses["complete"] == sum(statuses.values())


def test_processes_that_come_later(tmp_path):
    """Once a program and its libraries are known, each new process that executes it is walked in the kernel, from its
    first call on."""
    command = "for i in 1 2 3; do /bin/true; done; sleep 1; i=0; while [ $i -lt 200 ]; do i=$((i + 1)); /bin/true; done"
    recording = record_command(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--", "/bin/sh", "-c", command)
    recording.check()
    (slept,) = [c["end"] for c in recording.calls if c["event"] == "clock_nanosleep"]
    late = [c for c in recording.calls if c["begin"] > slept and c["walk"] is not None]
    ways, processes = Counter(c["way"] for c in late), {c["pid"] for c in late if c["comm"] == "true"}
    print(f"{len(processes)} processes: {dict(ways)}")
    assert len(processes) == 200 and len(late) > 20 * len(processes)
    assert ways["kernel"] >= 0.999 * len(late) and {c["walk"] for c in late} == {"complete"}

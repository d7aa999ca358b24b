# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for processes, and talking with them. (tests/conftest.py has the fixture that starts them.)"""
import re
import socket
import struct
import time
from pathlib import Path

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def wait_for(condition, seconds=20, every=0.005, found=str):
    """Polls until condition() is true and returns its value. found(): what there is when that was in vain."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"waited {seconds} s in vain {found()}"
        time.sleep(every)
    return value


def ready(process, word=b"ready"):
    """It has said so."""
    assert process.stdout.readline() == word + b"\n"
    return process


def tell(process, text=b"\n"):
    process.stdin.write(text)
    process.stdin.flush()


def go(process):
    """What waits for a byte runs to its end."""
    tell(process, b"g")
    return process.wait(30)


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(pid, tid=None):
    """R, S, T, Z and so on, as in proc(5)."""
    return Path(f"/proc/{pid}/task/{tid or pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def status(pid, name):
    """A line of /proc/PID/status."""
    return re.search(rf"^{name}:\t(.*)", Path(f"/proc/{pid}/status").read_text(), re.M)[1]


def has_ended(pid):
    """Whoever inherited it may be slow to take note."""
    try:
        return state(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def sleeps_in(pid, nr, tid=None):
    """Whether it sleeps in this call; what it cannot know while the thread runs, it denies."""
    call = Path(f"/proc/{pid}/task/{tid or pid}/syscall").read_text().split()
    return call[0] == str(nr) and state(pid, tid) == "S"


def wait_until_all_pause(pid):
    """Every thread sleeps in pause(2)."""
    wait_for(lambda: all(sleeps_in(pid, 34, int(t.name)) for t in Path(f"/proc/{pid}/task").iterdir()))


def lingering():
    """A socket: whoever closes it last waits until the other end, which comes second, is closed."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        s.connect(listener.getsockname())
        end = listener.accept()[0]
    try:
        while s.send(bytes(4096), socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000))
    return s, end

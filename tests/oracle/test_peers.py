# SPDX-License-Identifier: GPL-2.0-or-later
"""Socket addresses, those that the kernel hands out among them, equal what strace reads in the same run."""
import codecs
import re
import subprocess

import pytest

from recording import SPOOR, record

PROGRAM = """
import ctypes, os, socket, threading, time
def pair(family, name, other):
    s, c = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    s.bind(name); c.bind(other)
    c.sendto(b'hello', s.getsockname())
    peer = s.recvfrom(100)[1]
    threading.Timer(0.1, s.sendto, (b'later', peer)).start()
    c.recvfrom(100)  # sleeps
    s.setblocking(False)
    try: s.recvfrom(100)
    except BlockingIOError: pass
    c.connect(s.getsockname()); c.getpeername(); c.send(b'x'); s.recv(1)
    libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(128)
    for n in 0, 1, 2, 5, 16, 128:
        length = ctypes.c_int(n)
        libc.getsockname(s.fileno(), room, ctypes.byref(length))
        ctypes.memset(room, 65, 128)
    libc.getsockname(s.fileno(), None, ctypes.byref(ctypes.c_int(9)))
    libc.getsockname(s.fileno(), room, None)
pair(socket.AF_INET, ('127.0.0.1', 0), ('127.0.0.1', 0))
pair(socket.AF_INET6, ('::1', 0), ('::1', 0))
pair(socket.AF_UNIX, 'one', 'other')
l = socket.create_server(('127.0.0.1', 0))
def late(): time.sleep(0.1); socket.create_connection(l.getsockname()).close()
threading.Thread(target=late).start()
a = l.accept()[0]
a.getpeername()
try: l.getpeername()
except OSError: pass
"""
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
CALLS = {"accept4", "bind", "connect", "getpeername", "getsockname", "recvfrom", "sendto"}
ADDRESS = re.compile(r"\{sa_family=[^{}]*\}")


def told(lines):
    """[(call, result, [address])] of the calls that have one."""
    calls = [CALL.search(line) for line in lines]
    return sorted((c[1], c[3], ADDRESS.findall(c[2])) for c in calls if c and c[1] in CALLS)


def whole(lines):
    """strace's lines, those of a call that another one interrupted joined."""
    begun = {}
    for line in lines:
        pid, _, text = line.partition(" ")
        if text.endswith(" <unfinished ...>"):
            begun[pid] = text.removesuffix(" <unfinished ...>")
        else:
            yield re.sub(r"^ *<\.\.\. \w+ resumed>", lambda _: begun.pop(pid), text)


def as_ours(line):
    """Without what is 0 here: an IPv6 address's flow and scope. Bytes in hex."""
    line = re.sub(r'sa_data="([^"]*)"', lambda m: "sa_data=0x" + codecs.escape_decode(m[1])[0].hex(), line)
    return re.sub(r'sin6_flowinfo=htonl\(0\), inet_pton\(AF_INET6, ("[^"]*"), &sin6_addr\), sin6_scope_id=0',
                  r"sin6_addr=inet_pton(\1)", line)


@pytest.mark.parametrize("mode", ["app", "none"])
def test_addresses_as_strace(tmp_path, mode):
    record(tmp_path / "t.spoor", "-m", mode, "-e", "%network", "--", "strace", "-f", "-qq", "-e", "trace=%network",
           "-o", tmp_path / "strace", "/usr/bin/python3", "-c", PROGRAM, cwd=tmp_path)
    ours = subprocess.run([SPOOR, "report", "--events", tmp_path / "t.spoor"], check=True, capture_output=True,
                          text=True).stdout
    theirs = (tmp_path / "strace").read_text()
    want, got = told(map(as_ours, whole(theirs.splitlines()))), told(ours.splitlines())
    assert len(want) > 60 and sum(len(addresses) for _, _, addresses in want) > 50
    assert got == want

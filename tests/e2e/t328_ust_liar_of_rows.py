# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorder that lies about rows: programs that walk their stacks by them do what they would have done. And one that
is late with them."""
import fcntl
import mmap
import os
import re
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from random import Random

import pytest

import tracing
from fakeprogram import DONE, board, message
from processes import wait_for
from t314_ust_hostile_recorder import kick, rule
from t324_ust_stacks import chain, events, functions  # noqa: F401 (fixtures)
from userwalks import told, walks  # noqa: F401 (fixture)

LAYOUT = Path(__file__).resolve().parents[2] / "src/unwind/row_layout.h"
VERSION = int(re.search(r"SPOOR_ROW_FILE_VERSION (\d+)", LAYOUT.read_text())[1])


def definitions(fd):
    """Objects that the arena defines: [(id, start, end, bias)]."""
    with mmap.mmap(fd, 0) as m:
        used, at, found = struct.unpack_from("<Q", m, 192)[0], 4096, []
        end = at + used
        while at < end:
            size, kind, number = struct.unpack_from("<IHH", m, at)
            if kind == 2:
                found.append((number, *struct.unpack_from("<QQQ", m, at + 8)))
            at += size
    return found


def random_rows(random, start, end, bias):
    """A table with a sound head, or nearly; its pages, rows and rules are anything."""
    n_pages, n_rules, n_rows = (end - start >> 16) + 1, random.randrange(1, 200), random.randrange(1, 4000)
    pages = b"".join(struct.pack("<II", *random.choice([(0, n_rows), (random.getrandbits(32), random.getrandbits(32)),
                                                        (random.randrange(n_rows), random.randrange(n_rows))]))
                     for _ in range(n_pages))
    rules = b"".join(struct.pack("<BBhi", random.choice([2, 2, 2, 3, 5, 6, 7, 8, random.getrandbits(8)]),
                                 random.choice([7, 0x17, 6, 0x16, random.getrandbits(8)]),
                                 random.randrange(-64, 64) * 8,
                                 random.choice([8, 16, 64, 4096, random.getrandbits(31), -random.getrandbits(31)]))
                     for _ in range(n_rules))
    rows = b"".join(struct.pack("<HH", i * 65536 // n_rows, random.choice([random.randrange(n_rules), 65535]))
                    for i in range(n_rows))
    size = 96 + len(pages) + len(rules) + len(rows)
    head = struct.pack("<8sIIQQQQQQIIIIIIII", b"SPOORROW", VERSION, 96, size, 0, 0, 0, 0, start - bias & ~0xffff,
                       n_pages, n_rules, n_rows, 0, 0, 0, 0, 0)
    data = bytearray(head + pages + rules + rows)
    if random.random() < 0.2:
        data[random.randrange(96)] ^= 1 << random.randrange(8)
    return data


def memfd_of(data, sealed=True):
    fd = os.memfd_create("rows", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


CHANNEL = struct.pack("<32sIIIIIHHII", b"c", 0, 0, 1, 0, 32, 4, 512, 0, 0)
SETUP = message(16, struct.pack("<IIQIIHHI", 3, 1, 0, 1, 1, 0, 1, 0) + CHANNEL * 8)


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_liar(build, walks, tmp_path, seed):
    """Whatever the rows say, and whatever else comes in their place: the program does what it would have done."""
    program, made = walks("default"), Random(seed)
    path = tmp_path / "sock"

    def lie():
        peer, _ = server.accept()
        peer.recv(4096)
        _, fds, _, _ = socket.recv_fds(peer, 4096, 1)
        for number, start, end, bias in definitions(fds[0]):
            rows = memfd_of(random_rows(made, start, end, bias), made.random() < 0.9)
            asked = message(24, struct.pack("<QQQIHH", start, end, bias, 1, made.randrange(2), made.randrange(9)),
                            serial=number)
            socket.send_fds(peer, [asked], [rows] if made.random() < 0.9 else [fds[0], rows])
            os.close(rows)
        kept.append((peer, fds))

    kept = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(path))
        server.listen(10)
        (tmp_path / "sock.sessions").write_bytes(board(SETUP, rule(), beat=time.monotonic_ns()))
        liar = threading.Thread(target=lie, daemon=True)
        liar.start()
        env = tracing.environment(build, None, SPOOR_UST_SOCKET=path, NO_ROWS="1")  # of what is loaded later none come
        run = subprocess.run([program, program.parent / "one.so"], env=env, capture_output=True, text=True, timeout=50)
        liar.join(10)
    assert kept and run.returncode == 0 and run.stdout.endswith("done\n") and not run.stderr, run
    assert len(told(run.stdout)) >= 28


def no_rows(start, end, bias):
    """A table whose pages are empty: walks end there. It does not fit in where a plugin was, which is to come back."""
    n_pages, n_rows = (end - start >> 16) + 1, 1 << 14
    size = 8 * n_pages + 8 + 4 * n_rows
    return struct.pack("<8sIIQQQQQQIIIIIIII", b"SPOORROW", VERSION, 96, 96 + size, 0, 0, 0, 0,
                       start - bias & ~0xffff, n_pages, 1, n_rows, 0, 0, 0, 0, 0) + bytes(size)


def is_done(peer):
    """Has the program answered to a rule?"""
    try:
        return struct.unpack_from("<H", peer.recv(4096, socket.MSG_DONTWAIT), 6)[0] == DONE
    except BlockingIOError:
        return False


def test_rows_of_what_another_has_replaced(spoor, build, chain, events, tmp_path):  # noqa: F811
    """They are for what they were asked for, once it comes back, and not for what lies there now."""
    path, plugins = tmp_path / "sock", [chain.parent / "one.so", chain.parent / "two.so"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(path))
        server.listen(1)
        (tmp_path / "sock.sessions").write_bytes(board(SETUP, rule(), beat=time.monotonic_ns()))
        p = subprocess.Popen([chain, *plugins], env=tracing.environment(build, None, SPOOR_UST_SOCKET=path, TWICE="1"),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            peer, _ = server.accept()
            peer.recv(4096)
            _, (arena,), _, _ = socket.recv_fds(peer, 4096, 1)
            assert p.stdout.readline() == b"ready\n"
            (number, *one), (_, *two) = definitions(arena)[-2:]
            assert one == two
            rows = memfd_of(no_rows(*one))
            socket.send_fds(peer, [message(24, struct.pack("<QQQIHH", *one, 1, 1, 0), serial=number)], [rows])
            peer.send(rule())
            wait_for(lambda: kick(p) or is_done(peer))  # in order: it has taken the rows
            p.communicate(b"\n", timeout=20)
        finally:
            p.kill()
            p.wait()
    (tmp_path / "out").mkdir()
    with open(arena, "rb") as f:
        (tmp_path / "out" / "late.arena").write_bytes(f.read())
    os.close(rows)
    assert spoor("ust", "recover", "out", "-o", "t.spoor").returncode == 0
    found = [[f for f in functions(e) if f in ("outer", "one", "two", "main")] for e in events("t.spoor")]
    assert found == [["outer", "main"], ["outer", "one", "main"], ["outer", "two", "main"],
                     ["outer", "main"], ["outer", "one"], ["outer", "two", "main"]]

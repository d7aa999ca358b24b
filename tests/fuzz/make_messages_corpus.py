#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the inputs of tests/fuzz/corpus/messages: make_messages_corpus.py DIRECTORY. They are kept in the tree.

Each function makes a deed of fuzz_messages.c: its number, and what it takes. Choices are indexes of its tables."""
import struct
import sys
from pathlib import Path

IP, STACK, ALL, PERF = 8, 32, 0x7fff3f, 0x000300  # contexts
STACK_ALL, CUSTOM = 4, 5


def channel(mode=0, packet=1, share=1, block=100, contexts=0, stack=0, budget=0):
    return bytes([0, mode, packet, share, block]) + struct.pack("<I", contexts)[:3] + bytes([stack, budget])


def setup(session=1, rules=1, channels=(channel(),), flags=2, buffers=0, left=0, answers=1, n_channels=None):
    n = len(channels) if n_channels is None else n_channels
    return bytes([0, flags, rules, buffers, n, session, left, answers, 1]) + b"".join(channels) + b"\0"


def rule(session=1, enable=0, channels=255, level=255, kind=0, pattern=0, filter=0):
    """enable 3: disable. A pattern or filter of bytes is taken as it is."""
    words = b"".join(bytes([200 + len(t)]) + t if isinstance(t, bytes) else bytes([t]) for t in (pattern, filter))
    return bytes([1, session, enable, channels, level, kind, 1]) + words + b"\0"


def record(session=1, on=1):
    return bytes([2, session, on, 1, 0])


def end(session=1):
    return bytes([3, session, 0])


def rows(session=1, which=0, kind=1, app=1, limit=3, file=b""):
    return bytes([4, session, which, kind]) + file + bytes([app, limit, 0])


def row_file(rules, table, page=0):
    """rules: (op, reg and rbp, rbp_off, cfa_off); table: (pc, rule)."""
    return bytes([page, len(rules), len(table), len(table)]) + b"".join(
        bytes([op, reg]) + struct.pack("<hi", rbp, cfa) for op, reg, rbp, cfa in rules) + b"".join(
        (struct.pack("<H", pc) if i else b"") + bytes([r]) for i, (pc, r) in enumerate(table))


def serve(how=0):
    return bytes([5, how])


def fire(n=3):
    return bytes([6, n])


def damage(at, value, cut=None):
    return bytes([7]) + struct.pack("<HB", at, value) + (b"\1" if cut is None else b"\0" + struct.pack("<H", cut))


def nonsense(kind=99, size=3, passed=0):
    return bytes([8, kind, size, passed]) + (b"\0" if kind < 64 else b"")


def hang_up(again=1):
    return bytes([9, again]) + bytes(again)


BOARD, DEAF = bytes([10]), bytes([11])
FRAMES = row_file([(2, 0x17, -16, 16), (6, 0x16, -16, 0), (2, 0x36, 8, 24), (3, 7, 0, 8)],
                  [(0, 0), (0x100, 1), (0x1000, 2), (0x8000, 3), (0xf000, 0)])
EIGHT = tuple(channel(mode=i % 3, packet=i % 4, share=i % 3, contexts=1 << i % 6, stack=i % 6) for i in range(8))
STACKS = (channel(contexts=STACK, stack=STACK_ALL, budget=20), channel(contexts=ALL, stack=CUSTOM, budget=255))


def main(directory):
    begin = setup() + rule() + serve()
    files = {
        "one": begin + fire(9) + record(on=0) + serve(2) + fire() + record() + serve(1) + fire() + end() + serve(),
        "eight_channels": setup(channels=EIGHT, buffers=4, rules=3) + rule(channels=15, pattern=1, filter=3)
        + rule(channels=240, kind=2, level=6) + rule(channels=2, enable=3, pattern=3) + serve() + fire(11),
        "sessions": b"".join(setup(s, left=max(7 - s, 0), answers=s % 2) + rule(s, filter=s) for s in range(1, 9))
        + serve() + fire() + setup(9) + rule(9) + b"".join(record(s, s % 2) for s in range(10)) + serve(2) + fire()
        + b"".join(end(s) for s in (3, 1, 11, 0, 8)) + setup(10) + rule(10) + serve() + fire(),
        "anew": begin + fire() + setup(rules=3) + rule(pattern=4) + serve() + fire() + rule(pattern=3, filter=b"n <")
        + rule() + serve() + setup(rules=2) + rule(pattern=2) + hang_up() + fire() + setup(0, 0) + serve(),
        "stacks": setup(channels=STACKS, buffers=4) + rule() + serve() + fire(2) + rows(which=255, kind=0)
        + rows(file=FRAMES) + rows(which=1, kind=0) + serve(2) + fire() + rows(which=1, file=FRAMES) + serve() + fire(),
        "files": setup(channels=STACKS, buffers=3) + rule() + serve()
        + b"".join(rows(kind=k, which=k % 2, file=b"" if k in (3, 4) else FRAMES) + serve(k)
                   for k in (3, 4, 2, 5, 6, 7))
        + rows(2, 220) + rows(which=250) + serve() + fire(),
        "buffers": b"".join(setup(1 + i, buffers=i, channels=(channel(packet=i % 10, mode=i % 4, contexts=IP),))
                            + rule(1 + i) + serve(i) for i in range(13)) + fire()
        + setup(buffers=9, channels=(channel(packet=5),) * 8) + rule() + serve(),
        "wrong": begin + b"".join(damage(at, v, cut) + setup(2) + serve() for at, v, cut in
                                  ((0, 7, None), (4, 9, None), (6, 99, None), (8, 7, None), (16, 3, 500), (32, 9, None),
                                   (20, 0, None), (32, 0, None))) + damage(95, 9)
        + setup(5, channels=(channel(2),)) + rule(5) + serve() + fire(11) + nonsense() + serve()
        + nonsense(3, 3, 1) + serve()
        + nonsense(255, 9, 1) + serve() + nonsense(255, 0, 1) + serve() + fire(),
        "board": BOARD + setup(rules=2) + rule() + rule(filter=2) + setup(2) + rule(2) + record(2, 0) + fire() + BOARD
        + setup(rules=7, left=3) + rule() + rule(2) + end() + rule() + serve() + fire(),
        "away": begin + fire() + DEAF + setup(rules=1, buffers=3) + rule() + hang_up(0) + serve() + fire()
        + hang_up() + DEAF + setup(2) + rule(2) + serve(1) + record(2) + serve(2) + fire(),
    }
    for name, data in files.items():
        Path(directory, name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1])

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""make_relay_corpus.py DIR: what senders and relays say, sound and not, for fuzz_relay."""
import json
import struct
import sys
from pathlib import Path


def head(kind, size, number=0):
    return struct.pack("<IHHQ", size, kind, 0, number)


def hello(kind=1, host=b"h", name=b"t.spoor", acked=0, parts=2, version=3, token=b"t" * 16):
    body = b"SPOORREL" + struct.pack("<II", version, kind) + token + b"i" * 16 + b"\1" + bytes(15)
    body += struct.pack("<QQII", acked, 1 << 20, parts, 0) + host.ljust(64, b"\0") + name.ljust(128, b"\0")
    return head(1, 16 + len(body)) + body


def op(kind, number, part=1, instance=0, segment=1, offset=0, flag=0, data=b""):
    return head(kind, 40 + len(data), number) + struct.pack("<HHIQQ", part, instance, segment, offset, flag) + data


def packet(seq):
    uuid = bytes(16)
    source = b"a" * 16 + struct.pack("<QQ", 1, 64)
    body = b""
    size = 104
    fixed = struct.pack("<I", 0xC1FC1FC1) + uuid
    return (fixed + struct.pack("<I", 1) + struct.pack("<QQQ", seq, 1, 2)).ljust(size, b"\0") + body + source


MANIFEST = json.dumps({
    "format": "spoor-trace", "version": 2, "uuid": "00000000-0000-4000-8000-000000000000", "epoch_offset": 5,
    "clocks": [], "command": "c", "mode": "ust", "ended": False, "lost_writing": 0, "counters": {},
    "hosts": [{"hostname": "h", "directory": "h", "release": "r", "machine": "m",
               "boot_id": "01000000-0000-0000-0000-000000000000",
               "parts": [{"type": "ust", "directory": "ust", "segments": [],
                          "dropped": {"segments": 0, "bytes": 0}}]}]}).encode()


def record(kind, data=b""):
    data += bytes(-len(data) % 8)
    return struct.pack("<II", kind, len(data)) + data


def digest():
    out = record(1, MANIFEST)
    for n in (1, 2, 5):
        out += record(2, struct.pack("<IIQQQQ", n, 0, 1000 * n, 900 * n, n, n + 1))
    for i in (0, 3, 65534, 65535):
        out += record(3, struct.pack("<IIQQQ", i, 0, 7, 2, 99))
    out += record(5, b"a" * 16 + struct.pack("<QQ", 1, 64) + b"b" * 16 + struct.pack("<QQ", 2, 128))
    out += record(6, struct.pack("<II", 7, 9))
    return out + record(7)


SESSION = (hello() + op(16, 1) + op(17, 2, data=b"/* CTF 1.8 */") + op(18, 3)
           + op(20, 4, flag=0, data=MANIFEST[:100]) + op(20, 5, offset=100, flag=1, data=MANIFEST[100:])
           + op(19, 6, instance=65535, data=packet(0)) + op(19, 7, data=packet(0)))

CASES = {
    "session": b"M" + SESSION + op(22, 8, flag=1),
    "again": b"M" + SESSION + hello(acked=5) + op(20, 6, offset=100, flag=1, data=MANIFEST[100:]) + op(21, 7),
    "resume": b"M" + SESSION + hello(kind=2) + op(16, 1, segment=2) + op(18, 2, segment=2),
    "gap": b"M" + hello() + op(16, 1) + op(18, 2) + op(19, 3, offset=99, data=b"x"),
    "names": b"M" + hello(host=b"../../etc", name=b"passwd") + hello(name=b"/tmp/x") + hello(name=b"a\0b"),
    "other": b"M" + hello() + hello(token=b"u" * 16) + hello(token=b"v" * 16, parts=3) + op(16, 1, part=0),
    "version": b"M" + hello(version=1),
    "kernel": b"M" + hello(parts=1) + op(16, 1, part=0) + op(19, 2, part=0, instance=4097, data=b"x" * 100),
    "digest": b"D" + digest(),
}

if __name__ == "__main__":
    for name, data in CASES.items():
        (Path(sys.argv[1]) / name).write_bytes(data)

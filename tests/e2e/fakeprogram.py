# SPDX-License-Identifier: GPL-2.0-or-later
"""A traced program as it looks from outside, made by hand: an arena in a memfd, and the control socket's messages.

What libspoor-ust never does, this can: garbage, wrong versions, silence. docs/formats/ust-memory.md, ust-control.md.
"""
import fcntl
import mmap
import os
import socket
import struct
import time
import uuid

MAGIC = 0x43525053
HELLO, ARENA, DONE, SETUP, RULE, RECORD, END, COMMAND, TEXT = 1, 2, 3, 16, 17, 18, 19, 32, 33
KICKED, FORKED = 1, 2
DEFS, DEFS_SIZE, HEADER, PACKET = 4096, 16384, 128, 65536
FREE, OWNED, IDLE, FULL, READING = range(5)


def message(kind, body, version=3, serial=0, magic=MAGIC, size=None):
    return struct.pack("<IHHII", magic, version, kind, 16 + len(body) if size is None else size, serial) + body


def board(*notes, magic=0x42525053, version=3, single=0, generation=5, n_notes=None, beat=0):
    """A recorder's board; notes are messages, or (pid, start time, message)."""
    notes = [n if isinstance(n, tuple) else (0, 0, n) for n in notes]
    head = struct.pack("<IHHIIQ", magic, version, single, generation, len(notes) if n_notes is None else n_notes, beat)
    return head.ljust(64, b"\0") + b"".join(struct.pack("<IIQ784s", pid, 0, start, m) for pid, start, m in notes)


def start_time(pid="self"):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[19])


def text_of(*strings):
    data = b"".join(s.encode() + b"\0" for s in strings)
    return data + bytes(-len(data) % 8)


def field(name, kind, size, base=10, flags=0, shape=0, count=0):
    words = text_of(name)
    return struct.pack("<IBBBBBBHHH", 16 + len(words), kind, shape, size, base, flags, 0, count, 0, 0) + words


def event_class(number, name, *fields):
    texts = text_of("fake", name, "fake.c", "main", "")
    body = struct.pack("<BBBBHHIIQ", 0, 6, 0, 0, len(fields), len(texts), 7, 0, 1) + texts + b"".join(fields)
    return struct.pack("<IHH", 8 + len(body), 1, number) + body


COUNT = event_class(1, "count", field("n", 1, 8), field("who", 4, 1))


class Arena:
    """`packets` packets, one class `fake:count` (u64 n, string who), stamps of CLOCK_MONOTONIC."""

    def __init__(self, packets=16, packet_size=PACKET, mode=0, sealed=True):
        self.packets, self.packet_size = packets, packet_size
        headers = DEFS + DEFS_SIZE
        self.headers, self.data = headers, (headers + packets * HEADER + 4095) // 4096 * 4096
        self.size = self.data + packets * packet_size
        self.fd = os.memfd_create("spoor-ust", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        if sealed:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.map = mmap.mmap(self.fd, self.size)
        self.uuid = uuid.uuid4().bytes
        now = time.monotonic_ns()
        boot = uuid.UUID(open("/proc/sys/kernel/random/boot_id").read().strip()).bytes
        self.put(0, "<QIIQ16s16sIIQQQIIIIQQQQ16s", 0x414e455241525053, 3, 1, self.size, self.uuid, boot, os.getpid(), 2,
                 start_time(), now, time.time_ns(), os.geteuid(), 1, packets, 0, DEFS, DEFS_SIZE, headers, self.data,
                 b"fake")
        self.put(1024, "<32sIIIIIIII", b"default", mode, packet_size, 0, packets, 1, 0, 0, 0)
        self.map[3072:3082] = b"/bin/fake\0"
        self.serial, self.positions, self.tids = 1, {}, {}
        self.define(COUNT)

    def put(self, at, form, *values):
        struct.pack_into(form, self.map, at, *values)

    def get(self, at, form="<Q"):
        return struct.unpack_from(form, self.map, at)[0]

    USED = 192  # defs_used, on a cache line of its own behind the fixed part

    def define(self, record):
        used = self.get(self.USED)
        self.map[DEFS + used:DEFS + used + len(record)] = record
        self.put(self.USED, "<Q", used + len(record))

    def header(self, i):
        return self.headers + i * HEADER

    def owner(self, i, state, tid=None):
        old = self.get(self.header(i))
        self.tids[i] = os.getpid() if tid is None else tid
        self.put(self.header(i), "<Q", ((old >> 40) + 1) << 40 | state << 32 | self.tids[i])

    def state(self, i):
        return self.get(self.header(i)) >> 32 & 15

    def open(self, i, tid=None):
        now = time.monotonic_ns()
        self.put(self.header(i) + 8, "<6Q", self.serial, 0, 0, now, now, self.serial)
        self.serial += 1
        self.positions[i] = 0
        self.owner(i, OWNED, tid)

    def event(self, i, n, who="me", ts=None, number=1, body=None, commit=True):
        body = struct.pack("<Q", n) + who.encode() + b"\0" if body is None else body
        size = (16 + len(body) + 7) // 8
        at = self.data + i * self.packet_size + self.positions[i]
        self.put(at, "<QHHI", time.monotonic_ns() if ts is None else ts, number, size * 2, self.tids[i])
        self.map[at + 16:at + size * 8] = body + bytes(size * 8 - 16 - len(body))
        self.positions[i] += size * 8
        if commit:
            self.put(self.header(i) + 16, "<Q", self.positions[i])

    def is_written(self, i):
        """Whether the recorder has all of a packet in its trace; of a channel that does not overwrite."""
        return self.get(self.header(i) + 24) == self.positions[i]

    def end(self):
        self.put(12, "<I", 2)


class Program:
    """A connection to a recorder."""

    def __init__(self, path=None, hello=True, **how):
        self.session = 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10)
        self.sock.connect(path or os.environ["SPOOR_UST_SOCKET"])
        if hello:
            self.hello(**how)

    def hello(self, version=3, arena_version=3, flags=0, n_arenas=0, comm=b"fake"):
        body = struct.pack("<IIIIQII16s256s", arena_version, flags, os.getpid(), 3, start_time(), n_arenas, 0, comm,
                           b"/bin/fake")
        self.sock.send(message(HELLO, body, version))

    def receive(self):
        """(type, serial, body); type 0: the other side has closed."""
        try:
            data = self.sock.recv(8192)
        except ConnectionResetError:
            return 0, 0, b""
        if not data:
            return 0, 0, b""
        _, _, kind, size, serial = struct.unpack_from("<IHHII", data)
        assert size == len(data)
        return kind, serial, data[16:]

    def setup(self):
        """What a recorder says to a HELLO: (session, [(enable, pattern)...])."""
        kind, serial, body = self.receive()
        assert kind == SETUP, kind
        flags, n_rules, _, _, session, self.left = struct.unpack_from("<IIQIIH", body)
        rules = []
        for _ in range(n_rules):
            kind, _, body = self.receive()
            assert kind == RULE
            rules.append((body[4], body[12:268].split(b"\0")[0].decode()))
        self.flags, self.session = flags, session
        self.done(serial, 3)
        return session, rules

    def offer(self, arena, fd=None):
        body = arena.uuid + struct.pack("<II", self.session, 0)
        socket.send_fds(self.sock, [message(ARENA, body)], [arena.fd if fd is None else fd])

    def done(self, serial, result=0, text=b""):
        self.sock.send(message(DONE, struct.pack("<iI240s", result, 0, text), serial=serial))

    def send(self, data):
        self.sock.send(data)


def command(path, *words):
    """What `spoor ust` does: (result, [lines])."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(path)
    sock.send(message(COMMAND, b"\0".join(w.encode() for w in words)))
    lines = []
    while True:
        data = sock.recv(8192)
        last, result = struct.unpack_from("<Ii", data, 16)
        lines.append(data[24:].decode())
        if last:
            return result, lines

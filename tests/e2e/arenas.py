# SPDX-License-Identifier: GPL-2.0-or-later
"""Arenas of traced programs and the files beside them, read anew from the drawing in src/agent/core/arena.h: an oracle
beside the recorder's reader. Strict: what is not as drawn is an AssertionError."""
import struct
from collections import namedtuple
from pathlib import Path

Event = namedtuple("Event", "ts tid name values packet")
Field = namedtuple("Field", "name type shape bytes base flags count labels")
Class = namedtuple("Class", "name kind level file line format fields channel")
Object = namedtuple("Object", "start end bias since ino size flags build_id path")
Packet = namedtuple("Packet", "serial state level tid owners channel events tsc mono")
INT, FLOAT, POINTER, STRING, ENUM = range(1, 6)
SIGNED, TEXT, CONTEXT, BIG, STACK, PADDING = 1, 2, 4, 8, 16, 32
FREE, OWNED, IDLE, FULL, READING = range(5)
DISCARD, OVERWRITE, BLOCK = range(3)
MAKING, LIVE, ENDED = range(3)


def text(b):
    return b.split(b"\0")[0].decode(errors="surrogateescape")


class Arena:
    def __init__(self, path):
        self.path = Path(path)
        self.data = self.path.read_bytes()
        magic, version, self.state, size = struct.unpack_from("<QIIQ", self.data, 0)
        assert magic == 0x414E455241525053 and version == 3 and size == len(self.data)
        self.uuid = self.data[24:40]
        (self.pid, self.clock, self.start, self.made, self.realtime, self.uid, n_channels, self.n_packets, _,
         defs, defs_size, headers, at) = struct.unpack_from("<IIQQQIIIIQQQQ", self.data, 56)
        self.comm = text(self.data[144:160])
        used, self.n_clocks = struct.unpack_from("<QQ", self.data, 192)
        assert used <= defs_size
        self.exe = text(self.data[3072:4096])
        self.channels = [self.channel(1024 + 128 * i) for i in range(n_channels)]
        self.objects = []
        self.classes = dict(self.definitions(self.data[defs:defs + used]))
        self.packets = []
        for c in self.channels:
            for i in range(c["n"]):
                head = self.data[headers + 128 * (c["first"] + i):][:128]
                c["overwritten"] += self.gone(head)
                self.packet(head, self.data[at:at + c["packet_size"]])
                at += c["packet_size"]
        assert at == len(self.data)
        self.from_spill = set()
        spill = self.path.with_suffix(".spill")
        if spill.exists():
            self.spill(spill.read_bytes())

    def channel(self, at):
        names = ("mode packet_size first n n_shared block_us contexts reserved lost large nested reserved shared "
                 "space waiters full lock").split()
        return dict(zip(names, struct.unpack_from("<8I5Q4I", self.data, at + 32)), name=text(self.data[at:at + 32]),
                    overwritten=0)

    @staticmethod
    def gone(head):
        serial, begun, gone, following = (struct.unpack_from("<Q", head, at)[0] for at in (8, 48, 64, 72))
        return gone if begun == serial else following

    @staticmethod
    def fields(b, n):
        for _ in range(n):
            size, kind, shape, width, base, flags, _, count, n_labels, _ = struct.unpack_from("<I6BHHH", b, 0)
            name = text(b[16:size])
            at, labels = 16 + (len(name) + 8) // 8 * 8, []
            for _ in range(n_labels):
                low, high, length = struct.unpack_from("<qqH", b, at)
                labels.append((low, high, text(b[at + 18:at + length])))
                at += length
            assert at == size
            yield Field(name, kind, shape, width, base, flags, count, labels)
            b = b[size:]
        assert not b

    def definitions(self, b):
        while b:
            size, kind, number = struct.unpack_from("<IHH", b, 0)
            assert kind in (1, 2) and size % 8 == 0
            if kind == 2:
                self.objects.append(self.object(b[:size]))
                b = b[size:]
                continue
            what, level, channel, _, n, length, line, _, _ = struct.unpack_from("<BBBBHHIIQ", b, 8)
            words = [w.decode() for w in b[32:32 + length].split(b"\0")]
            yield number, Class(words[0] + ":" + words[1], what, level, words[2], line, words[4],
                                list(self.fields(b[32 + length:size], n)), channel)
            b = b[size:]

    @staticmethod
    def object(b):
        start, end, bias, since, _, ino, size, _, _, flags, id_len = struct.unpack_from("<9QIB", b, 8)
        return Object(start, end, bias, since, ino, size, flags, b[88:88 + id_len].hex(), text(b[120:]))

    @staticmethod
    def one(field, b):
        if field.type == FLOAT:
            return struct.unpack("<f" if field.bytes == 4 else "<d", b)[0]
        return int.from_bytes(b, "big" if field.flags & BIG else "little", signed=bool(field.flags & SIGNED))

    def values(self, fields, b):
        at, values = 0, {}
        for f in fields:
            if f.type == STRING:
                end = b.index(b"\0", at)
                values[f.name] = b[at:end].decode(errors="surrogateescape")
                at = end + 1
                continue
            count = 1 if f.shape == 0 else f.count
            if f.shape == 2:
                count, = struct.unpack_from("<H", b, at)
                at += 2
            several = [self.one(f, b[at + i * f.bytes:at + (i + 1) * f.bytes]) for i in range(count)]
            at += count * f.bytes
            values[f.name] = bytes(several) if f.flags & TEXT else several if f.shape else several[0]
        assert at <= len(b) < at + 8 and not any(b[at:])
        return values

    def packet(self, head, data):
        owner, serial, committed, consumed, tsc, mono, begun = struct.unpack_from("<7Q", head, 0)
        channel, owners = struct.unpack_from("<II", head, 56)
        if not serial or not committed or serial != begun and self.channels[channel]["mode"] == OVERWRITE:
            return
        if consumed >> 32: # of an overwriting channel: with the serial
            assert consumed >> 32 <= serial
            consumed = 0
        assert consumed <= committed <= len(data)
        events, at, last = [], 0, 0
        while at < committed:
            ts, word = struct.unpack_from("<QQ", data, at)
            size = (word >> 16 & 0xFFFF) * 4
            assert 16 <= size <= committed - at, (hex(word), at, committed)
            assert ts >= last, "time goes backwards within a packet"
            c = self.classes[word & 0xFFFF]
            events.append(Event(ts, word >> 32, c.name, self.values(c.fields, data[at + 16:at + size]), serial))
            at, last = at + size, ts
        old = [p for p in self.packets if p.serial == serial]
        if old and len(old[0].events) >= len(events):
            return
        if old:
            self.packets.remove(old[0])
        self.packets.append(Packet(serial, owner >> 32 & 15, owner >> 36 & 15, owner & 0xFFFFFFFF, owners, channel,
                                   events, tsc, mono))

    def spill(self, b):
        while len(b) >= 32:
            magic, kind, size = struct.unpack_from("<IIQ", b, 0)
            assert magic == 0x4C505253 and b[16:32] == self.uuid
            if size > len(b):
                break
            if kind == 1:
                self.packet(b[32:160], b[160:size])
            b = b[(size + 7) // 8 * 8:]

    @property
    def events(self):
        return sorted((e for p in self.packets for e in p.events), key=lambda e: e.ts)

    def lost(self):
        return sum(c["lost"] + c["large"] + c["nested"] for c in self.channels)


def arenas(directory):
    """All of a directory, in the order of their making; but for those whose program died while it made them."""
    made = (p for p in Path(directory).glob("*.arena") if p.stat().st_size and any(p.open("rb").read(8)))
    return sorted(map(Arena, made), key=lambda a: a.made)


def has_begun(directory):
    """Whether a program there has committed an event: known by a packet's header alone."""
    for path in Path(directory).glob("*.arena"):
        with path.open("rb") as f:
            head = f.read(128)
            if len(head) == 128 and any(head[:8]):
                n, at = *struct.unpack_from("<I", head, 96), *struct.unpack_from("<Q", head, 120)
                f.seek(at)
                packets = f.read(128 * n)
                return any(any(packets[i + 16:i + 24]) for i in range(0, len(packets), 128))
    return False


def arena(directory):
    one, = arenas(directory)
    return one

# SPDX-License-Identifier: GPL-2.0-or-later
"""From an address of a process to (object, ELF virtual address), by /proc/PID/maps and the object's program headers."""
import functools
import struct


@functools.lru_cache(None)
def program(path):
    """(e_entry, [(offset, filesz, vaddr)] of PT_LOAD); None if it cannot be read."""
    try:
        with open(path, "rb") as f:
            head = f.read(64)
            if head[:5] != b"\x7fELF\x02":
                return None
            entry, phoff = struct.unpack_from("<QQ", head, 24)
            size, n = struct.unpack_from("<HH", head, 54)
            f.seek(phoff)
            table = f.read(size * n)
    except OSError:
        return None
    loads = []
    for i in range(n):
        kind, _, offset, vaddr, _, filesz = struct.unpack_from("<IIQQQQ", table, i * size)
        if kind == 1:
            loads.append((offset, filesz, vaddr))
    return entry, loads


def vaddr_of(path, offset):
    found = program(path)
    for load_offset, filesz, vaddr in found[1] if found else []:
        if load_offset & ~4095 <= offset < (load_offset + filesz + 4095) & ~4095:
            if load_offset <= offset < load_offset + filesz:
                return offset - load_offset + vaddr
    return offset


def locate(maps, pc, exact):
    """(object, offset) as spoor's JSON has them. The address before a return address is what lies in the object."""
    at = pc if exact else pc - 1
    for start, end, perms, offset, path in maps:
        if start <= at < end and "x" in perms:
            if path == "[vdso]":
                return path, pc - start
            if path.startswith("/"):
                return path, vaddr_of(path, at - start + offset) + pc - at
    return None, pc


def at_entry(obj, offset):
    """Whether it is in the _start of obj: there is no caller beyond."""
    found = program(obj) if obj else None
    return bool(found) and found[0] <= offset <= found[0] + 0x30

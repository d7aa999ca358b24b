#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the small ELF files of tests/fuzz/corpus/rows: make_rows_corpus.py DIRECTORY. They are kept in the tree."""
import struct
import sys
import zlib
from pathlib import Path

TEXT, DATA = 0x10000, 0x30000  # where code and tables are mapped


def uleb(v):
    out = b""
    while True:
        byte, v = v & 0x7f, v >> 7
        out += bytes([byte | (0x80 if v else 0)])
        if not v:
            return out


def sleb(v):
    out = b""
    while True:
        byte, v = v & 0x7f, v >> 7
        last = (v == 0 and not byte & 0x40) or (v == -1 and byte & 0x40)
        out += bytes([byte | (0 if last else 0x80)])
        if last:
            return out


class Packed(bytes):
    """A section with SHF_COMPRESSED."""


def elf(sections, segments_only=False, text_size=0x2000):
    """An object whose text is text_size bytes at TEXT and whose sections (name -> bytes) follow each other at DATA.
    One called .text is all of the text, which is the file itself, wherever its bytes are. What is Packed is compressed.
    """
    header_size = 64 + 56 * 3
    body, at, headers, names = b"", {}, [], b"\0"
    for name, data in sections.items():
        body += b"\0" * (-len(body) % 8)
        at[name] = (header_size + len(body), DATA + header_size + len(body), len(data))
        body += data
    total = header_size + len(body)
    frame = at.get(".eh_frame_hdr", (0, 0, 0))
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, TEXT, TEXT, total, text_size, 0x1000)
    tables = struct.pack("<IIQQQQQQ", 1, 4, 0, DATA, DATA, total, total, 0x1000)
    search = struct.pack("<IIQQQQQQ", 0x6474e550, 4, frame[0], frame[1], frame[1], frame[2], frame[2], 4)
    if ".dynamic" in at:
        offset, vaddr, size = at[".dynamic"]
        search = struct.pack("<IIQQQQQQ", 2, 4, offset, vaddr, vaddr, size, size, 8)
    if not segments_only:
        names = b"\0" + b"".join(n.encode() + b"\0" for n in sections) + b".shstrtab\0"
        headers = [bytes(64)]
        for name, (offset, vaddr, size) in at.items():
            if name == ".text":
                offset, vaddr, size = 0, TEXT, total
            flags = 2 if not isinstance(sections[name], Packed) else 0x800
            headers.append(struct.pack("<IIQQQQIIQQ", names.index(name.encode() + b"\0"), 1, flags, vaddr, offset, size,
                                       0, 0, 8, 0))
        headers.append(struct.pack("<IIQQQQIIQQ", names.index(b".shstrtab"), 3, 0, 0, total, len(names), 0, 0, 1, 0))
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, TEXT, 64,
        total + len(names) if headers else 0, 0, 64, 56, 3, 64, len(headers), len(headers) - 1 if headers else 0)
    return head + load + tables + search + body + (names + b"".join(headers) if headers else b"")


def record(body):
    body += b"\0" * (-(len(body) + 4) % 8)
    return struct.pack("<I", len(body)) + body


def cie(augmentation=b"zR", data=b"\0", program=b"\x0c\x07\x08\x90\x01", version=1, eh=True):
    out = struct.pack("<I", 0 if eh else 0xffffffff) + bytes([version]) + augmentation + b"\0"
    if version == 4:
        out += b"\x08\x00"
    out += b"\x01" + sleb(-8) + b"\x10"
    if augmentation.startswith(b"z"):
        out += uleb(len(data)) + data
    return record(out + program)


def fde(at, start, size, program, eh=True, augmented=True):
    """at: where the record begins in its section; the CIE is at 0. Addresses are absolute."""
    pointer = at + 4 if eh else 0
    return record(struct.pack("<IQQ", pointer, start, size) + (b"\0" if augmented else b"") + program)


PROGRAMS = {
    "push_rbp": b"\x41\x0e\x10\x86\x02\x43\x0d\x06",
    "remember": b"\x44\x0e\x30\x0a\x48\x0e\x08\x41\x0b\x0e\x40",
    "advance": b"\x02\x10\x0e\x10\x03\x00\x01\x0e\x18\x04\x00\x02\x00\x00\x0e\x20",
    "outermost": b"\x07\x10",
    "ra_register": b"\x41\x0e\x00\x09\x10\x05",
    "ra_offset": b"\x41\x0e\x20\x05\x10\x02",
    "realign": b"\x45\x0c\x0a\x00\x49\x10\x06\x02\x76\x00\x42\x0f\x03\x76\x78\x06",
    "plt": b"\x46\x0e\x18\x4a\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22",
    "gnu": b"\x2e\x10\x2f\x06\x02\x11\x03\x7e\x12\x04\x7e\x13\x7e",
    "values": b"\x14\x06\x02\x15\x06\x7e\x16\x06\x02\x77\x08\x08\x06\xc6\x06\x06",
    "set_loc": b"\x01" + struct.pack("<Q", TEXT + 0x20) + b"\x0e\x10",
    "unknown": b"\x41\x3d\x0e\x10",
    "deep": b"\x0a" * 40,
    "cut": b"\x41\x0f\x7f\x77",
}


def eh_frame(programs, **how):
    out = cie(**how)
    augmented = how.get("augmentation", b"zR").startswith(b"z")
    for i, program in enumerate(programs):
        out += fde(len(out), TEXT + 0x100 * i, 0x80, program, augmented=augmented)
    return out + bytes(4)


def debug_frame(programs):
    out = cie(b"", b"", version=4, eh=False)
    for i, program in enumerate(programs):
        out += fde(len(out), TEXT + 0x100 * i, 0x80, program, eh=False, augmented=False)
    return out


def zlib_packed(data):
    return Packed(struct.pack("<IIQQ", 1, 0, len(data), 1) + zlib.compress(data))


def zstd_packed(data):
    """One block, of bytes as they are."""
    frame = struct.pack("<IBQ", 0xfd2fb528, 0xe0, len(data)) + struct.pack("<I", len(data) << 3 | 1)[:3] + data
    return Packed(struct.pack("<IIQQ", 2, 0, len(data), 1) + frame)


def search_table(sections):
    """.eh_frame_hdr: version 1, eh_frame pointer absolute, no table."""
    size = 64 + 56 * 3
    return {".eh_frame_hdr": b"\x01\x00\xff\xff" + struct.pack("<Q", DATA + size + 16) + bytes(4), **sections}


def loader():
    """By its name glibc's loader, of which it is also known where rbx is: here so far away that it wraps around."""
    name, size = b"\0\0ld-linux-x86-64.so.2\0", 16 * 3
    names_at = DATA + 64 + 56 * 3 + size
    dynamic = struct.pack("<QQQQQQ", 5, names_at, 14, 2, 0, 0)
    rbx_at = [b"\x41\x0e\x10\x11\x03" + sleb(n) for n in (2, -2, 1 << 60)]
    return elf({".dynamic": dynamic, ".dynstr": name, ".eh_frame": eh_frame(rbx_at)})


GO_FUNCTIONS = ["main.main", "runtime.goexit", "syscall.rawVforkSyscall", "main.saves", "runtime.asyncPreempt", "gogo"]


def go_code():
    """Of main.saves: mov [rsp+8], rbp; lea rbp, [rsp+8]. Comes first in the file, which is the text too."""
    return bytes(0x184 - (64 + 56 * 3)) + b"\x48\x89\x6c\x24\x08\x48\x8d\x6c\x24\x08"


def pcln(version, text=TEXT, units=False, deltas=None):
    """Functions, one each 0x80 bytes; deltas of each: 0, 16, 0 at 0, 4, 0x70. units: it says where tables of units
    and files would be, as Go's linker does."""
    deltas = deltas or uleb(2) + uleb(4) + uleb(32) + uleb(0x6c) + uleb(31) + uleb(0x10) + b"\0"
    names = b"\0" + b"".join(name.encode() + b"\0" for name in GO_FUNCTIONS)
    word = "<I" if version >= 18 else "<Q"
    head_size = {2: 16, 16: 64, 18: 72, 20: 72}[version]
    names_at, pcs_at = head_size, head_size + len(names)
    table_at = pcs_at + len(deltas) + 1
    entry = TEXT if version < 18 else 0
    functions, records = b"", b""
    table_size = (2 * len(GO_FUNCTIONS) + 1) * struct.calcsize(word)
    for i, name in enumerate(GO_FUNCTIONS):
        at = table_size + len(records) + (table_at if version == 2 else 0)
        functions += struct.pack(word, entry + 0x80 * i) + struct.pack(word, at)
        pcsp = 1 if version != 2 else pcs_at + 1
        name_at = names.index(b"\0" + name.encode() + b"\0") + 1 + (names_at if version == 2 else 0)
        records += struct.pack(word, entry + 0x80 * i) + struct.pack("<iiII24x", name_at, 0, 0, pcsp)
    functions += struct.pack(word, entry + 0x80 * len(GO_FUNCTIONS))
    magic = {2: 0xfffffffb, 16: 0xfffffffa, 18: 0xfffffff0, 20: 0xfffffff1}[version]
    head = struct.pack("<IHBB", magic, 0, 1, 8)
    if version == 2:
        head += struct.pack("<Q", len(GO_FUNCTIONS))
        return head + functions + records + names + b"\0" + deltas  # its tables' offsets are wrong: hostile
    head += struct.pack("<QQ", len(GO_FUNCTIONS), 0) + (struct.pack("<Q", text) if version >= 18 else b"")
    units_at = pcs_at if units else 0
    head += struct.pack("<QQQQQ", names_at, units_at, units_at, pcs_at, table_at)
    return head + names + b"\0" + deltas + functions + records


def go_searched():
    """The table lies in .rodata, across what is read at a time, behind that of a program which this one carries."""
    carried = bytes(8) + pcln(20, 0x400000, units=True)
    return {".text": go_code(), ".rodata": carried + bytes(8192 - 8 - len(carried)) + pcln(20, units=True)}


def go_relocated():
    """The table lies in .data.rel.ro of a position-independent program, and the loader writes where text is."""
    code, relro = go_code(), bytes(24) + pcln(18, 0, units=True)
    code += bytes(-len(code) % 8)
    text_word = DATA + 64 + 56 * 3 + len(code) + 24 + 24
    return {".text": code, ".data.rel.ro": relro, ".rela.dyn": struct.pack("<QQq", text_word, 8, TEXT)}


def go_module(relocated):
    """As since Go 1.26: not the table says where text is, but the module's data; or what the loader writes there."""
    code, table = go_code(), pcln(20, 0, units=True)
    code, table = code + bytes(-len(code) % 8), table + bytes(-len(table) % 8)
    at = DATA + 64 + 56 * 3 + len(code)
    module = at + len(table)
    sections = {".code": code, ".gopclntab": table}
    if not relocated:
        return {**sections, ".go.module": struct.pack("<Q168xQ408x", at, TEXT)}
    return {**sections, ".go.module": bytes(592),
            ".rela.dyn": b"".join(struct.pack("<QQq", *word) for word in ((module, 8, at), (module + 176, 8, TEXT)))}


def main(directory):
    every = list(PROGRAMS.values())
    files = {f"cfa_{name}": elf({".eh_frame": eh_frame([program])}) for name, program in PROGRAMS.items()}
    files |= {
        "all": elf({".eh_frame": eh_frame(every)}),
        "debug_frame": elf({".debug_frame": debug_frame(every)}),
        "debug_frame_zlib": elf({".debug_frame": zlib_packed(debug_frame(every))}),
        "debug_frame_zstd": elf({".debug_frame": zstd_packed(debug_frame(every))}),
        "zdebug_frame": elf({".zdebug_frame": b"ZLIB" + struct.pack(">Q", len(debug_frame(every)))
                             + zlib.compress(debug_frame(every))}),
        "both": elf({".eh_frame": eh_frame(every[:2]), ".debug_frame": debug_frame(every)}),
        "no_sections": elf(search_table({".eh_frame": eh_frame(every)}), segments_only=True),
        "signal": elf({".eh_frame": eh_frame([b"\x0f\x04\x77\xa0\x01\x06"], augmentation=b"zRS")}),
        "personality": elf({".eh_frame": eh_frame(every, augmentation=b"zPLR", data=b"\x9b\0\0\0\0\x1b\0")}),
        "unknown_letter": elf({".eh_frame": eh_frame(every, augmentation=b"zXR", data=b"\0")}),
        "plain": elf({".eh_frame": eh_frame(every, augmentation=b"")}),
        "overlap": elf({".eh_frame": cie() + b"".join(
            fde(len(cie()) + 0x20 * 0, TEXT + 8 * i, 0x800, PROGRAMS["push_rbp"]) for i in range(1))
            + fde(len(cie()) + 40, TEXT, 0x400, b"\x41\x0e\x10") + bytes(4)}),
        "empty_text": elf({".eh_frame": eh_frame(every)}, text_size=0),
        "no_information": elf({".comment": b"nothing"}),
    }
    files |= {f"go_{v}": elf({".code": go_code(), ".gopclntab": pcln(v)}) for v in (2, 16, 18, 20)}
    files["loader"] = loader()
    files["go_far"] = elf({".code": go_code(), ".gopclntab": pcln(20, deltas=uleb((1 << 64) - 1) + uleb(4) + b"\0")})
    files["go_and_cfi"] = elf({".eh_frame": eh_frame(every[:1]), ".gopclntab": pcln(20)})
    files["go_searched"] = elf({**go_searched(), ".note.go.buildid": b"some"})
    files["go_relocated"] = elf({**go_relocated(), ".go.buildinfo": b"some"})
    files["go_module"] = elf(go_module(False))
    files["go_module_relocated"] = elf(go_module(True))
    files["go_uncertain"] = elf(go_searched())  # nothing says that it is a Go program
    for name, data in files.items():
        Path(directory, name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1])

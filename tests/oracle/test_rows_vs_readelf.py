# SPDX-License-Identifier: GPL-2.0-or-later
"""Every unwind row of real objects equals what readelf's own interpreter of call frame information says."""
import bisect
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import elf

LIB = Path("/usr/lib/x86_64-linux-gnu")
OBJECTS = ["/usr/bin/python3.11", "/usr/bin/bash", "/usr/sbin/apache2", LIB / "libc.so.6", LIB / "libcrypto.so.3",
           LIB / "ld-linux-x86-64.so.2", LIB / "libstdc++.so.6", "/usr/bin/gdb"]

NONE, END, CFA, DEREF, PLT, SIGNAL, FP, RA_REG, RA_OFF, INJECTED, RBX = range(11)
LOADER = LIB / "ld-linux-x86-64.so.2"  # its rules also say where rbx is
MOV_RBP_RSP = b"\x48\x89\xe5"
ENTRY_CODE = 256  # after an entry point that nothing describes
SAME, AT_CFA, AT_RBP, AT_REG, UNDEF = range(5)
REGISTERS = {name: i for i, name in enumerate("rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split())}

PLT_TEXT = re.compile(r"DW_OP_breg7 \(rsp\): 8; DW_OP_breg16 \(rip\): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit(\d+); "
                      r"DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus")
DEREF_TEXT = re.compile(r"DW_OP_breg\d+ \((\w+)\): (-?\d+); DW_OP_deref(?:; DW_OP_plus_uconst: (\d+))?")
FRAME_HEAD = re.compile(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (CIE|FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+))")
BREG_TEXT = re.compile(r"DW_OP_breg\d+ \((\w+)\): (-?\d+)")


def s32(v):
    return (v & 0xffffffff) - ((v & 0x80000000) << 1)


def expressions(path):
    """FDE or CIE offset -> the distinct texts of its CFA expressions and of its rbp expressions; and which are 'S'."""
    cfa, rbp, signal, at = {}, {}, set(), None
    out = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, text=True).stdout
    for line in out.splitlines():
        head = re.match(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (CIE|FDE)", line)
        if head:
            at = int(head[1], 16)
            cfa[at], rbp[at] = set(), set()
        elif "Augmentation:" in line and "S" in line.split('"')[1]:
            signal.add(at)
        elif "DW_CFA_def_cfa_expression" in line:
            cfa[at].add(line[line.index("(") + 1:line.rindex(")")])
        elif re.search(r"DW_CFA_(val_)?expression: r6 ", line):
            rbp[at].add(line[line.index("(rbp) (") + 7:line.rindex(")")])
    return cfa, rbp, signal


def rows_of_readelf(path):
    """(start, end, [(pc, {column: rule})], offset, cie offset) of every FDE."""
    out = subprocess.run(["readelf", "--debug-dump=frames-interp", path], capture_output=True, text=True).stdout
    fdes, initial, rows, columns, is_cie, at = [], {}, None, [], False, None
    for line in out.splitlines():
        head = FRAME_HEAD.match(line)
        if head:
            at, is_cie, rows = int(head[1], 16), head[3] is None, []
            if not is_cie:
                fdes.append((int(head[4], 16), int(head[5], 16), rows, at, int(head[3], 16)))
        elif line.startswith("   LOC"):
            columns = line.split()[1:]
        elif re.match(r"[0-9a-f]{16} ", line):
            words = re.sub(r"r\d+ \((\w+)\)", r"\1", line).split()
            rows.append((int(words[0], 16), dict(zip(columns, words[1:]))))
            if is_cie:
                initial[at] = rows[-1][1]
    for start, _, rows, _, cie in fdes:
        if not rows:
            rows.append((start, initial[cie]))
    return fdes


def rbp_rule(row, texts, reg):
    """(kind, offset), or None where readelf does not say enough."""
    how = row.get("rbp", "u")
    if how in ("u", "s"):
        return SAME, 0
    if how.startswith("c"):
        offset = int(how[1:])
        return (AT_CFA, offset) if -32768 <= offset < 32768 else (UNDEF, 0)
    if how == "exp" and len(texts) == 1:
        m = BREG_TEXT.fullmatch(next(iter(texts)))
        if m and m[1] == "rbp":
            return AT_RBP, int(m[2])
        return (AT_REG, int(m[2])) if m and REGISTERS.get(m[1]) == reg else (UNDEF, 0)
    return None if how == "exp" else (UNDEF, 0)


def cfa_rule(row, texts):
    """(op, register, offset)"""
    how = row["CFA"]
    if how != "exp":
        m = re.fullmatch(r"(\w+)([+-]\d+)", how)
        return CFA, REGISTERS[m[1]], s32(int(m[2]))
    if len(texts) != 1:
        return None
    text = next(iter(texts))
    if m := PLT_TEXT.fullmatch(text):
        return PLT, REGISTERS["rsp"], int(m[1])
    if m := DEREF_TEXT.fullmatch(text):
        return DEREF, REGISTERS[m[1]], s32((int(m[2]) & 0xffff) | int(m[3] or 0) << 16)
    return NONE, 0, 0


def expected(row, cfa_texts, rbp_texts, signal):
    """The rule as rows_dump prints it, or None where readelf does not say enough."""
    ra = row["ra"]
    if ra == "u":
        return END, REGISTERS["rsp"], 0, 0, 0
    cfa = cfa_rule(row, cfa_texts)
    if cfa is None:
        return None
    op, reg, off = cfa
    if signal and (op, reg, off) == (DEREF, REGISTERS["rsp"], 160):
        return SIGNAL, REGISTERS["rsp"], 0, 0, 0
    if op == NONE or row.get("rsp", "u") not in ("u", "s", "v+0"):
        return NONE, 0, 0, 0, 0
    if ra in REGISTERS:
        op, off = RA_REG, (off & 0xffff) | REGISTERS[ra] << 16
    elif ra.startswith("c") and ra != "c-8":
        op, off = RA_OFF, s32((off & 0xffff) | (int(ra[1:]) & 0xffff) << 16)
    elif ra != "c-8":
        return NONE, 0, 0, 0, 0
    rbp = rbp_rule(row, rbp_texts, reg)
    return None if rbp is None else (op, reg, *rbp, off)


class Rows:
    def __init__(self, build, path):
        out = subprocess.run([build / "tests/tools/rows_dump", path], capture_output=True, text=True, check=True).stdout
        head, *lines = out.splitlines()
        self.source, self.fdes, self.unsupported = map(int, head.split()[1:4])
        self.rows = [(int(w[0], 16), tuple(map(int, w[1:]))) for w in map(str.split, lines)]
        self.starts = [r[0] for r in self.rows]

    def at(self, pc):
        i = bisect.bisect_right(self.starts, pc) - 1
        return self.rows[i][1] if i >= 0 else (0, 0, 0, 0, 0)


def with_rbx(rule, row):
    """The rule of a CFA as the loader has it: how far below that rbx is, by 8, is the highest byte of its offset."""
    op, reg, rbp, rbp_off, off = rule
    how = row.get("rbx", "u")
    if op != CFA or reg not in map(REGISTERS.get, ("rbx", "rbp", "rsp")) or rbp not in (SAME, AT_CFA):
        return rule
    below = 0 if how in ("u", "s") else -int(how[1:])
    return RBX, reg, rbp, rbp_off, s32(below // 8 << 24 | off & 0xffffff)


def intervals(path):
    """(from, to, rule) in order, from readelf alone."""
    cfa, rbp, signal = expressions(path)
    for start, end, rows, at, cie in sorted(rows_of_readelf(path)):
        for i, (pc, row) in enumerate(rows):
            to = rows[i + 1][0] if i + 1 < len(rows) else end
            if pc < to:
                rule = expected(row, cfa[at], rbp[at], cie in signal)
                yield pc, to, with_rbx(rule, row) if rule and path == LOADER else rule


def in_gap(path, start, end, pc):
    """What we say of code that nothing describes: no rows, but for an entry point, and clone's system call (its caller
    is above it: CFA = rsp + 8, as just before), and what keeps frame pointers."""
    entry, loads = elf.program(path)
    offset = next((start - v + o for o, size, v in loads if v <= start < v + size), 0)
    with open(path, "rb") as f:
        f.seek(offset)
        if f.read(5) == b"\x0f\x05\x48\x85\xc0" and end - start <= 16:
            return [CFA]
        f.seek(offset)
        if MOV_RBP_RSP in f.read(end - start):
            return [NONE, CFA, FP]
    return [END] if start <= entry <= pc < entry + ENTRY_CODE else [NONE]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda p: Path(p).name)
def test_rows_equal_readelf(build, path):
    ours, counts, wrong, covered = Rows(build, path), Counter(), [], 0
    for start, to, rule in intervals(path):
        if covered and covered < start:
            counts["gaps"] += 1
            for pc in (covered, start - 1):
                if ours.at(pc)[0] not in in_gap(path, covered, start, pc):
                    wrong.append((hex(pc), "gap", ours.at(pc)))
        covered = max(covered, to)
        counts["unknown" if rule is None else "rows"] += 1
        if rule is None:
            continue
        counts[rule[0]] += 1
        wrong += [(hex(pc), rule, ours.at(pc)) for pc in (start, to - 1) if ours.at(pc) != rule]
    print(f"{path}: {dict(counts)}, {ours.unsupported} unsupported")
    assert not wrong, wrong[:10]
    assert counts["rows"] > 100
    # readelf's table does not say which expression: unknown where an FDE has several.
    assert counts["unknown"] <= counts["rows"] / 1000
    assert counts[NONE] <= max(8, counts["rows"] / 1000)


def test_signal_restorer_is_found_by_the_pc_before_it(build):
    """libc's FDE for its restorer begins one byte early, so that a search by return address - 1 finds it."""
    rows = Rows(build, LIB / "libc.so.6")
    signals = [i for i, (_, rule) in enumerate(rows.rows) if rule[0] == SIGNAL]
    assert len(signals) == 1
    code = LIB.joinpath("libc.so.6").read_bytes()
    start, end = rows.starts[signals[0]], rows.starts[signals[0] + 1]
    # After one byte of padding: mov $__NR_rt_sigreturn, %rax; syscall (libc's text lies at its file offset).
    assert code[start + 1:start + 10] == bytes.fromhex("48c7c00f0000000f05")
    assert end > start + 1


def test_vfork_keeps_its_return_address_in_a_register(build):
    rows = Rows(build, LIB / "libc.so.6")
    kept = [rule for _, rule in rows.rows if rule[0] == RA_REG]
    assert (RA_REG, REGISTERS["rsp"], 0, 0, REGISTERS["rdi"] << 16) in kept

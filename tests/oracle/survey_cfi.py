#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tabulates the unwind shapes of all objects below some directories, and how each agrees with libdw.

    survey_cfi.py BUILD DIRECTORY...     prints the tables of docs/unwinding.md
"""
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

OPS = "none END CFA DEREF PLT SIGNAL FP RA_REG RA_OFF".split()
REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()


def objects(directories):
    for directory in directories:
        for root, _, names in os.walk(directory):
            for name in names:
                path = Path(root, name)
                if path.is_symlink() or not path.is_file():
                    continue
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF":
                        yield path


def named(shape):
    return re.sub(r"r(\d+)", lambda m: REGISTERS[int(m[1])] if int(m[1]) < 17 else m[0], shape)


def disassembled(path, start, end):
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address=0x{start}",
                           f"--stop-address=0x{end}", path], capture_output=True, text=True).stdout


def other_registers(lines):
    """Rows whose CFA is not found from rsp or rbp: how many there are, and which hold a call that they would undo."""
    rows, length, calls = Counter(), Counter(), defaultdict(set)
    for reg, start, end, path in lines:
        rows[reg] += 1
        length[reg] += int(end, 16) - int(start, 16)
        # Shorter ones are prologues; to disassemble them all would take hours.
        if int(end, 16) - int(start, 16) > 48 and re.search(r"\t(call|syscall)", disassembled(path, start, end)):
            calls[reg].add(f"{Path(path).name}+0x{start}")
    print("\n| register | rows | mean bytes | rows over 48 bytes with a call |\n|---|---|---|---|")
    for reg, n in rows.most_common():
        print(f"| {REGISTERS[int(reg)]} | {n} | {length[reg] / n:.0f} | {len(calls[reg])} "
              f"{', '.join(sorted(calls[reg])[:3])} |")


def main(build, directories):
    shapes, first, where = Counter(), {}, defaultdict(set)
    heads, wrong, registers, nothing, go = [], [], [], [], 0
    run = subprocess.run([Path(build, "tests/tools/cfi_survey")], text=True, errors="replace", capture_output=True,
                         input="".join(f"{p}\n" for p in objects(directories)))
    for line in run.stdout.splitlines():
        word, *rest = line.split("\t")
        if word == "OBJECT":
            heads.append(list(map(int, rest[:5])))
        elif word == "WRONG":
            wrong.append(line)
        elif word == "OTHER":
            go += 1
        elif word == "NOROWS":
            nothing.append(rest[1])
        elif word == "REG":
            registers.append(rest)
        else:
            key = (named(word), int(rest[1]))
            shapes[key] += int(rest[0])
            where[key].add(rest[4])
            first.setdefault(key, f"{Path(rest[4]).name}+0x{rest[2]}")
    sums = [sum(h[i] for h in heads) for i in range(5)]
    print(f"{len(heads)} objects with rows, {len(nothing)} without; {sums[1]} FDEs, {sums[2]} rows, {sums[4]} "
          f"unsupported; at most {max(h[3] for h in heads)} rules an object; {go} rows that libdw does not know\n")
    print("| CFA / rbp / return address, by libdw | rows | objects | rule | first seen |\n|---|---|---|---|---|")
    for key, n in shapes.most_common():
        print(f"| `{key[0]}` | {n} | {len(where[key])} | {OPS[key[1]]} | {first[key]} |")
    other_registers(registers)
    print(f"\n{len(wrong)} rules disagree with libdw" + "".join("\n    " + w for w in wrong[:40]))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])

# SPDX-License-Identifier: GPL-2.0-or-later
"""
A program by Go's own compiler, stripped: rows and names from .gopclntab, across its stacks and its signals; and as
other linkers than Go's make them, whose table is somewhere among the read-only data.
"""
import bisect
import struct
import subprocess
from pathlib import Path

import pytest

GOSU = "/usr/sbin/gosu"


def without_section(elf):
    """.gopclntab has another name, and .rodata goes on to its end."""
    elf = bytearray(elf)
    at, size, n, names = struct.unpack_from("<Q10xHHH", elf, 40)
    headers = [at + size * i for i in range(n)]
    strings = struct.unpack_from("<Q", elf, headers[names] + 24)[0]
    section = {}
    for header in headers:
        name = strings + struct.unpack_from("<I", elf, header)[0]
        section[bytes(elf[name:elf.index(0, name)])] = name, header + 24
    rodata, table = section[b".rodata"][1], section[b".gopclntab"][1]
    (begin, _), (offset, size) = struct.unpack_from("<QQ", elf, rodata), struct.unpack_from("<QQ", elf, table)
    struct.pack_into("<Q", elf, rodata + 8, offset + size - begin)
    elf[section[b".gopclntab"][0] + 1] = ord("x")
    return bytes(elf)


@pytest.fixture
def searched(tmp_path):
    copy = tmp_path / "gosu"
    copy.write_bytes(without_section(Path(GOSU).read_bytes()))
    copy.chmod(0o755)
    return str(copy)


@pytest.fixture
def program(request):
    return request.getfixturevalue("searched") if getattr(request, "param", "") == "searched" else GOSU


@pytest.fixture
def calls(record, read, program):
    """Five runs: setgroups makes every thread interrupt itself."""
    found = []
    for i in range(5):
        recording = record("-m", "all", "-S", "128", "--", program, "nobody", "true", start=False, trace=f"{i}.spoor")
        assert recording.wait() == 0
        found += [c for c in read(recording.trace).whole().calls if c["comm"] == "gosu" and c["stack"]]
    assert len(found) > 1000
    return found


def dump(build, program):
    return subprocess.run([build / "tests/tools/rows_dump", program], capture_output=True, text=True, check=True).stdout


def names(call):
    return [f["function"] for f in call["stack"]]


@pytest.mark.parametrize("program", ["own section", "searched"], indirect=True)
def test_stacks(calls, program):
    """Each walk ends where the runtime ends a traceback, or at the program's entry, and each frame has a name."""
    cut = [(c["walk"], c["event"], names(c)) for c in calls if c["walk"] != "complete"]
    assert not cut, cut
    mine = [f for c in calls for f in c["stack"] if f["object"] == program]
    assert len(mine) > 5000 and not [f for f in mine if not f["function"]]
    last = {names(c)[-1] for c in calls if c["stack"][-1]["object"] == program}
    assert last <= {"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.morestack", "runtime.rt0_go",
                    "_rt0_amd64", "_rt0_amd64_linux", "runtime.clone"}  # in a thread that begins
    assert sum(names(c)[-2:] == ["runtime.main", "runtime.goexit"] for c in calls) > 100


def test_new_threads(calls, build):
    """Nobody has called on the stack where one begins: its row says that it is the outermost frame."""
    begun = [c for c in calls if names(c)[0] == "runtime.clone" and c["event"] != "clone"]
    assert begun and {(c["walk"], len(c["stack"])) for c in begun} == {("complete", 1)}
    rows = [line.split() for line in dump(build, GOSU).splitlines()[1:]]
    starts = [int(row[0], 16) for row in rows]
    pcs = {int(c["stack"][0]["offset"], 16) for c in begun}
    assert {rows[bisect.bisect_right(starts, pc) - 1][1] for pc in pcs} == {"1"}


def test_searched(searched, build):
    """Each row, function and line of the program is the same wherever its table is."""
    rows = dump(build, GOSU)
    assert dump(build, searched) == rows and len(rows.splitlines()) > 10000
    addresses = "\n".join(line.split()[0] for line in rows.splitlines()[1:])
    lines = [subprocess.run([build / "tests/tools/symbolize", program], input=addresses, capture_output=True, text=True,
                            check=True).stdout for program in (GOSU, searched)]
    assert lines[0] == lines[1] and "main.main\x1f" in lines[0]


def test_across_stacks(calls):
    """From the system stack back to the goroutine's: to who called the function that switched."""
    switched = [names(c) for c in calls if "runtime.systemstack" in names(c)]
    assert len(switched) > 20
    for stack in switched:
        at = stack.index("runtime.systemstack")
        if stack[at - 1] == "runtime.main.func1":
            assert stack[at + 1:] == ["runtime.goexit"]
        if stack[at - 1] == "runtime.stopTheWorld.func1":
            assert "main.main" in stack[at:] or "runtime.main" in stack[at:]
        assert stack[-1] == "runtime.goexit"


def test_across_signals(calls):
    """What the handler interrupted, and the trampoline by its name, in the handler and when it returns."""
    inside = [names(c) for c in calls if c["event"] == "setgroups" and "runtime.sighandler" in names(c)]
    assert len(inside) >= 5
    for stack in inside:
        at = stack.index("runtime.sigtramp")
        assert stack[at + 1] == "runtime.sigreturn" and len(stack) > at + 3
    after = [names(c) for c in calls if c["event"] == "rt_sigreturn"]
    assert len(after) >= 5 and all(s[0] == "runtime.sigreturn" and len(s) > 2 for s in after)

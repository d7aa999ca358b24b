# SPDX-License-Identifier: GPL-2.0-or-later
"""More stacks than are remembered at a time: each one is still the one from which its call was made."""
from itertools import takewhile

CALLS = 20011  # of each of two threads


def spelled(n):
    """The frames of tests/data/paths.c from the one that calls syscall() to begin()'s caller, innermost first."""
    frames = ["deep"] * 91 * (n % 7 == 0) + ["aligned"] * (n % 5 == 0) + ["begin"]
    for bit in bin(n)[3:]:
        frames += ["follow", "one" if bit == "1" else "zero"]
    return (frames + ["follow"])[::-1]


def test_paths(record, read, compiled):
    program = compiled("paths.c", "-fomit-frame-pointer")
    recording = record("-m", "all", "-S", "200", "-e", "getpgid", "--", program, CALLS, 7, start=False)
    assert recording.wait(60) == 0
    calls = read(recording.trace).of("getpgid")
    assert len(calls) == 2 * CALLS
    for call in calls:
        names = [f["function"] for f in call["stack"]]
        assert call["walk"] == "complete" and names[0] == "syscall"
        assert list(takewhile(lambda name: name not in ("work", "main"), names[1:])) == spelled(call["args"]["pid"])

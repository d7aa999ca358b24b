# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings for the oracles: making, reading, and the bars that every one of them has to keep."""
import json
import mmap
import os
import subprocess
from pathlib import Path

import walks

SOURCE = Path(os.environ.get("SPOOR_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SPOOR_BUILD", SOURCE / "build"))
SPOOR = BUILD / "spoor"


class Recording:
    """A trace: .calls in the order in which they ended, each with monotonic "begin" and "end" (ns)."""

    def __init__(self, path):
        self.path = Path(path)
        self.manifest = json.loads((self.path / "manifest").read_text())
        self.counters = self.manifest["counters"]
        out = subprocess.run([SPOOR, "report", "--format", "json", path], check=True, capture_output=True,
                             timeout=120).stdout
        *self.calls, self.summary = [json.loads(line) for line in out.decode(errors="surrogateescape").splitlines()]
        self.walks = walks.seen(self.summary, path)
        for c in self.calls:
            c["end"] = self.monotonic(c["ts"])
            c["begin"] = c["end"] - c["dur"] if c["dur"] is not None else self.monotonic(c.get("start", c["ts"]))

    def monotonic(self, ts):
        seconds, ns = ts.split(".")
        return int(seconds) * 10**9 + int(ns) - self.manifest["epoch_offset"]

    def by_thread(self):
        threads = {}
        for c in sorted(self.calls, key=lambda c: c["begin"]):
            threads.setdefault(c["tid"], []).append(c)
        return threads

    def unsettled(self):
        """Walks that were left to user space though no code had been mapped for a second: until then the rows of what
        was mapped last may still be on their way."""
        calls = sorted((c for c in self.calls if not c.get("unfinished")), key=lambda c: c["begin"])
        mapped = min((c["end"] for c in calls), default=0)
        for c in calls:
            if c["way"] == "user" and c["begin"] > mapped + 10**9:
                yield c
            if c["event"] == "execve" or int(str(c["args"].get("prot", 0)), 0) & mmap.PROT_EXEC:
                mapped = c["end"]

    def check(self, **bars):
        """Fails where a bar is missed (walks.py has them). Nothing may ever be lost."""
        print(f"{self.path.name}: {self.summary['calls']} calls; walks {self.walks.status}; user {self.walks.user} of "
              f"{self.walks.done}; row cache hits {100 * self.walks.hit_rate():.2f} %")
        assert self.summary["discarded"] == 0 and self.summary["undecodable"] == 0 and not self.summary["damages"]
        assert self.manifest["ended"] and self.counters["walks_lost"] == 0
        self.walks.hold(**bars)


def stack_of(call):
    """[(object, offset)] innermost first, without inlined functions: frames as the machine has them."""
    return [(f["object"], int(f["offset"], 16)) for f in call["stack"] if not f.get("inlined")]


def record(path, *args, timeout=60, prefix=(), code=0, **how):
    """spoor record -o PATH ARGS, which must end with that code. Output goes to files: children may outlive the
    recording."""
    with open(f"{path}.err", "w+") as err:
        run = subprocess.run([*prefix, SPOOR, "record", "-o", path, *map(str, args)], timeout=timeout, stderr=err,
                             **({"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | how))
        err.seek(0)
        said = err.read()
    assert run.returncode == code, said
    return Recording(path)

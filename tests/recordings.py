# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor record` and `spoor stat` under way, and what a trace says."""
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import counting
import walks
from processes import children, has_ended, wait_for


def segments(trace):
    return sorted(trace.glob("*/kernel/seg-*"))


def bpf_objects(pid):
    """{("prog", id), ("map", id), ("link", id)} of which it has descriptors."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            found |= set(re.findall(r"^(prog|map|link)_id:\t(\d+)$", info.read_text(), re.M))
        except OSError:
            pass  # closed meanwhile
    return {(kind, int(number)) for kind, number in found}


def user_events(spoor, path):
    """The events of a trace that is whole, in the order of time."""
    run = spoor("report", "--format", "json", path)
    assert run.returncode == 0, run.stderr
    *events, summary = [json.loads(line) for line in run.stdout.splitlines()]
    assert summary["ended"] and not summary["damages"], summary
    assert not any(p["lost"] or p["malformed"] for p in summary["programs"]), summary
    return events


# Spoor's clocks, where the file STEPPED is: CLOCK_REALTIME is STEP ahead, and if SLEPT CLOCK_BOOTTIME, too.
STEPPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(clock, ts);
	if (r == 0 && (clock == CLOCK_REALTIME || (clock == CLOCK_BOOTTIME && SLEPT)) && access("STEPPED", F_OK) == 0)
		ts->tv_sec += STEP;
	return r;
}
"""


def steps_of(clocks, name):
    offsets = [c[name] - c["monotonic"] for c in clocks]
    return [round((b - a) / 1e9) for a, b in zip(offsets, offsets[1:]) if abs(b - a) > 10**9]


class Running:
    """A spoor under way."""

    def __init__(self, program, cwd, args, **how):
        self.stderr = cwd / f"stderr-{time.monotonic_ns()}"
        with open(self.stderr, "wb") as err:
            self.process = subprocess.Popen([program, *map(str, args)],
                                            **{"cwd": cwd, "stdout": err, "stderr": err} | how)
        self.pid = self.process.pid

    def watching(self):
        """Everything is attached and it waits for what comes: poll(2) of its three or more descriptors."""
        if self.process.poll() is not None:
            raise AssertionError(f"spoor ended with {self.process.returncode}: {self.said()}")
        try:
            links = any("bpf_link" in os.readlink(f) for f in Path(f"/proc/{self.pid}/fd").iterdir())
            call = Path(f"/proc/{self.pid}/syscall").read_text().split()
        except OSError:
            return False
        return links and call[0] == "7" and int(call[2], 16) >= 3

    def started(self):
        wait_for(self.watching)
        self.bpf = bpf_objects(self.pid)
        return self

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds=30):
        return self.process.wait(seconds)

    def helpers(self):
        return {name: p for p in children(self.pid)
                if (name := Path(f"/proc/{p}/comm").read_text().strip()).startswith(("spoor-", "trace-"))}

    def kill(self, group=False):
        """SIGKILL; returns once its helpers have done their work."""
        helpers = self.helpers().values()
        (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        wait_for(lambda: all(has_ended(p) for p in helpers))

    def said(self):
        return self.stderr.read_text(errors="replace")


class Recording(Running):
    """A `spoor record` under way."""

    def __init__(self, program, cwd, args, **how):
        super().__init__(program, cwd, ["record", *args], **how)
        self.trace = cwd / args[args.index("-o") + 1] if "-o" in args else None


class Counting(Running):
    """A `spoor stat` under way; its JSON goes to a file."""

    def __init__(self, program, cwd, args, **how):
        self.out = cwd / f"counters-{time.monotonic_ns()}.json"
        super().__init__(program, cwd, ["stat", "--format", "json", "-o", self.out, *args], **how)

    def counters(self):
        return counting.read(self.out)

    def prints(self):
        return self.out.read_text().count("\n") if self.out.exists() else 0

    def print_all(self):
        """With --interval: whatever has been called by now has been printed. (A print that is under way may not have
        it; the one after that has.)"""
        before = self.prints()
        wait_for(lambda: self.prints() > before + 1)
        return self


class Trace:
    """What `spoor report` says of a trace. Making one proves that it reads, with babeltrace2 too."""

    def __init__(self, spoor, path, ended=True, babeltrace=True):
        self.path = path
        run = spoor("report", "--format", "json", path, errors="surrogateescape")
        assert run.returncode == 0, run.stderr
        *self.events, self.summary = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
        self.calls = [e for e in self.events if not e["event"].startswith("spoor:")]
        self.walks = walks.seen(self.summary, path)
        if ended:
            assert self.summary["ended"] is True and not self.summary["damages"]
            assert json.loads((Path(path) / "manifest").read_text())["ended"] is True
        if babeltrace:
            self.babeltrace()

    def babeltrace(self):
        run = subprocess.run(["babeltrace2", "-o", "dummy", self.path], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr

    def count(self, event="getppid", **of):
        return len(self.of(event, **of))

    def of(self, event=None, **of):
        return [e for e in self.calls
                if (event is None or e["event"] == event) and all(e[k] == v for k, v in of.items())]

    def pids(self):
        return {e["pid"] for e in self.calls}

    def marks(self):
        """Calls of getppid by pid."""
        return Counter(e["pid"] for e in self.calls if e["event"] == "getppid")

    def whole(self, **bars):
        """Nothing was lost, and the walks went as they should (walks.py has the bars)."""
        assert self.summary["discarded"] == 0 and self.summary["undecodable"] == 0
        assert self.summary["ring_damages"] == 0
        self.walks.hold(**bars)
        return self

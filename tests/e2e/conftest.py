# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of recordings share: a program of known counts, a recording under way, and what a trace says."""
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import counting
import pytest

DATA = Path(__file__).resolve().parent.parent / "data"


def wait_for(condition, seconds=20, every=0.005):
    """Polls until condition() is true and returns its value."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"waited {seconds} s in vain"
        time.sleep(every)
    return value


class Recording:
    """A `spoor record` under way."""

    def __init__(self, program, cwd, args, **how):
        self.trace = cwd / args[args.index("-o") + 1] if "-o" in args else None
        self.stderr = cwd / f"stderr-{time.monotonic_ns()}"
        with open(self.stderr, "wb") as err:
            self.process = subprocess.Popen([program, "record", *map(str, args)],
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
        return self

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds=30):
        return self.process.wait(seconds)

    def said(self):
        return self.stderr.read_text(errors="replace")


@pytest.fixture
def record(build, tmp_path):
    """record("-p", 1) -> Recording that is attached; start=False: as soon as it is launched."""
    running = []

    def run(*args, start=True, trace="t.spoor", **how):
        args = (["-o", trace] if trace else []) + list(args)
        running.append(Recording(build / "spoor", tmp_path, args, **how))
        return running[-1].started() if start else running[-1]
    yield run
    for r in running:
        if r.process.poll() is None:
            r.process.kill()
            r.process.wait()


@pytest.fixture
def start(tmp_path):
    """start(argv) -> Popen with pipes; killed at the test's end if it still runs."""
    running = []

    def run(*args, **how):
        how = {"cwd": tmp_path, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | how
        running.append(subprocess.Popen([str(a) for a in args], **how))
        return running[-1]
    yield run
    for p in running:
        if p.poll() is None:
            p.kill()
        p.wait()
        for f in (p.stdin, p.stdout):
            if f:
                try:
                    f.close()
                except OSError:
                    pass


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled("actor.c", "-g") -> path of the program, compiled once a session."""
    done = {}

    def run(source, *flags):
        key = (source, flags)
        if key not in done:
            out = tmp_path_factory.mktemp("bin") / Path(source).stem
            command = ["gcc", "-O1", "-g", "-pthread", "-o", out, DATA / source, *flags]
            subprocess.run(command, check=True, timeout=60)
            done[key] = out
        return done[key]
    return run


@pytest.fixture
def actor(compiled, tmp_path):
    """actor("quokka") -> a copy by that name of tests/data/actor.c, whose marks are calls of getppid."""
    def copy(name="actor"):
        path = tmp_path / name
        if not path.exists():
            path.write_bytes(compiled("actor.c").read_bytes())
            path.chmod(0o755)
        return path
    return copy


class Trace:
    """What `spoor report` says of a trace. Making one proves that it reads, with babeltrace2 too."""

    def __init__(self, spoor, path, ended=True, babeltrace=True):
        self.path = path
        run = spoor("report", "--format", "json", path, errors="surrogateescape")
        assert run.returncode == 0, run.stderr
        *self.events, self.summary = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
        self.calls = [e for e in self.events if not e["event"].startswith("spoor:")]
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

    def whole(self):
        """Nothing was lost."""
        assert self.summary["discarded"] == 0 and self.summary["undecodable"] == 0
        return self


@pytest.fixture
def read(spoor):
    return lambda path, **how: Trace(spoor, path, **how)


@pytest.fixture
def nothing_attached():
    """Checks that no BPF program of ours is left without a living owner."""
    def left(pid=None):
        out = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True).stdout
        ours = {"sys_enter", "sys_exit", "process_fork", "process_exec", "process_exit", "task_renamed", "switched"}
        return [p for p in json.loads(out) if p.get("name") in ours
                and (not p.get("pids") or any(o["pid"] == pid for o in p["pids"]))]

    def check(pid=None):
        wait_for(lambda: not left(pid), 10, 0.1)
    return check


@pytest.fixture
def count(spoor, tmp_path):
    """count("--per-process", "--", "ls") -> (CompletedProcess, [Counters])."""
    def run(*args, **how):
        out = tmp_path / f"counters-{time.monotonic_ns()}.json"
        done = spoor("stat", "--format", "json", "-o", out, *args, **how)
        return done, counting.read(out)
    return run


class Counting(Recording):
    """A `spoor stat` under way; its JSON goes to a file."""

    def __init__(self, program, cwd, args, **how):
        self.out = cwd / f"counters-{time.monotonic_ns()}.json"
        self.stderr = cwd / f"stderr-{time.monotonic_ns()}"
        with open(self.stderr, "wb") as err:
            self.process = subprocess.Popen([program, "stat", "--format", "json", "-o", self.out, *map(str, args)],
                                            **{"cwd": cwd, "stdout": err, "stderr": err} | how)
        self.pid = self.process.pid

    def counters(self):
        return counting.read(self.out)


@pytest.fixture
def counting_under_way(build, tmp_path):
    """counting_under_way("-p", 1) -> Counting that is attached."""
    running = []

    def run(*args, start=True, **how):
        running.append(Counting(build / "spoor", tmp_path, args, **how))
        return running[-1].started() if start else running[-1]
    yield run
    for r in running:
        if r.process.poll() is None:
            r.process.kill()
            r.process.wait()


@pytest.fixture
def counted(compiled):
    """tests/data/counted.c, compiled."""
    return compiled("counted.c")

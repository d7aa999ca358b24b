# SPDX-License-Identifier: GPL-2.0-or-later
"""Running one contestant once: processes, what they cost, and getting rid of them again."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

TRACING = {"tracing", "tracepoint", "raw_tracepoint", "kprobe", "perf_event"}
TICK = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A run that gives no number, and why."""


@dataclasses.dataclass
class Run:
    """What one run of one case gave. None: not known."""
    value: float = None
    ops: int = None          # how much work was done: calls, requests
    events: int = None
    lost: int = None
    user: float = None       # seconds of the tool itself, without the program it watches
    system: float = None
    rss: int = None          # bytes
    bpf: int = None          # bytes in BPF maps
    trace: int = None        # bytes on disk
    bpf_ns: dict = dataclasses.field(default_factory=dict)  # program -> (runs, ns), with --bpf-stats
    said: str = ""           # the tool's last line


class Scratch:
    """A directory that disappears; readable for servers that give up root."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="spoor-bench-")
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)


def text_of(path, limit=64 << 20):
    try:
        with open(path, "rb") as f:
            return f.read(limit).decode(errors="replace")
    except OSError:
        return ""


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)


def children_of(pid):
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        found += [int(p) for p in text_of(f"/proc/{pid}/task/{tid}/children").split()]
    return found


def cpu_of(pid):
    """User and system seconds of the process alone; works on a zombie, so that nothing is missed."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


class Watcher(threading.Thread):
    """Looks at a tool four times a second: peak memory, BPF maps, run-time of BPF programs."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.over = threading.Event()
        self.rss = self.bpf = None
        self.bpf_ns = {}
        self.names = {}          # of programs, by their number
        self.start()

    def run(self):
        while not self.over.wait(0.25):
            self.look()

    def look(self):
        try:
            peak = re.search(r"VmHWM:\s+(\d+) kB", text_of(f"/proc/{self.pid}/status"))
            if peak:
                self.rss = int(peak[1]) * 1024
            self.look_at_bpf()
        except OSError:
            pass

    def look_at_bpf(self):
        maps, programs = {}, {}
        for fd in os.listdir(f"/proc/{self.pid}/fdinfo"):
            info = dict(re.findall(r"^(\w+):\s+(\S+)$", text_of(f"/proc/{self.pid}/fdinfo/{fd}"), re.M))
            if "map_id" in info and "memlock" in info:
                maps[info["map_id"]] = int(info["memlock"])
            elif "prog_id" in info and int(info.get("run_cnt", 0)):
                programs[info["prog_id"]] = (int(info["run_cnt"]), int(info["run_time_ns"]))
        if maps:
            self.bpf = max(self.bpf or 0, sum(maps.values()))
        if programs:
            if programs.keys() - self.names.keys():
                self.names = {str(p["id"]): p.get("name", str(p["id"])) for p in bpf_programs()}
            self.bpf_ns = {self.names.get(number, number): cost for number, cost in programs.items()}

    def stop(self):
        self.look()
        self.over.set()
        self.join()


class Process:
    """One process that this benchmark started, and will end by its pid."""

    alive = {}

    def __init__(self, argv, scratch, name, env=None, watch=False):
        self.argv = argv
        self.out, self.err = scratch.file(name + ".out"), scratch.file(name + ".err")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            try:
                self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                start_new_session=True, env={**os.environ, **(env or {})})
            except OSError as e:
                raise Failed(f"{argv[0]}: {e.strerror}") from e
        self.pid = self.process.pid
        self.watcher = Watcher(self.pid) if watch else None
        self.user = self.system = None
        Process.alive[self.pid] = self

    def wait(self, timeout):
        """The exit code. A process that does not end in time is killed and the run has failed."""
        deadline = time.monotonic() + timeout
        while not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            if time.monotonic() > deadline:
                self.kill()
                raise Failed(f"{os.path.basename(self.argv[0])} did not end in {timeout:.0f} s")
            time.sleep(0.005)
        self.user, self.system = cpu_of(self.pid)
        return self.reap()

    def reap(self):
        if self.watcher:
            self.watcher.over.set()
            self.watcher.join()
        Process.alive.pop(self.pid, None)
        return self.process.wait()

    def end(self, sig=signal.SIGINT, timeout=120):
        if self.watcher:
            self.watcher.stop()
        self.process.send_signal(sig)
        return self.wait(timeout)

    def kill(self):
        """With the processes it started: under a tracer the program is its child."""
        for pid in self.family(self.pid) + [self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.reap()

    def family(self, pid):
        try:
            below = children_of(pid)
        except OSError:
            return []
        return [p for child in below for p in self.family(child) + [child]]

    def said(self):
        return text_of(self.out), text_of(self.err)


def end_all():
    for process in list(Process.alive.values()):
        process.kill()


def attached_bpf(pid):
    """How many links and perf events a process holds: a BPF tool is ready when it holds some and no more come."""
    n = 0
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            to = os.readlink(f"/proc/{pid}/fd/{fd}")
            n += "bpf_link" in to or "perf_event" in to or "bpf-link" in to
    except OSError:
        pass
    return n


def wait_ready(tool_pid, target_pid, by_ptrace, timeout=20):
    deadline = time.monotonic() + timeout
    before, since = 0, time.monotonic()
    while time.monotonic() < deadline:
        if by_ptrace:
            tracer = re.search(r"TracerPid:\s+(\d+)", text_of(f"/proc/{target_pid}/status"))
            if tracer and int(tracer[1]):
                return
        else:
            now = attached_bpf(tool_pid)
            if now != before:
                before, since = now, time.monotonic()
            if now and time.monotonic() - since > 0.5:
                return
        time.sleep(0.05)
    raise Failed("did not attach")


def busy_share(seconds=0.2):
    """Per cent of the machine that somebody else uses now, while nothing of ours runs."""
    def jiffies():
        fields = [int(n) for n in text_of("/proc/stat").split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    total, idle = jiffies()
    time.sleep(seconds)
    total, idle = jiffies()[0] - total, jiffies()[1] - idle
    return 100 * (1 - idle / total) if total else 0.0


def bpf_programs():
    try:
        done = subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True, text=True, timeout=10,
                              check=False)
        return json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def foreign_bpf(patience=1.0):
    """How many tracing programs of others are loaded: one on the system calls slows every contestant down.

    The kernel frees the programs of the contestant before a moment after it has ended.
    """
    deadline = time.monotonic() + patience
    while True:
        found = sum(p.get("type") in TRACING for p in bpf_programs())
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def first_line(text):
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return "no output"


def last_line(text):
    return first_line("\n".join(reversed(text.splitlines()))) if text.strip() else ""

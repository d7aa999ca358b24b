# SPDX-License-Identifier: GPL-2.0-or-later
"""The contestants: how each is started, and what it says about events and losses."""

import collections
import dataclasses
import json
import os
import re
import shutil

from measure import Failed, Process, Run, first_line, last_line, size_of, text_of, wait_ready


@dataclasses.dataclass
class Target:
    """Whom a tool is attached to. With `comm` all processes of that name, else one process with its threads."""
    pid: int
    pids: list
    comm: str = None


@dataclasses.dataclass
class Context:
    spoor: str
    programs: str
    scratch: object
    quick: bool
    tree: bool = False       # the program under test starts others that belong to it

    def program(self, name):
        return os.path.join(self.programs, name)


class Tool:
    """`wrap` runs a command under the tool, `attach` watches running processes until SIGINT."""

    name = "native"
    kind = "native"
    slow = 1                 # its runs may do this many times less work: the metric is a rate
    by_ptrace = False
    env = {}

    def wrap(self, cmd, ctx):
        return cmd

    def attach(self, target, ctx):
        return None

    def prepare(self, ctx):
        pass

    def account(self, run, process, ctx):
        """Fills in events and losses from what the tool said."""


class Again(Tool):
    """The program alone once more: how far two equal runs lie apart is the noise of everything else."""
    name = "native again"


class Floor(Tool):
    kind = "floor"

    def __init__(self, mode):
        self.mode = mode
        self.name = {"empty": "floor: empty", "counters": "floor: counters", "record": "floor: one record"}[mode]

    def wrap(self, cmd, ctx):
        return [ctx.program("floor"), self.mode, "--", *cmd]

    def attach(self, target, ctx):
        return [ctx.program("floor"), self.mode, "-p", str(target.pid)]

    def account(self, run, process, ctx):
        found = re.search(r"floor: (\d+) events, (\d+) lost", process.said()[1])
        if found:
            run.events, run.lost = int(found[1]), int(found[2])


def walks_of(trace):
    """How they ended, and how many rows were in the cache; "" of a trace without stacks."""
    try:
        with open(os.path.join(trace, "manifest"), encoding="utf-8") as f:
            counters = json.load(f)["counters"]
    except (OSError, ValueError, KeyError):
        return ""
    status = collections.Counter()
    for name, n in counters.items():
        if found := re.fullmatch(r"walks_(?:kernel|user)_(\w+)", name):
            status[found[1]] += n
    looks = counters.get("row_cache_hits", 0) + counters.get("row_cache_misses", 0)
    if not looks:
        return ""
    said = ", ".join(f"{name} {n}" for name, n in status.most_common() if n)
    return f"; walks {said}; row cache hits {100 * counters['row_cache_hits'] / looks:.2f} %"


class Spoor(Tool):
    kind = "spoor"

    def __init__(self, *options, name=None, cold=False):
        self.options = list(options)
        self.name = name or " ".join(["spoor", *options])
        self.cold = cold

    def prepare(self, ctx):
        if not os.access(ctx.spoor, os.X_OK):
            raise Failed("not built")
        cache = ctx.scratch.file("spoor-cache")
        if self.cold:
            shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache, mode=0o700, exist_ok=True)
        self.env = {"SPOOR_CACHE_DIR": cache}
        shutil.rmtree(self.trace(ctx), ignore_errors=True)

    @staticmethod
    def trace(ctx):
        return ctx.scratch.file("trace.spoor")

    def wrap(self, cmd, ctx):
        return [ctx.spoor, "record", *self.options, "-o", self.trace(ctx), "--", *cmd]

    def attach(self, target, ctx):
        who = ["-n", target.comm] if target.comm else ["-p", str(target.pid)]
        return [ctx.spoor, "record", *self.options, "-o", self.trace(ctx), *who]

    def account(self, run, process, ctx):
        err = process.said()[1]
        run.said = last_line(err) + walks_of(self.trace(ctx))
        run.events = number_before(r"events?", err)
        run.lost = number_before(r"(?:events? )?(?:lost|dropped|discarded)", err)
        if run.lost is None and re.search(r"\b(none|nothing) lost\b", err):
            run.lost = 0
        run.trace = size_of(self.trace(ctx))


class SpoorStat(Spoor):
    def __init__(self, *options):
        super().__init__(*options, name=" ".join(["spoor stat", *options]))

    def argv(self, ctx):
        return [ctx.spoor, "stat", *self.options, "--format", "json", "-o", ctx.scratch.file("stat.json")]

    def wrap(self, cmd, ctx):
        return [*self.argv(ctx), "--", *cmd]

    def attach(self, target, ctx):
        return [*self.argv(ctx), *(["-n", target.comm] if target.comm else ["-p", str(target.pid)])]

    def account(self, run, process, ctx):
        said = text_of(ctx.scratch.file("stat.json"), 1 << 30).splitlines()
        if not said:
            return
        counters = json.loads(said[-1])
        run.events = sum(call["calls"] for task in counters["tasks"] for call in task["syscalls"])
        run.lost = counters["lost_threads"] + counters["lost_calls"]


def number_before(word, text):
    """The last '1,234 WORD' in a text."""
    found = re.findall(r"(\d[\d,]*)\s+" + word + r"\b", text)
    return int(found[-1].replace(",", "")) if found else None


class Bpftrace(Tool):
    kind = "peer"

    def __init__(self, name, action):
        self.name = "bpftrace " + name
        self.action = action

    def script(self, condition):
        return f"tracepoint:raw_syscalls:sys_enter {condition} {{ {self.action} }}"

    def argv(self, condition, ctx):
        return ["bpftrace", "-o", ctx.scratch.file("bpftrace.txt"), "-e", self.script(condition)]

    def wrap(self, cmd, ctx):
        # It cannot follow children: where there are some, it has to watch everybody.
        return [*self.argv("" if ctx.tree else "/pid == cpid/", ctx), "-c", " ".join(cmd)]

    def attach(self, target, ctx):
        return self.argv(f'/comm == "{target.comm}"/' if target.comm else f"/pid == {target.pid}/", ctx)

    def account(self, run, process, ctx):
        said = text_of(ctx.scratch.file("bpftrace.txt"), 1 << 30)
        run.lost = sum(int(n) for n in re.findall(r"Lost (\d+) events", said + process.said()[1]))
        counts = re.findall(r"\]: (\d+)$", said, re.M)
        run.events = sum(map(int, counts)) if counts else len(re.findall(r"^\d+ \d+$", said, re.M))


class PerfTrace(Tool):
    kind = "peer"
    slow = 20

    def __init__(self, summary):
        self.summary = summary
        self.name = "perf trace -s" if summary else "perf trace"

    def argv(self, ctx):
        return ["perf", "trace", *(["-s"] if self.summary else []), "-o", ctx.scratch.file("perf.txt")]

    def wrap(self, cmd, ctx):
        return [*self.argv(ctx), *cmd]

    def attach(self, target, ctx):
        return [*self.argv(ctx), "-p", ",".join(map(str, target.pids))]

    def account(self, run, process, ctx):
        said = text_of(ctx.scratch.file("perf.txt"), 1 << 30)
        run.lost = sum(int(n) for n in re.findall(r"LOST (\d+) events", said + process.said()[1]))
        if self.summary:
            # perf counts an entry and an exit as two.
            run.events = sum(int(n) for n in re.findall(r"\), (\d+) events", said)) // 2
        else:
            run.events = len(re.findall(r"^\s*[\d.]+ \(", said, re.M))


class Strace(Tool):
    kind = "peer"
    by_ptrace = True

    def __init__(self, *options, slow):
        self.options = options
        self.slow = slow
        self.name = " ".join(["strace -f", *options])

    def wrap(self, cmd, ctx):
        return ["strace", "-f", *self.options, "-o", "/dev/null", *cmd]

    def attach(self, target, ctx):
        who = [arg for pid in target.pids for arg in ("-p", str(pid))]
        return ["strace", "-f", *self.options, "-o", "/dev/null", *who]


NATIVE, AGAIN = Tool(), Again()
FLOOR_EMPTY, FLOOR_COUNTERS, FLOOR_RECORD = Floor("empty"), Floor("counters"), Floor("record")
BPFTRACE_COUNT = Bpftrace("count", "@[args->id] = count();")
BPFTRACE_USTACK = Bpftrace("ustack(5)", "@[ustack(5)] = count();")
BPFTRACE_PRINTF = Bpftrace("printf", r'printf("%d %d\n", tid, args->id);')
PERF_TRACE, PERF_TRACE_S = PerfTrace(False), PerfTrace(True)
STRACE, STRACE_K = Strace(slow=50), Strace("-k", slow=1000)
STRACE_C = Strace("-c", slow=50)
STAT, STAT_NO_BLOCKED, STAT_SITE = SpoorStat(), SpoorStat("--no-blocked"), SpoorStat("--by", "site", "-m", "app")
PEERS = [BPFTRACE_COUNT, BPFTRACE_USTACK, BPFTRACE_PRINTF, PERF_TRACE, PERF_TRACE_S, STRACE, STRACE_K]


def missing(tool):
    """The program a peer needs, if it is not there."""
    program = {"Bpftrace": "bpftrace", "PerfTrace": "perf", "Strace": "strace",
               "Lttng": "lttng"}.get(type(tool).__name__)
    return program if program and not shutil.which(program) else None


def as_run(value):
    """A workload gives a number, or a number and how often it did its work."""
    return Run(value=value[0], ops=value[1]) if isinstance(value, tuple) else Run(value=value)


def collect(tool, process, ctx, value):
    run = as_run(value)
    if tool.kind != "native":
        run.user, run.system = process.user, process.system
        if process.watcher:
            run.rss, run.bpf, run.bpf_ns = process.watcher.rss, process.watcher.bpf, process.watcher.bpf_ns
    tool.account(run, process, ctx)
    return run


def run_under(tool, cmd, ctx, read_value, timeout):
    """Run `cmd` under the tool; `read_value(stdout)` gives what cmd printed or wrote."""
    tool.prepare(ctx)
    process = Process(tool.wrap(cmd, ctx), ctx.scratch, "tool", env=tool.env, watch=tool.kind != "native")
    code = process.wait(timeout)
    out, err = process.said()
    if code:
        raise Failed(f"exit code {code}: {first_line(err)}")
    return collect(tool, process, ctx, read_value(out))


def run_attached(tool, target, ctx, load):
    """Attach the tool to a target, let `load()` measure, stop the tool."""
    tool.prepare(ctx)
    argv = tool.attach(target, ctx)
    if argv is None:
        return as_run(load())
    process = Process(argv, ctx.scratch, "tool", env=tool.env, watch=True)
    try:
        wait_ready(process.pid, target.pid, tool.by_ptrace)
        value = load()
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            raise Failed(f"ended early: {first_line(process.said()[1])}")
        process.end()
    except Failed as e:
        if process.pid in Process.alive:
            why = first_line(process.said()[1])
            process.kill()
            raise Failed(f"{e}: {why}") from e
        raise
    return collect(tool, process, ctx, value)

# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured: scenarios, each a list of cases that take turns."""

import dataclasses
import os
import re
import time
import typing

import tools
from measure import Failed, Process, Run, Scratch, first_line, text_of
from servers import SERVERS, call, storm_source
from tools import (AGAIN, BPFTRACE_COUNT, BPFTRACE_USTACK, FLOOR_COUNTERS, FLOOR_EMPTY, FLOOR_RECORD,
                   NATIVE, PEERS, PERF_TRACE, PERF_TRACE_S, STAT, STAT_NO_BLOCKED, STAT_SITE, STRACE, STRACE_C,
                   STRACE_K, Spoor, Target)

BARE = Spoor("-m", "none", name="spoor, no stack")
DEFAULT = Spoor(name="spoor, defaults")

# The rows of the paper's Figure 6: MODE-S, and what they are called here.
FIGURE_6 = {
    "1-1": Spoor("-m", "app", "-S", "1"),
    "2-3": Spoor("-m", "app-all", "-S", "3"),
    "2-5": Spoor("-m", "app-all", "-S", "5"),
    "3-5": Spoor("-m", "lib", "-S", "5"),
}


@dataclasses.dataclass
class Case:
    label: str
    tool: object
    work: list = dataclasses.field(default_factory=list)
    native: str = "native"              # the case it is compared with
    floor: str = None                   # and the floor
    again: str = None                   # the case that this one repeats, for the noise


@dataclasses.dataclass
class Scenario:
    name: str
    title: str
    unit: str
    better: str                         # lower | higher
    cases: list
    run: typing.Callable                # (case, settings) -> Run
    rounds: int = 5                     # without --quick
    about: str = ""
    ratios: tuple = ()                  # (head, "native" | "floor"): where values are compared, not what is added


@dataclasses.dataclass
class Settings:
    spoor: str
    programs: str
    cache: str                          # what may be kept between runs: the source of the package to build
    quick: bool
    seconds: float = None               # of one server run

    def context(self, scratch, tree=False):
        return tools.Context(self.spoor, self.programs, scratch, self.quick, tree)

    def load_seconds(self):
        return self.seconds or (3 if self.quick else 60)


# --- one cheap system call ------------------------------------------------------------------------------------------

def ns_printed(out):
    found = re.search(r"median ([\d.]+) ns", out)
    if not found:
        raise Failed("the workload printed no result")
    calls = re.search(r"(\d+) calls", out)
    return float(found[1]), int(calls[1]) if calls else None


def getppid_argv(ctx, work, tool):
    # A slow tool gets smaller batches: at least three of them are run.
    return [ctx.program("getppid"), "-d", "0.3" if ctx.quick else "2", "-n", str(10000 // min(tool.slow, 100)), *work]


def run_micro(case, settings):
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        argv = getppid_argv(ctx, case.work, case.tool)
        if isinstance(case.tool, Spoor) and not case.tool.cold:
            warm(case.tool, argv, ctx)
        return tools.run_under(case.tool, argv, ctx, ns_printed, 120)


def warm(tool, argv, ctx):
    """Fill the cache of rows, each run having a cache directory of its own."""
    tools.run_under(tool, [argv[0], "-b", "3", "-n", "100"], ctx, ns_printed, 60)


def run_bystander(case, settings):
    """The tool watches a process that sleeps; the workload is somebody else."""
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        sleeper = Process(["sleep", "1000"], scratch, "sleeper")
        argv = getppid_argv(ctx, case.work, NATIVE)
        try:
            return tools.run_attached(case.tool, Target(sleeper.pid, [sleeper.pid]), ctx,
                                      lambda: ns_printed(call(argv, 120)))
        finally:
            sleeper.kill()


def micro_cases(variants, contestants, natives=(NATIVE, AGAIN), floor=FLOOR_RECORD):
    """All contestants at all variants {label: getppid's options}, each beside the native run of its variant."""
    cases = []
    for label, work in variants.items():
        mark = f", {label}" if label else ""
        for tool in [*natives, *contestants]:
            cases.append(Case(tool.name + mark, tool, work, "native" + mark, floor.name + mark))
    return cases


def frames(*depths, options=()):
    return {f"{n} frames": ["-f", str(n), *options] for n in depths}


def cold_cases():
    cold = Spoor("-m", "app-all", name="spoor -m app-all, rows cold", cold=True)
    warm_one = Spoor("-m", "app-all", name="spoor -m app-all, rows warm")
    return [Case(t.name, t, ["-f", "10"]) for t in (NATIVE, AGAIN, cold, warm_one)]


def start_cases():
    python = ["/usr/bin/python3", "-c", "pass"]
    contestants = [NATIVE, AGAIN, BARE, Spoor(name="spoor, rows cold", cold=True), Spoor(name="spoor, rows warm"),
                   BPFTRACE_USTACK, STRACE]
    return [Case(t.name, t, python) for t in contestants]


def run_start(case, settings):
    """From the start of the tool to its end around a program that does nothing: what compiling rows costs is in it."""
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        case.tool.prepare(ctx)
        if isinstance(case.tool, Spoor) and not case.tool.cold:
            tools.run_under(case.tool, case.work, ctx, lambda _: None, 60)
            case.tool.prepare(ctx)
        outer = [ctx.program("elapsed"), scratch.file("elapsed"), *case.tool.wrap(case.work, ctx)]
        process = Process(outer, scratch, "tool", env=case.tool.env)
        if process.wait(60):
            raise Failed(process.said()[1].strip().splitlines()[0] if process.said()[1].strip() else "failed")
        return Run(value=float(text_of(scratch.file("elapsed")).split()[0]) * 1000)


def run_rows(case, settings):
    """rows_bench prints: object, MB, rows, rules, and ms for reading the file, identity, compiling, the cache."""
    path, column = case.work
    with Scratch() as scratch:
        process = Process([settings.context(scratch).program("rows_bench"), path], scratch, "rows")
        code = process.wait(120)
        out, err = process.said()
        fields = next((line.split() for line in out.splitlines() if line.startswith(path + " ")), None)
        if code or not fields:
            raise Failed(f"exit code {code}: {first_line(err)}")
        return Run(value=float(fields[column]))


def rows_cases():
    columns = {"file read once": 4, "rows compiled": 6, "rows from the cache": 7}
    objects = {"python3": os.path.realpath("/usr/bin/python3"), "libc": "/usr/lib/x86_64-linux-gnu/libc.so.6"}
    return [Case(f"{what}, {name}", NATIVE, [path, column], f"file read once, {name}")
            for name, path in objects.items() for what, column in columns.items()]


def run_python(case, settings):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_sites.py")
    with Scratch() as scratch:
        argv = ["/usr/bin/python3", script, "0.3" if settings.quick else "2"]
        return tools.run_under(case.tool, argv, settings.context(scratch), ns_printed, 240)


# --- servers --------------------------------------------------------------------------------------------------------

def run_server(name):
    def run(case, settings):
        seconds = settings.load_seconds()
        with Scratch() as scratch:
            ctx = settings.context(scratch)
            with SERVERS[name](ctx) as server:
                return tools.run_attached(case.tool, server.target(), ctx,
                                          lambda: server.load(seconds, case.tool.slow))
    return run


def server_cases():
    contestants = [NATIVE, AGAIN, FLOOR_RECORD, BARE, DEFAULT, *FIGURE_6.values(), *PEERS]
    return [Case(t.name, t, floor=FLOOR_RECORD.name) for t in contestants]


# --- counters ---------------------------------------------------------------------------------------------------------

COUNTING = [FLOOR_COUNTERS, STAT, STAT_NO_BLOCKED, STAT_SITE]
COUNTING_PEERS = [BPFTRACE_COUNT, PERF_TRACE_S, STRACE_C]


def counting_cases(work=None):
    return [Case(t.name, t, work or [], floor=FLOOR_COUNTERS.name)
            for t in (NATIVE, AGAIN, *COUNTING, *COUNTING_PEERS)]


def slab_kib():
    return int(re.search(r"^SUnreclaim: +(\d+)", text_of("/proc/meminfo"), re.M)[1])


def run_thread_memory(case, settings):
    """What the kernel's slab grows by when the tool is attached to a process of many threads, per thread."""
    threads = 1000 if settings.quick else 10000
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        sleepers = Process([ctx.program("sleepers"), str(threads)], scratch, "sleepers")
        try:
            until = time.monotonic() + 60
            while "ready" not in sleepers.said()[0]:
                if time.monotonic() > until:
                    raise Failed("the threads did not start")
                time.sleep(0.05)
            before = slab_kib()
            return tools.run_attached(case.tool, Target(sleepers.pid, [sleepers.pid]), ctx,
                                      lambda: max(slab_kib() - before, 0) / threads)
        finally:
            sleepers.kill()


def switch_cases():
    work = ["perf", "bench", "sched", "pipe", "-l"]
    return [Case(t.name, t, work, floor=FLOOR_COUNTERS.name)
            for t in (NATIVE, AGAIN, FLOOR_COUNTERS, STAT, STAT_NO_BLOCKED, BPFTRACE_COUNT)]


def run_switches(case, settings):
    rounds = "20000" if settings.quick else "300000"
    return run_elapsed(dataclasses.replace(case, work=[*case.work, rounds]), settings, tree=True)


# --- programs that do a fixed work ------------------------------------------------------------------------------------

def seconds_written(scratch):
    return float(text_of(scratch.file("elapsed")).split()[0])


def run_elapsed(case, settings, tree=False):
    with Scratch() as scratch:
        ctx = settings.context(scratch, tree)
        argv = [ctx.program("elapsed"), scratch.file("elapsed"), *case.work]
        return tools.run_under(case.tool, argv, ctx, lambda _: seconds_written(scratch), 1200)


MAKE_ONLY = ["make"]


def storm_cases():
    contestants = [NATIVE, AGAIN, FLOOR_RECORD, BARE, DEFAULT, BPFTRACE_COUNT, BPFTRACE_USTACK, PERF_TRACE,
                   PERF_TRACE_S, STRACE]
    # What takes others seconds takes strace -k minutes: less work, beside a native run of the same.
    return [*[Case(t.name, t) for t in contestants],
            *[Case(f"{t.name}, make only", t, MAKE_ONLY, "native, make only") for t in (NATIVE, STRACE_K)]]


def run_storm(case, settings):
    if settings.quick and case.tool is STRACE_K:
        raise Failed("it takes minutes: not with --quick")
    directory, _ = storm_source(settings.cache)
    call(["make", "-s", "-C", directory, "clean"], 60)
    whole = not settings.quick and case.work != MAKE_ONLY and os.path.exists(f"{directory}/configure")
    again = "./configure -q && " if whole else ""
    script = os.path.join(settings.cache, "storm.sh")
    with open(script, "w", encoding="ascii") as f:
        f.write(f"cd {directory} && export FORCE_UNSAFE_CONFIGURE=1 && {again}make -s -j2 >/dev/null 2>&1\n")
    return run_elapsed(dataclasses.replace(case, work=["sh", script]), settings, tree=True)


CPU_WORK = ["python3", "xz", "openssl"]


def cpu_argv(work, settings, scratch):
    """Work of about one second with --quick and ten without."""
    factor = 1 if settings.quick else 10
    script = scratch.file("cpu.sh")
    data = scratch.file("cpu.data")
    if work == "xz":
        write_data(data, (5 << 20) * factor)
    body = {"python3": f"exec /usr/bin/python3 -c 's = sum(i * i % 7 for i in range({12000000 * factor}))'",
            "xz": f"exec xz -T1 -6 -c {data} >/dev/null",
            "openssl": "exec openssl kdf -keylen 64 -kdfopt digest:SHA512 -kdfopt pass:spoor -kdfopt salt:spoor "
                       f"-kdfopt iter:{800000 * factor} PBKDF2 >/dev/null"}[work]
    with open(script, "w", encoding="ascii") as f:
        f.write(body + "\n")
    return ["sh", script]


def write_data(path, size):
    """Numbers as text: the same bytes each time, neither random nor empty."""
    block = "".join(f"{i * 2654435761 % 4294967296:x} " for i in range(1 << 16)).encode()
    with open(path, "wb") as f:
        for _ in range(size // len(block) + 1):
            f.write(block)


def run_cpu(case, settings):
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        argv = [ctx.program("elapsed"), scratch.file("elapsed"), *cpu_argv(case.work[0], settings, scratch)]
        return tools.run_under(case.tool, argv, ctx, lambda _: seconds_written(scratch), 600)


def cpu_cases():
    contestants = [NATIVE, AGAIN, FLOOR_RECORD, DEFAULT, *FIGURE_6.values(), BPFTRACE_COUNT, BPFTRACE_USTACK]
    return [Case(f"{t.name}, {w}", t, [w], f"native, {w}", f"{FLOOR_RECORD.name}, {w}")
            for w in CPU_WORK for t in contestants]


# --- reading back -----------------------------------------------------------------------------------------------------

READERS = {
    "spoor report": lambda spoor, trace: [spoor, "report", trace],
    "spoor report --format json": lambda spoor, trace: [spoor, "report", "--format", "json", trace],
    "babeltrace2": lambda spoor, trace: ["babeltrace2", trace],
}


class Reading:
    """One trace for all rounds: 10 million events of 1,009 stacks, or 1 million with --quick."""

    def __init__(self):
        self.scratch = self.events = self.failed = None

    def trace(self, settings):
        if self.failed:
            raise Failed(self.failed)
        if not self.scratch:
            self.scratch = Scratch().__enter__()
            try:
                self.record(settings)
            except Failed as e:
                self.failed = str(e)
                raise
        return DEFAULT.trace(settings.context(self.scratch))

    def record(self, settings):
        ctx = settings.context(self.scratch)
        batches = 101 if settings.quick else 1009
        argv = [ctx.program("getppid"), "-b", str(batches), "-n", "10007", "-f", "10", "-v", "1009"]
        run = tools.run_under(DEFAULT, argv, ctx, ns_printed, 300)
        self.events = batches * 10007 - (run.lost or 0)

    def __call__(self, case, settings):
        trace = self.trace(settings)
        argv = READERS[case.label](settings.spoor, trace)
        with Scratch() as scratch:
            process = Process(argv, scratch, "reader", watch=True)
            if process.wait(600):
                raise Failed(process.said()[1].strip().splitlines()[-1:] or "failed")
            cpu = process.user + process.system
            return Run(value=self.events / 1e6 / max(cpu, 0.01), events=self.events, user=process.user,
                       system=process.system, rss=process.watcher.rss)

    def close(self):
        if self.scratch:
            self.scratch.__exit__()
            self.scratch = None


# --- all of them ------------------------------------------------------------------------------------------------------

def all_scenarios():
    modes = [FLOOR_RECORD, BARE, Spoor("-m", "app"), Spoor("-m", "app-all"), Spoor("-m", "lib"),
             Spoor("-m", "all", "-S", "512"), BPFTRACE_USTACK]
    deep = [FLOOR_RECORD, Spoor("-m", "all", "-S", "512"), BPFTRACE_USTACK]
    ns = {"unit": "ns a call", "better": "lower"}
    return [
        Scenario("bystander", "A program that nobody watches (getppid)", run=run_bystander, **ns,
                 cases=[Case(t.name, t, [], "native", FLOOR_EMPTY.name)
                        for t in (NATIVE, AGAIN, FLOOR_EMPTY, DEFAULT, BPFTRACE_COUNT, PERF_TRACE)],
                 about="Each tool watches a process that sleeps."),
        Scenario("nostack", "getppid, no stack", run=run_micro, **ns,
                 cases=[Case(t.name, t, [], "native", FLOOR_RECORD.name)
                        for t in (NATIVE, AGAIN, FLOOR_EMPTY, FLOOR_COUNTERS, FLOOR_RECORD, BARE, DEFAULT, *PEERS)],
                 about="From three frames; the contestants that take stacks stand beside those that do not."),
        Scenario("modes", "getppid by mode and depth", run=run_micro, **ns,
                 cases=micro_cases(frames(3, 10, 30), modes),
                 about="The frames belong to the program itself; beneath them lie five of start code."),
        Scenario("cross", "getppid beneath a library", run=run_micro, **ns,
                 cases=micro_cases(frames(3, 10, 30, options=["-l"]),
                                   [FLOOR_RECORD, Spoor("-m", "app"), Spoor("-m", "lib"), BPFTRACE_USTACK]),
                 about="All frames but the last belong to libc and a library: what a walk crosses to reach "
                       "the application."),
        Scenario("bigframes", "getppid with frames of 4 KiB", run=run_micro, **ns,
                 cases=micro_cases(frames(3, 10, 30, options=["-k"]), deep)),
        Scenario("variety", "getppid from 1,009 stacks", run=run_micro, **ns,
                 cases=micro_cases(frames(10, 20, options=["-v", "1009"]), deep),
                 about="Each call from the next stack: what the row cache does not hold is searched."),
        Scenario("python", "python3's variety of call sites", run=run_python, **ns, rounds=5,
                 cases=[Case(t.name, t, floor=FLOOR_RECORD.name) for t in (NATIVE, AGAIN, *deep)],
                 about="os.getppid from 20 to 35 C frames of the interpreter by 97 ways."),
        Scenario("decoding", "What a descriptor and a path cost", run=run_micro, **ns,
                 cases=micro_cases({"getppid": [], "fd": ["-m", "fd"], "path": ["-m", "path"]},
                                   [FLOOR_RECORD, BARE, DEFAULT]),
                 about="fcntl(F_GETFD) of a file; access of a path that is not there. What decoding adds is the "
                       "difference of what Spoor adds to them and what it adds to getppid."),
        Scenario("cold", "Rows cold and warm (getppid)", run=run_micro, cases=cold_cases(), **ns),
        Scenario("start", "Start to end around `python3 -c pass`", "ms", "lower", start_cases(), run_start),
        Scenario("rows", "Until an object's rows are ready", "ms", "lower", rows_cases(), run_rows, 3),
        Scenario("threads", "getppid in two threads", run=run_micro, **ns,
                 cases=micro_cases({"": ["-t", "2"]}, [FLOOR_RECORD, BARE, DEFAULT, BPFTRACE_USTACK])),
        Scenario("stat", "Counting getppid", run=run_micro, **ns, cases=counting_cases(),
                 about="From three frames. bpftrace counts entries only; perf trace -s and strace -c measure times."),
        Scenario("statthreads", "Counting getppid in one thread and in two", run=run_micro, **ns,
                 cases=micro_cases({"1 thread": [], "2 threads": ["-t", "2"]}, [FLOOR_COUNTERS, STAT, BPFTRACE_COUNT],
                                   floor=FLOOR_COUNTERS)),
        Scenario("statapache", "Counting Apache, prefork, ab -c 32", "requests/s", "higher", counting_cases(),
                 run_server("apache"), 3),
        Scenario("statswitches", "Counting who switches: perf bench sched pipe", "s", "lower", switch_cases(),
                 run_switches,
                 about="What the stamps at context switches cost: two processes wake each other through pipes."),
        Scenario("statmemory", "Memory of a thread that is counted", "KiB", "lower",
                 [Case(t.name, t) for t in (NATIVE, FLOOR_COUNTERS, STAT)], run_thread_memory, 3,
                 about="Growth of the kernel's unreclaimable slab by attaching to a process of 10,000 threads (1,000 "
                       "with --quick), per thread."),
        Scenario("apache", "Apache, prefork, ab -c 32", "requests/s", "higher", server_cases(),
                 run_server("apache"), 3),
        Scenario("redis", "redis-benchmark, GET, 50 clients", "requests/s", "higher", server_cases(),
                 run_server("redis"), 3),
        Scenario("mariadb", "MariaDB, sysbench oltp_read_only, 4 threads", "transactions/s", "higher",
                 server_cases(), run_server("mariadb"), 3),
        Scenario("storm", "A fork/exec storm: make -j2 of a real package", "s", "lower",
                 storm_cases(), run_storm, 5),
        Scenario("cpu", "Pure CPU: python3, xz, openssl", "s", "lower", cpu_cases(), run_cpu, 5),
        Scenario("reading", "Reading back", "million events/s", "higher",
                 [Case(name, NATIVE, native="spoor report") for name in READERS], Reading(), 5,
                 about="CPU seconds of the reader, of one trace of 10 million events from 1,009 stacks (1 million with "
                       "--quick)."),
    ]

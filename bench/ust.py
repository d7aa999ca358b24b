# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that trace themselves: Spoor's tracepoints beside LTTng-UST's, in the same programs."""

import dataclasses
import json
import os
import re
import signal
import subprocess

import tools
from measure import Failed, Process, Run, Scratch, first_line, size_of
from scenarios import Case, Scenario, ns_printed
from servers import call, wait_until
from tools import AGAIN, NATIVE, Spoor, Tool

HERE = os.path.dirname(os.path.abspath(__file__))
LTTNG = "LTTng-UST"
RDTSC = "floor: rdtsc alone"


class MemoryScratch(Scratch):
    """One in memory: what is compared is tracers, not disks."""

    def __enter__(self):
        super().__enter__()
        if subprocess.run(["mount", "-t", "tmpfs", "none", self.path], check=False).returncode:
            super().__exit__()
            raise Failed("cannot mount a tmpfs")
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.path], check=False)
        super().__exit__()


class Bare(Tool):
    """The program without any tracer: loops that do something else, or sites that nobody can switch on."""
    kind = "floor"

    def __init__(self, name):
        self.name = name

    def account(self, run, process, ctx):
        run.events = run.user = run.system = run.rss = None


class SpoorUst(Spoor):
    kind = "user"
    program_suffix = ""

    def __init__(self, *options, name="Spoor"):
        super().__init__(*options, name=name)

    def wrap(self, cmd, ctx):
        return [ctx.spoor, "ust", "run", *self.options, "-o", self.trace(ctx), "--", *cmd]


class Lttng(Tool):
    """bench/lttng_run. Its own defaults, but for what `options` (of the channel) say."""
    kind = "peer"
    program_suffix = "_lttng"

    def __init__(self, *options, name=LTTNG, snapshot=False):
        self.options = list(options)
        self.name = name
        self.env = {"LTTNG_RUN_CREATE": "--snapshot"} if snapshot else {}

    @staticmethod
    def trace(ctx):
        return ctx.scratch.file("trace.lttng")

    def wrap(self, cmd, ctx):
        return [os.path.join(HERE, "lttng_run"), self.trace(ctx), " ".join(self.options), *cmd]

    def account(self, run, process, ctx):
        found = re.search(r"lttng: (\d+) discarded, (\d+) user, (\d+) system ticks of (\d+)", process.said()[1])
        if not found:
            raise Failed(f"no account of LTTng's: {first_line(process.said()[1])}")
        lost, user, system, hertz = map(int, found.groups())
        run.lost, run.user, run.system, run.rss = lost, user / hertz, system / hertz, None
        run.events = run.ops - lost if run.ops else None
        run.trace = size_of(self.trace(ctx))


FLIGHT, FLIGHT_AGAIN = SpoorUst("--mode", "overwrite"), SpoorUst("--mode", "overwrite", name="Spoor again")
LTTNG_FLIGHT = Lttng("--overwrite", snapshot=True)
RECORDED, RECORDED_AGAIN, LTTNG_RECORDED = SpoorUst(), SpoorUst(name="Spoor again"), Lttng()


def program(case, ctx, name):
    path = ctx.program(name + getattr(case.tool, "program_suffix", ""))
    if not os.path.exists(path):
        raise Failed(f"{path} is not built (is liblttng-ust-dev installed?)")
    return path


def run_events(case, settings):
    """bench/ust.c under the tool."""
    with MemoryScratch() as scratch:
        ctx = settings.context(scratch)
        argv = [program(case, ctx, "bench_ust"), "-b", "20" if settings.quick else "200", *case.work]
        return tools.run_under(case.tool, argv, ctx, ns_printed, 120)


@dataclasses.dataclass
class Variant:
    label: str
    options: list                       # of bench/ust.c
    event: str
    floor: str = RDTSC
    floor_event: str = "rdtsc"
    spoor: tuple = ()                   # options of `spoor ust run`
    lttng: str = LTTNG                  # what LTTng-UST and its user do


STACK = {"event": "stack", "floor": "floor: rdtsc and frame pointers", "floor_event": "walk",
         "lttng": "LTTng-UST and backtrace()"}


def variants(*rest):
    return [
        Variant("two fields", [*rest], "two"),
        Variant("two fields, 2 threads", [*rest, "-t", "2"], "two"),
        Variant("int and string", [*rest], "text"),
        Variant("call stack, app-all", [*rest, "-n", "2000", "-f", "5"], spoor=("--context", "callstack"), **STACK),
        Variant("call stack, 20 frames", [*rest, "-n", "2000", "-f", "20"], spoor=("--stack", "all,20"), **STACK),
    ]


def with_options(tool, options):
    return SpoorUst(*tool.options, *options, name=tool.name) if options else tool


def event_cases(all_variants, spoor, again, lttng):
    """The floor, Spoor twice and LTTng-UST at each variant."""
    cases = []
    for v in all_variants:
        mark = f", {v.label}"
        native, floor, work = v.lttng + mark, v.floor + mark, [*v.options, v.event]
        cases += [
            Case(floor, Bare(v.floor), [*v.options, v.floor_event], native),
            Case(spoor.name + mark, with_options(spoor, v.spoor), work, native, floor),
            Case(again.name + mark, with_options(again, v.spoor), work, native, floor, spoor.name + mark),
            Case(native, lttng, work, native, floor),
        ]
    return cases


# --- sites that are off -----------------------------------------------------------------------------------------------

OFF_COLUMNS = {"nothing": None, "nop5": 2, "site": 3}


def run_off(case, settings):
    """The work between two places and what is at one. All three are measured by each process, in turns."""
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        with_library, column = case.work
        argv = [program(case, ctx, "bench_ust_sites"), "300" if settings.quick else "1000"]
        if with_library:
            argv = [ctx.spoor, "ust", "run", "-e", "nothing:*", "-o", SpoorUst.trace(ctx), "--", *argv]
        process = Process(argv, scratch, "sites")
        if process.wait(60):
            raise Failed(first_line(process.said()[1]))
        found = re.search(r"bare ([\d.]+) nop5 (-?[\d.]+) site (-?[\d.]+) ns", process.said()[0])
        if not found:
            raise Failed("the workload printed no result")
        column = OFF_COLUMNS[column]
        return Run(value=float(found[1]) + (float(found[column]) if column else 0))


def off_cases():
    nothing, nop5 = "nothing at the places", "a nop5 at the places"
    return [
        Case(nothing, NATIVE, [False, "nothing"], nothing),
        Case("nothing again", AGAIN, [False, "nothing"], nothing, again=nothing),
        Case(nop5, Bare(nop5), [False, "nop5"], nothing, nop5),
        Case("Spoor, without the library", NATIVE, [False, "site"], nothing, nop5),
        Case("Spoor", FLIGHT, [True, "site"], nothing, nop5),
        Case(LTTNG, LTTNG_RECORDED, [False, "site"], nothing, nop5),
    ]


# --- until main() -----------------------------------------------------------------------------------------------------

class Daemon:
    """A `spoor daemon` at a socket of its own."""

    def __init__(self, ctx, session):
        self.ctx, self.session = ctx, session
        self.socket = ctx.scratch.file("ust.sock")

    def __enter__(self):
        self.process = Process([self.ctx.spoor, "daemon", "--socket", self.socket], self.ctx.scratch, "daemon")
        wait_until(lambda: "ready" in self.process.said()[1], "spoor daemon's start")
        if self.session:
            call([self.ctx.spoor, "ust", "start", "--socket", self.socket, "-o", SpoorUst.trace(self.ctx)], 30)
        return self

    def __exit__(self, *_):
        try:
            if self.session:  # else its buffers would be kept for the next daemon
                call([self.ctx.spoor, "ust", "end", "--socket", self.socket], 30)
        finally:
            self.process.end(signal.SIGTERM, 60)


STARTS = {  # how: (the daemon: with a session, without, none; what is preloaded; more environment)
    "bare": (None, False, {}),
    "Spoor, no daemon": (None, True, {}),
    "Spoor, a daemon without a session": (False, True, {}),
    "Spoor, a session": (True, True, {}),
    "Spoor, alone": (None, True, {"SPOOR_UST_OUTPUT": "alone"}),
}
MANY = ", 1,000 sites more"
LTTNG_STARTS = ("LTTng-UST, no daemon", "LTTng-UST, a daemon without a session", LTTNG)


def run_start(case, settings):
    with MemoryScratch() as scratch:
        ctx = settings.context(scratch)
        how, started = case.work
        argv = [ctx.program("bench_ust_start"), "20" if settings.quick else "150"]
        if how in LTTNG_STARTS:
            return timed_starts([*lttng_around(how, ctx), *argv, program(case, ctx, started)], ctx)
        with_session, preloaded, more = STARTS[how]
        env = {"SPOOR_UST_SOCKET": scratch.file("ust.sock")} | {k: scratch.file(v) for k, v in more.items()}
        for directory in more.values():
            os.mkdir(scratch.file(directory))
        if preloaded:
            env["LD_PRELOAD"] = os.path.join(os.path.dirname(ctx.spoor), "src/agent/libspoor-ust.so")
        argv += [f"{k}={v}" for k, v in env.items()] + [program(case, ctx, started)]
        if with_session is None:
            return timed_starts(argv, ctx)
        with Daemon(ctx, with_session):
            return timed_starts(argv, ctx)


def lttng_around(how, ctx):
    if how == LTTNG_STARTS[0]:
        return []
    return [os.path.join(HERE, "lttng_run"), Lttng.trace(ctx) if how == LTTNG else "-", ""]


def timed_starts(argv, ctx):
    process = Process(argv, ctx.scratch, "starts")
    if process.wait(180):
        raise Failed(first_line(process.said()[1]) or "failed")
    ns, n = ns_printed(process.said()[0])
    return Run(value=ns / 1e6, ops=n)


def start_cases():
    two, many = "bench_ust_start", "bench_ust_start_many"
    cases = [Case("bare", NATIVE, ["bare", two]), Case("bare again", AGAIN, ["bare", two], again="bare")]
    cases += [Case(how, RECORDED, [how, two], "bare") for how in STARTS if how != "bare"]
    cases += [Case("bare" + MANY, NATIVE, ["bare", many])]
    cases += [Case(how + MANY, RECORDED, [how, many], "bare" + MANY) for how in STARTS if how != "bare"]
    return cases + [Case(how, LTTNG_RECORDED, [how, two], "bare") for how in LTTNG_STARTS]


# --- a million events a second ----------------------------------------------------------------------------------------

RATE = 1000000


def run_paced(case, settings):
    """CPU time of who takes the events, in ms a million; what was lost stands beside it."""
    with MemoryScratch() as scratch:
        ctx = settings.context(scratch)
        events = RATE * int(settings.load_seconds())
        argv = [program(case, ctx, "bench_ust"), "-r", str(RATE), "-n", str(events), "two"]
        run = tools.run_under(case.tool, argv, ctx, ns_printed, 300)
        if not run.events:
            raise Failed("no event was recorded")
        return dataclasses.replace(run, value=(run.user + run.system) * 1e3 / (run.events / 1e6), said="")


# --- stamps against the kernel's clock --------------------------------------------------------------------------------

CLOCKS = {"Spoor, by the TSC": "", "Spoor, by clock_gettime()": "monotonic"}


def ns_outside(spoor, trace):
    """By how much each stamp lies outside of what the program read just before and just after it."""
    with open(os.path.join(trace, "manifest"), encoding="utf-8") as f:
        epoch = json.load(f)["epoch_offset"]
    stamps = []
    for line in call([spoor, "report", "--format", "json", trace], 600).splitlines():
        e = json.loads(line)
        if e.get("event") == "zoo:clock":
            seconds, ns = e["ts"].split(".")
            stamps.append((int(seconds) * 10**9 + int(ns) - epoch, e["fields"]))
    return [max(fields["before"] - ts, ts - following["last_after"], 0)
            for (ts, fields), (_, following) in zip(stamps, stamps[1:])]


def run_clock(case, settings):
    """100 events a second for ten minutes, or for a sixtieth of that."""
    with Scratch() as scratch:
        ctx = settings.context(scratch)
        n = int(settings.load_seconds() * 1000)
        argv = ["env", "SPOOR_UST_CLOCK=" + CLOCKS[case.label], ctx.program("ust_clock"), str(n), "10000"]
        run = tools.run_under(case.tool, argv, ctx, lambda out: (None, n), 900)
        run.value = max(ns_outside(settings.spoor, SpoorUst.trace(ctx)))
        return run


# --- reading back -----------------------------------------------------------------------------------------------------

READERS = {
    "spoor report": lambda spoor, trace: [spoor, "report", trace],
    "spoor report --events": lambda spoor, trace: [spoor, "report", "--events", trace],
    "spoor report --format json": lambda spoor, trace: [spoor, "report", "--format", "json", trace],
    "babeltrace2, every field as text": lambda spoor, trace: ["babeltrace2", trace],
    "babeltrace2, nothing shown": lambda spoor, trace: ["babeltrace2", "-o", "dummy", trace],
}
LTTNG_READER = "babeltrace2 of LTTng-UST's trace, nothing shown"


class Reading:
    """One trace of each tracer for all rounds: 20 million events of two fields, or 1 million with --quick."""

    def __init__(self):
        self.scratch = None
        self.events = {}

    def open(self, settings):
        self.scratch = MemoryScratch().__enter__()
        ctx = settings.context(self.scratch)
        events = 1000000 if settings.quick else 20000000
        for tool in RECORDED, LTTNG_RECORDED:
            argv = [program(Case("", tool), ctx, "bench_ust"), "-r", str(RATE), "-n", str(events), "two"]
            self.events[tool] = tools.run_under(tool, argv, ctx, ns_printed, 120).events

    def __call__(self, case, settings):
        if not self.scratch:
            self.open(settings)
        ctx = settings.context(self.scratch)
        argv = READERS["babeltrace2, nothing shown" if case.label == LTTNG_READER else case.label](
            settings.spoor, case.tool.trace(ctx))
        with Scratch() as scratch:
            process = Process(argv, scratch, "reader", watch=True)
            if process.wait(600):
                raise Failed(first_line(process.said()[1]) or "failed")
            cpu = process.user + process.system
            return Run(value=self.events[case.tool] / 1e6 / max(cpu, 0.01), events=self.events[case.tool],
                       user=process.user, system=process.system, rss=process.watcher.rss)

    def close(self):
        if self.scratch:
            self.scratch.__exit__()
            self.scratch = None


# --- all of them ------------------------------------------------------------------------------------------------------

def ust_scenarios():
    ns = {"unit": "ns an event", "better": "lower", "ratios": (("x LTTng-UST", "native"), ("x rdtsc", "floor"))}
    flight = event_cases(variants(), FLIGHT, FLIGHT_AGAIN, LTTNG_FLIGHT)
    recorded = event_cases(variants("-w", "4000"), RECORDED, RECORDED_AGAIN, LTTNG_RECORDED)
    return [
        Scenario("ust", "A tracepoint that is on, flight recorder", run=run_events, **ns, cases=flight, rounds=3,
                 about="Batches of 20,000 events (2,000 with call stacks), back to back, into buffers that are "
                       "overwritten (which is what is lost); the time of the loop is taken off. Call stacks are "
                       "taken beneath twenty functions, by rows: app-all has five frames. LTTng-UST has no call "
                       "stacks of user space: its user calls backtrace() and records what that finds."),
        Scenario("ustrecord", "A tracepoint that is on, recorded to memory", run=run_events, **ns, cases=recorded,
                 rounds=3, about="The same with default buffers, which are emptied into a tmpfs meanwhile; after each "
                                 "batch the program rests for 4 ms."),
        Scenario("ustoff", "Sites that are off", "ns a place", "lower", off_cases(), run_off, 9,
                 ratios=(("x nothing", "native"), ("x nop5", "floor")),
                 about="1,000 places one after another, and work of one multiplication, a load and a store between "
                       "them; the least of 25 laps in turns, and of these the median of the rounds."),
        Scenario("uststart", "From exec to main()", "ms", "lower", start_cases(), run_start, 5,
                 about="The program has two tracepoints; or a thousand more, each with a site, all switched on. Spoor "
                       "is preloaded, LTTng-UST linked."),
        Scenario("ustpaced", "A million events a second for a minute", "ms of CPU a million events", "lower",
                 [Case("Spoor", RECORDED, native=LTTNG), Case(LTTNG, LTTNG_RECORDED, native=LTTNG)], run_paced, 1,
                 ratios=(("x LTTng-UST", "native"),),
                 about="Of who takes them out of the buffers; two fields, default buffers, into a tmpfs. (3 s with "
                       "--quick.)"),
        Scenario("ustclock", "Stamps against CLOCK_MONOTONIC over ten minutes", "ns off, the worst", "lower",
                 [Case(name, RECORDED, native=name) for name in CLOCKS], run_clock, 1,
                 about="100 events a second for ten minutes (30 s with --quick), each between two readings of the "
                       "clock by the program; how far the worst stamp lies outside of them."),
        Scenario("ustreading", "Reading back events of programs", "million events/s", "higher",
                 [*[Case(name, RECORDED, native="spoor report") for name in READERS],
                  Case(LTTNG_READER, LTTNG_RECORDED, native="spoor report")], Reading(), 2,
                 ratios=(("x spoor report", "native"),),
                 about="CPU seconds of the reader, of one trace of 20 million events of two fields (1 million with "
                       "--quick)."),
    ]

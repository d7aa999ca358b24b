# SPDX-License-Identifier: GPL-2.0-or-later
"""What Spoor has promised itself, checked against the results of this run; a missed bar is reported as it is."""

from tables import MB, markdown, number, per_ten_million

RECORD, EMPTY = "floor: one record", "floor: empty"
USTACK = "bpftrace ustack(5)"
STAT, STAT_SITE, COUNT = "spoor stat", "spoor stat --by site -m app", "bpftrace count"
DEFAULT, BARE = "spoor, defaults", "spoor, no stack"
APP, ALL = "spoor -m app", "spoor -m all -S 512"


def of(results, name, method, *args):
    result = results.get(name)
    return getattr(result, method)(*args) if result else None


def difference(a, b):
    return a - b if a is not None and b is not None else None


def quotient(a, b):
    return a / b if a is not None and b else None


def slope(results, name, tool, low, high):
    """ns for each further frame."""
    rise = difference(of(results, name, "added", f"{tool}, {high} frames"),
                      of(results, name, "added", f"{tool}, {low} frames"))
    return rise / (high - low) if rise is not None else None


def decoding(results, tool, what):
    """What a tool adds to a call with something to decode, beyond what it adds to a call without."""
    return difference(of(results, "decoding", "added", f"{tool}, {what}"),
                      of(results, "decoding", "added", f"{tool}, getppid"))


def spoor_runs(results):
    return [(result, case.label) for result in results.values() for case in result.scenario.cases
            if case.tool.kind == "spoor" and result.runs(case.label)]


def worst(results, value):
    known = [v for v in (value(result, label) for result, label in spoor_runs(results)) if v is not None]
    return max(known) if known else None


def memory(result, label):
    rss, bpf = result.median(label, "rss"), result.median(label, "bpf")
    return (rss + (bpf or 0)) / MB if rss is not None else None


def user_time(result, label):
    # Clock ticks are 10 ms: a short run says nothing.
    events = result.median(label, "events")
    return per_ten_million(result.median(label, "user"), events) if events and events > 1e6 else None


def bytes_an_event(result, label):
    events = result.median(label, "events")
    return quotient(result.median(label, "trace"), events) if events and events > 1e5 else None


def cpu_excess(results):
    """Per cent by which the loss of pure CPU exceeds 0.3 or the noise, whichever is more; <= 0 is met."""
    result = results.get("cpu")
    if not result:
        return None
    noise = result.noise()
    over = []
    for case in result.scenario.cases:
        loss = result.loss(case.label)
        if case.tool.name == DEFAULT and loss is not None:
            over.append(loss - max(0.3, noise.get(case.native, (0, 0))[1]))
    return max(over) if over else None


def started(results, how):
    """ms until main() beyond the program without a tracer."""
    return of(results, "uststart", "added", how)


BARS = [  # (what, limit, unit, function of all results)
    ("a bystander, x the empty floor", 1.1, "x", lambda r: of(r, "bystander", "times_floor", DEFAULT)),
    ("no stack, x the one-record floor", 1.2, "x", lambda r: of(r, "nostack", "times_floor", BARE)),
    ("mode app over three frames, added", 200, "ns", lambda r: of(r, "cross", "added", f"{APP}, 3 frames")),
    ("the same, x what bpftrace ustack(5) adds", 0.5, "x",
     lambda r: quotient(of(r, "cross", "added", f"{APP}, 3 frames"), of(r, "cross", "added", f"{USTACK}, 3 frames"))),
    ("each further frame, cached, 3 to 10", 30, "ns", lambda r: slope(r, "modes", ALL, 3, 10)),
    ("each further frame, cached, 10 to 30", 30, "ns", lambda r: slope(r, "modes", ALL, 10, 30)),
    ("each further frame, searched (1,009 stacks), 10 to 20", 90, "ns", lambda r: slope(r, "variety", ALL, 10, 20)),
    ("mode all, 20 frames, 1,009 stacks, added", 400, "ns", lambda r: of(r, "variety", "added", f"{ALL}, 20 frames")),
    ("mode all, python3, 20 to 35 frames, added", 400, "ns", lambda r: of(r, "python", "added", ALL)),
    ("a descriptor's identity", 40, "ns", lambda r: decoding(r, DEFAULT, "fd")),
    ("a path", 80, "ns", lambda r: decoding(r, DEFAULT, "path")),
    ("Apache: loss, x bpftrace ustack(5)'s", 0.6, "x",
     lambda r: quotient(of(r, "apache", "loss", DEFAULT), of(r, "apache", "loss", USTACK))),
    ("Apache: events lost", 0, "events", lambda r: of(r, "apache", "median", DEFAULT, "lost")),
    ("stat, x the counting floor", 1.15, "x", lambda r: of(r, "stat", "times_floor", STAT)),
    ("stat, x what bpftrace's count adds", 1, "x",
     lambda r: quotient(of(r, "stat", "added", STAT), of(r, "stat", "added", COUNT))),
    ("stat --by site -m app, beyond stat", 100, "ns",
     lambda r: difference(of(r, "stat", "added", STAT_SITE), of(r, "stat", "added", STAT))),
    ("stat, two threads at once, x one", 1.05, "x",
     lambda r: quotient(of(r, "statthreads", "added", f"{STAT}, 2 threads"),
                        of(r, "statthreads", "added", f"{STAT}, 1 thread"))),
    ("stat: Apache's loss", 6, "%", lambda r: of(r, "statapache", "loss", STAT)),
    ("stat: memory a live thread", 16, "KiB", lambda r: of(r, "statmemory", "median", STAT, "value")),
    ("python3's rows, cold", 50, "ms", lambda r: of(r, "rows", "median", "rows compiled, python3")),
    ("python3's rows, from the cache", 2, "ms", lambda r: of(r, "rows", "median", "rows from the cache, python3")),
    ("bytes an event, worst", 80, "B", lambda r: worst(r, bytes_an_event)),
    ("Spoor's user time for 10 million events, worst", 0.2, "s", lambda r: worst(r, user_time)),
    ("pure CPU: loss beyond 0.3 % and the noise", 0, "%", cpu_excess),
    ("Spoor's memory with BPF maps, worst", 200, "MB", lambda r: worst(r, memory)),
    *[bar for what in ("two fields", "two fields, 2 threads") for bar in (
        (f"a tracepoint that is on, {what}", 20, "ns", lambda r, w=what: of(r, "ust", "median", f"Spoor, {w}")),
        ("the same, x LTTng-UST's", 0.25, "x",
         lambda r, w=what: of(r, "ust", "ratio", f"Spoor, {w}", f"LTTng-UST, {w}")))],
    ("code with sites that are off, x the same with nop5", 1.5, "x",
     lambda r: of(r, "ustoff", "ratio", "Spoor", "a nop5 at the places")),
    ("what a site that is off adds, x LTTng-UST's", 1, "x",
     lambda r: quotient(of(r, "ustoff", "added", "Spoor"), of(r, "ustoff", "added", "LTTng-UST"))),
    ("until main(), no daemon, added", 1, "ms", lambda r: started(r, "Spoor, no daemon")),
    ("until main(), recorded, added", 1, "ms", lambda r: started(r, "Spoor, a session")),
    ("until main(), alone, added", 1, "ms", lambda r: started(r, "Spoor, alone")),
    ("until main(), 1,000 sites, recorded, added", 1, "ms",
     lambda r: started(r, "Spoor, a session, 1,000 sites more")),
    ("until main(), 1,000 sites, alone, added", 1, "ms", lambda r: started(r, "Spoor, alone, 1,000 sites more")),
    ("stamps of ten minutes, off CLOCK_MONOTONIC", 1000, "ns",
     lambda r: of(r, "ustclock", "median", "Spoor, by the TSC", "value")),
    ("a million events a second: lost", 0, "events", lambda r: of(r, "ustpaced", "median", "Spoor", "lost")),
]
AT_LEAST = [
    ("reading back, a core", 10, "million events/s", lambda r: of(r, "reading", "median", "spoor report")),
    ("reading back events of programs, a core", 10, "million events/s",
     lambda r: of(r, "ustreading", "median", "spoor report")),
]


def rows_of(results):
    for bars, met, sign in ((BARS, lambda v, limit: v <= limit, "<="), (AT_LEAST, lambda v, limit: v >= limit, ">=")):
        for what, limit, unit, value_of in bars:
            value = value_of(results)
            if value is not None:
                yield what, f"{sign} {limit:g} {unit}", number(value, 2), "met" if met(value, limit) else "**missed**"


def table(results):
    rows = list(rows_of(results))
    return "## Bars\n\n" + markdown(["bar", "limit", "here", ""], rows) + "\n" if rows else ""

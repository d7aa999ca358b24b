# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor report on generated user events: the same events as babeltrace2 reads, in every form, chosen in every way."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
from collections import Counter

import bt2
import pytest

from conftest import wait_for

SCENARIOS = ["types", "names", "long", "many", "lanes", "both", "rotate"]
FORMS = [[], ["--by", "app"], ["--by", "all", "--top", "3"], ["--events"], ["--events", "-k"], ["--format", "json"],
         ["--folded"], ["--blocked"], ["--event", "*:*"]]


@pytest.fixture(scope="module")
def traces(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for scenario in SCENARIOS:
        subprocess.run([build / "tests/tools/user_gen", scenario, folder / scenario], check=True, timeout=60)
    return folder


@pytest.fixture
def spoor(build):
    def run(*args, **how):
        how = {"capture_output": True, "text": True, "timeout": 60} | how
        return subprocess.run([build / "spoor", *map(str, args)], **how)
    return run


def lines(text):
    return [json.loads(l) for l in text.splitlines()]


def user_events(spoor, *args):
    run = spoor("report", "--format", "json", *args)
    assert run.returncode == 0, run.stderr
    *events, summary = lines(run.stdout)
    events = [e for e in events if "fields" in e]
    assert len(events) == summary["user_events"]
    return events, summary


# ---- JSON against babeltrace2 ----

def plain(field):
    """A field of babeltrace2's as Spoor writes it in JSON."""
    if isinstance(field, bt2._StringFieldConst):
        return str(field)
    if isinstance(field, bt2._ArrayFieldConst):
        return [plain(f) for f in field]
    if isinstance(field, bt2._RealFieldConst):
        value = float(field)
        return value if abs(value) != float("inf") else "inf" if value > 0 else "-inf"
    base = field.cls.preferred_display_base
    if base == 16:
        return hex(int(field))
    if base == 8:
        return "0" + oct(int(field))[2:] if int(field) else "0"
    if isinstance(field, bt2._EnumerationFieldConst):
        names = [m.label for m in field.cls.values() if any(r.lower <= int(field) <= r.upper for r in m.ranges)]
        return {"value": int(field), "name": names[0].replace("?", '"') if names else None}
    return int(field)


def fields(group):
    skip = {f"{k}_length" for k, f in group.items() if not isinstance(f, bt2._IntegerFieldConst)} | {"padding"}
    return {k: plain(f) for k, f in group.items() if k not in skip and not isinstance(f, bt2._StructureFieldConst)}


def oracle(trace):
    out = []
    for msg in bt2.TraceCollectionMessageIterator(str(trace)):
        if type(msg) is not bt2._EventMessageConst or msg.event.cls.id < 2048:
            continue
        context = msg.event.specific_context_field or msg.event.payload_field.get("context")
        out.append((msg.default_clock_snapshot.ns_from_origin, int(msg.event.common_context_field["tid"]),
                    msg.event.name, fields(msg.event.payload_field), fields(context) if context is not None else None))
    return out


def ours(events):
    out = []
    for e in events:
        context = e.get("context")
        out.append((int(e["ts"].replace(".", "")), e["tid"], e["event"], e["fields"], context))
    return out


def single(value):
    """Of single precision Spoor writes as many digits as tell one number from the next."""
    return [single(v) for v in value] if isinstance(value, list) else struct.unpack("f", struct.pack("f", float(value)))


def comparable(event):
    """Characters are numbers to babeltrace2, a stack's id is not a value to us, and what is an empty string may be
    stale there (a defect of 2.0.4: t001_trace_babeltrace.py)."""
    ts, tid, name, values, context = event
    values = {k: single(v) if k in ("f", "floats") else v for k, v in values.items()
              if k != "char" and not isinstance(v, str)}
    if context:
        context = {k: v for k, v in context.items() if k not in ("stack", "procname")}
    return json.dumps([ts, tid, name, values, context], sort_keys=True)


@pytest.mark.parametrize("scenario", ["types", "lanes", "both", "rotate"])
def test_json_is_what_babeltrace_reads(spoor, traces, scenario):
    events, _ = user_events(spoor, traces / scenario)
    expected = oracle(traces / scenario)
    assert len(events) == len(expected) > 100
    assert sorted(map(comparable, ours(events))) == sorted(map(comparable, expected))
    texts = Counter(e["fields"]["text"] for e in events if e["fields"].get("text"))
    assert texts <= Counter(e[3]["text"] for e in expected if "text" in e[3])


def test_contexts_and_values(spoor, traces):
    events, summary = user_events(spoor, "--event", "others:*", traces / "types")
    full = [e for e in events if e["event"] == "others:all"]
    assert len(full) == 500 and len(events) == 600
    e = full[0]
    assert e["cpu"] == e["context"]["cpu"] and e["pid"] == 10 and e["comm"] == "types" and e["walk"] in ("lost", None)
    assert list(e["fields"])[:4] == ["f", "d", "dbe", "floats"] and "stack" not in e["context"]
    assert {x["fields"]["colour"]["name"] for x in full} > {None, "RED", "BLUE or so", '"last"'}
    assert re.fullmatch("0x[0-9a-f]+", e["fields"]["p"])
    assert summary["programs"] == [{"pid": 10, "comm": "program", "state": "crashed", "lost": 5, "malformed": 1}]


def test_names_that_occur_twice(spoor, traces):
    events, _ = user_events(spoor, traces / "names")
    assert len(events) == 120
    for e in events:
        assert {"event", "stream", "padding", "a b", "é", "x", "x#2", "x#3", "x#4", "name=1", '"', "*/"} <= \
            set(e["fields"])


# ---- text ----

def test_table(spoor, traces):
    out = spoor("report", traces / "both").stdout
    assert re.search(r"^both\[50\]: 2,000 user events$", out, re.M)
    assert re.search(r"^ +2,000 +[\d.e+]+  both:string  both\.c:7$", out, re.M)
    assert re.search(r"^ +500 .* getpid ", out, re.M) and "User events: 2,000, within" in out and "Calls: 500," in out
    out = spoor("report", traces / "types").stdout
    assert "Calls:" not in out and "Walks:" not in out and "No call" not in out
    assert "Crashed: program[10]" in out
    assert "Lost: in program[10] 5, whose buffer was full, or its packets too small." in out


def test_why_a_program_lost_some(spoor, traces, tmp_path):
    """What the trace says of no program alone may be what any of them lost."""
    shutil.copytree(traces / "types", tmp_path / "types")
    manifest = tmp_path / "types/manifest"
    told = json.loads(manifest.read_text())
    told["lost_writing"] = 3
    manifest.write_text(json.dumps(told))
    out = spoor("report", tmp_path / "types").stdout
    why = "whose buffer was full, or its packets too small"
    assert f"\nLost: in program[10] 5, {why}, or which could not be written.\n" in out
    told["counters"]["ust_lost_child"] = 1
    told["lost_writing"] = 0
    manifest.write_text(json.dumps(told))
    out = spoor("report", tmp_path / "types").stdout
    assert f"\nLost: in program[10] 5, {why}, or whose children could have none.\n" in out


def test_table_by_app_and_top(spoor, traces):
    out = spoor("report", "--by", "all", "--top", "3", traces / "many").stdout
    assert out.count(" many:event_") == 3
    assert "all processes (1 process): 3,000 user events" in out and "in 2997 more rows" in out
    assert "many (1 process): 3,000 user events" in spoor("report", "--by", "app", traces / "many").stdout


def test_rate(spoor, traces):
    events, _ = user_events(spoor, traces / "lanes")
    ns = [int(e["ts"].replace(".", "")) for e in events]
    rate = float(re.search(r"^ +20,000 +(\S+)  lanes:string", spoor("report", traces / "lanes").stdout, re.M)[1])
    assert rate == pytest.approx((len(ns) - 1) * 1e9 / (max(ns) - min(ns)), rel=1e-3)


def test_discarded_are_told(spoor, traces):
    out = spoor("report", traces / "lanes").stdout
    told = int(re.search(r"^Lost: ([\d,]+) events were discarded", out, re.M)[1].replace(",", ""))
    assert told == user_events(spoor, traces / "lanes")[1]["discarded"] > 100


def test_events_stand_between_the_calls(spoor, traces):
    out = spoor("report", "--events", traces / "both").stdout
    rows = re.findall(r"^\[50\] \S+ (getpid|both:string)", out, re.M)
    assert rows.count("getpid") == 500 and rows.count("both:string") == 2000
    json_rows = [e["event"] for e in lines(spoor("report", "-f", "json", traces / "both").stdout)[:-1]]
    assert rows == json_rows
    assert re.search(r'both:string number=-?\d+ text=".*"$', out, re.M)


def test_events_show_values(spoor, traces):
    out = spoor("report", "--events", "-k", "--event", "others:all", traces / "types").stdout
    assert re.search(r" colour=RED\(0\) ", out) and re.search(r" colour=195 ", out)
    assert re.search(r" floats=\[\S+, \S+, \S+\] ", out) and re.search(r" \{cpu=\d+, procname=\"", out)
    assert re.search(r"^    > \[stack lost\]$", out, re.M)


# ---- choosing ----

def test_by_name(spoor, traces):
    for globs, count in (("ints:*", 720), ("*:nothing", 100), ("ints:widths,others:nothing", 820), ("ints", 0)):
        assert len(user_events(spoor, "--event", globs, traces / "types")[0]) == count
    out = spoor("report", "--event", "both:*", traces / "both").stdout
    assert "getpid" not in out and "Calls:" not in out and "both:string" in out


def test_with_calls(spoor, traces):
    def kinds(*args):
        return {e["event"] for e in lines(spoor("report", "-f", "json", *args, traces / "both").stdout)[:-1]}
    assert kinds() == {"getpid", "both:string"}
    assert kinds("-e", "getpid") == {"getpid"}
    assert kinds("--event", "both:*") == {"both:string"}
    assert kinds("--event", "both:*", "-e", "getpid") == {"getpid", "both:string"}
    assert kinds("--failed") == set()
    assert kinds("--function", "x*") == set()


def test_by_process_and_thread(spoor, traces):
    events, _ = user_events(spoor, traces / "types")
    some, _ = user_events(spoor, "--tid", "11", traces / "types")
    assert some == [e for e in events if e["tid"] == 11] and 0 < len(some) < len(events)
    assert user_events(spoor, "--pid", "10", traces / "types")[0] == events
    assert not user_events(spoor, "--pid", "11", traces / "types")[0]


def test_by_time(spoor, traces):
    events, _ = user_events(spoor, traces / "both")
    ns = sorted(int(e["ts"].replace(".", "")) for e in events)
    low, high = ns[700], ns[1300]
    some, _ = user_events(spoor, "--from", f"@{low // 10**9}.{low % 10**9:09}", "--to",
                          f"@{high // 10**9}.{high % 10**9:09}", traces / "both")
    assert some == [e for e in events if low <= int(e["ts"].replace(".", "")) <= high] and len(some) >= 600


# ---- bad days ----

@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_forms_escape_and_end(spoor, traces, form):
    for scenario in SCENARIOS:
        run = spoor("report", *form, traces / scenario, text=False)
        assert run.returncode == 0, run.stderr
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", run.stdout + run.stderr)


def test_damaged_traces(stands_damage, traces):
    stands_damage([traces / scenario for scenario in SCENARIOS], FORMS, 12)


def test_repair(spoor, traces, tmp_path):
    trace = tmp_path / "torn.spoor"
    shutil.copytree(traces / "lanes", trace)
    stream = max(trace.glob("*/ust/seg-*/lane*"), key=lambda f: f.stat().st_size)
    os.truncate(stream, stream.stat().st_size - 12)
    assert "was cut off" in spoor("report", trace).stdout
    assert spoor("repair", trace).returncode == 0
    assert subprocess.run(["babeltrace2", trace], capture_output=True, timeout=60).returncode == 0
    damages = [line for line in spoor("report", trace).stdout.splitlines() if line.startswith("Damaged: ")]
    assert len(damages) == 1 and damages[0].endswith(" bytes of its streams are not there"), damages


# ---- following ----

def sorted_lines(text):
    """Without names of threads: what comes later may know a better one."""
    return sorted(re.sub('"comm":"[^"]*"', "", l) for l in text.splitlines() if "spoor:summary" not in l)


def start_slowly(build, trace, count):
    writer = subprocess.Popen([build / "tests/tools/user_gen", "slow", trace, str(count)])
    wait_for(lambda: list(trace.glob("*/ust/seg-*/lane0")), every=0.001)
    return writer


def test_follow(build, spoor, tmp_path):
    """Everything that is written while it is looked on, segments and classes that come later too; once each."""
    trace = tmp_path / "slow.spoor"
    writer = start_slowly(build, trace, 10)
    shown = spoor("report", "--follow", "--format", "json", trace)
    assert shown.returncode == 0, shown.stderr
    assert writer.wait(20) == 0
    after = spoor("report", "--format", "json", trace)
    assert sorted_lines(shown.stdout) == sorted_lines(after.stdout) and len(sorted_lines(after.stdout)) > 500
    end = lines(shown.stdout)[-1]
    assert end["ended"] and not end["damages"] and end["user_events"] == lines(after.stdout)[-1]["user_events"]


def test_follow_is_in_time(build, tmp_path):
    """Events are shown long before the recording ends."""
    trace = tmp_path / "slow.spoor"
    writer = start_slowly(build, trace, 100)
    reader = subprocess.Popen([build / "spoor", "report", "--follow", "--events", trace], stdout=subprocess.PIPE,
                              text=True)
    try:
        seen = 0
        while seen < 200:
            assert (line := reader.stdout.readline())
            seen += " both:string " in line
        assert writer.poll() is None
        writer.kill()
        rest = reader.stdout.read()  # it ends by itself, and says how the recording did
        assert reader.wait(20) == 0 and "The recording was cut off" in rest
    finally:
        writer.kill()
        writer.wait()
        reader.kill()
        reader.wait()


def test_follow_until_stopped(build, tmp_path):
    trace = tmp_path / "slow.spoor"
    writer = start_slowly(build, trace, 100)
    try:
        reader = subprocess.Popen([build / "spoor", "report", "--follow", "--events", trace], stdout=subprocess.PIPE,
                                  text=True)
        reader.stdout.readline()
        reader.send_signal(signal.SIGINT)
        assert "The recording is still going on" in reader.stdout.read() and reader.wait(20) == 0
    finally:
        writer.kill()
        writer.wait()


def test_follow_what_has_ended(spoor, traces):
    shown, plain_ = (spoor("report", *args, "--events", traces / "rotate").stdout for args in (["--follow"], []))
    assert shown == plain_
    assert spoor("report", "--follow", traces / "rotate").stdout == shown
    assert spoor("report", "--follow", "--folded", traces / "rotate").returncode == 2


def test_wrong_usage(spoor):
    run = spoor("report", "--event", "", "x")
    assert run.returncode == 2 and "--event takes names" in run.stderr

# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat --by site` says what `spoor record` of the same run says."""
import json
import subprocess
from collections import Counter

import pytest


PROGRAMS = ("/usr/bin/python3", "/usr/bin/dash", "/usr/bin/true")


def site(frames):
    """What a report tells apart: the innermost frame of the application, by function and line where known."""
    for f in frames or ():
        if f["object"].startswith(PROGRAMS):
            return f["object"], f["function"] or f["offset"], f["file"], f["line"]
    return None


def recorded(spoor, trace):
    """(call, frames) -> calls, of what has returned."""
    found = Counter()
    for line in spoor("report", "--format", "json", trace).stdout.splitlines():
        e = json.loads(line)
        if e["event"].startswith("spoor:") or e.get("pending") or e.get("ret") is None:
            continue
        found[e["event"], site(e.get("stack"))] += 1
    return found


def counted_sites(c):
    found = Counter()
    for task in c.tasks:
        for call in task["syscalls"]:
            for s in call["sites"]:
                if s["calls"]:
                    found[call["name"], site(s.get("stack"))] += s["calls"]
    return found


@pytest.mark.parametrize("mode, sites", [("app", 1), ("app-all", 5), ("lib", 5)])
def test_as_recorded(spoor, record, counting_under_way, start, mode, sites):
    target = start("sh", "-c", "read x; exec /usr/bin/python3 -c 'import os, json, subprocess\n"
                               "for i in range(997): os.getppid(); os.stat(\"/\")\n"
                               "subprocess.run([\"/bin/true\"])'")
    recording = record("-p", target.pid, "--follow", "-m", mode, "-S", sites)
    stat = counting_under_way("-p", target.pid, "--follow", "--by", "site", "-m", mode, "--sites", sites)
    target.stdin.write(b"\n")
    target.stdin.close()
    target.stdin = None
    assert target.wait(60) == 0
    assert recording.wait() == 0 and stat.wait() == 0
    (c,) = stat.counters()
    theirs, ours = recorded(spoor, recording.trace), counted_sites(c.whole())
    assert sum(ours.values()) == sum(theirs.values())
    names = Counter(s["site"] for t in c.tasks for call in t["syscalls"] for s in call["sites"])
    assert "[stack lost]" not in names, names
    assert ours == theirs
    assert max(n for (name, _), n in ours.items() if name == "getppid") >= 997


def test_many_sites(count, tmp_path):
    """More call sites than a thread has slots for: none is missing."""
    source = tmp_path / "sites.c"
    source.write_text("#include <unistd.h>\nint main(void) {\n" +
                      "".join(f"for (int i = 0; i < {i % 7 + 1}; i++) getppid();\n" for i in range(400)) +
                      "return 0; }\n", encoding="ascii")
    subprocess.run(["gcc", "-O0", "-g", "-o", tmp_path / "sites", source], check=True, timeout=60)
    _, (c,) = count("--by", "site", "-e", "getppid", "--", tmp_path / "sites")
    (call,) = c.whole().tasks[0]["syscalls"]
    assert len(call["sites"]) == 400
    assert Counter(s["calls"] for s in call["sites"]) == Counter(i % 7 + 1 for i in range(400))
    assert all(s["stack"][0]["line"] for s in call["sites"])


def test_text(spoor, actor):
    out = spoor("stat", "--by", "site", "--", actor()).stderr
    assert out.splitlines()[1].endswith("call site") and "[no application frame]" in out

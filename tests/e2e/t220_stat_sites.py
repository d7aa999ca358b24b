# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat --by site` says what `spoor record` of the same run says."""
import json
import subprocess
from collections import Counter

import pytest


def place(f):
    return f["object"], f["function"] or f["offset"], f["file"], f["line"]


def site(frames):
    """What a site is: all frames of its stack, by function and line where known."""
    return tuple(place(f) for f in frames or ())


def recorded(spoor, trace):
    """(call, frames) -> calls, of what has returned; and call -> calls whose stack the recording says it has lost."""
    found, lost = Counter(), Counter()
    for line in spoor("report", "--format", "json", trace).stdout.splitlines():
        e = json.loads(line)
        if e["event"].startswith("spoor:") or e.get("pending") or e.get("ret") is None:
            continue
        if e["walk"] == "lost":
            lost[e["event"]] += 1
        else:
            found[e["event"], site(e.get("stack"))] += 1
    return found, lost


def counted_sites(c):
    found = Counter()
    for task in c.tasks:
        for call in task["syscalls"]:
            for s in call["sites"]:
                if s["calls"]:
                    found[call["name"], site(s.get("stack"))] += s["calls"]
    return found


def assert_same_sites(ours, theirs, lost):
    """
    The same, but for the few walks that one of both did on a copy of the stack (unwind rows came later): functions with
    tens of KiB of locals go beyond it, and what is known of their callers is then only the begin of what the other has.
    """
    more, less = list((ours - theirs).elements()), list((theirs - ours).elements())
    assert len(less) <= 8
    for name, frames in less:
        pairs = [(n, f) for n, f in more
                 if n == name and (frames[:len(f)] == f or f[:len(frames)] == frames) and f and frames]
        assert pairs, (name, frames, more)
        more.remove(pairs[0])
    assert Counter(name for name, _ in more) == lost


@pytest.fixture
def chain(tmp_path):
    """10 calls of getppid by one function, which two others call."""
    source = tmp_path / "chain.c"
    source.write_text("#include <unistd.h>\n"
                      "static volatile int n;\n"
                      "__attribute__((noinline)) void inner(void) { getppid(); n++; }\n"
                      "__attribute__((noinline)) void left(void) { inner(); n++; }\n"
                      "__attribute__((noinline)) void right(void) { inner(); n++; }\n"
                      "int main(void) {\n"
                      "for (int i = 0; i < 10; i++) if (i < 3) left(); else right();\n"
                      "return 0; }\n", encoding="ascii")
    subprocess.run(["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-o", tmp_path / "chain", source], check=True,
                   timeout=60)
    return tmp_path / "chain"


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
    (theirs, lost), ours = recorded(spoor, recording.trace), counted_sites(c.whole())
    assert sum(ours.values()) == sum(theirs.values()) + sum(lost.values())
    names = Counter(s["site"] for t in c.tasks for call in t["syscalls"] for s in call["sites"])
    assert "[stack lost]" not in names, names
    assert_same_sites(ours, theirs, lost)
    assert max(n for (name, _), n in ours.items() if name == "getppid") >= 997
    longest = max(len(frames) for _, frames in ours)
    assert longest <= 1 if mode == "app" else longest > 1


def test_chain_labels(count, chain):
    """What has several frames is called by all of them, the innermost first."""
    _, (c,) = count("--by", "site", "-m", "app-all", "-e", "getppid", "--", chain)
    (call,) = c.whole().tasks[0]["syscalls"]
    found = {tuple(part.split()[0] for part in s["site"].split(" < ")[:3]): s["calls"] for s in call["sites"]}
    assert found == {("inner", "left", "main"): 3, ("inner", "right", "main"): 7}
    _, (c,) = count("--by", "site", "-e", "getppid", "--", chain)
    (call,) = c.whole().tasks[0]["syscalls"]
    assert [(s["site"].split()[0], s["calls"]) for s in call["sites"]] == [("inner", 10)]


def test_each_exit(count, chain):
    """Sites of processes that end before anything else was looked at."""
    _, (*ended, c) = count("--each-exit", "--by", "site", "-e", "getppid", "--", "sh", "-c", f"{chain}; {chain}; :")
    assert len(ended) == 3
    sites = [[(s["site"].split()[0], s["calls"], s["stack"][0]["function"])
              for call in e.tasks[0]["syscalls"] for s in call["sites"] if s["calls"] > 1] for e in ended]
    assert sites == [[("inner", 10, "inner")], [("inner", 10, "inner")], []]
    assert c.whole().of("getppid") == sum(e.of("getppid") for e in ended) >= 20


def test_own_code(count, chain):
    """--app says whose frames name a site; --unwind fp walks by frame pointers."""
    _, (c,) = count("--by", "site", "-e", "getppid", "--app", "libc*", "--", chain)
    (call,) = c.whole().tasks[0]["syscalls"]
    assert all("libc" in s["stack"][0]["object"] for s in call["sites"])
    assert sum(s["calls"] for s in call["sites"]) == 10
    for way in ("fp", "scan"):
        _, (c,) = count("--by", "site", "-e", "getppid", "--unwind", way, "--", chain)
        (call,) = c.whole().tasks[0]["syscalls"]
        assert sum(s["calls"] for s in call["sites"]) == 10
        assert {s["stack"][0]["function"] for s in call["sites"] if s["stack"]} & {"inner", "left", "right"}


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

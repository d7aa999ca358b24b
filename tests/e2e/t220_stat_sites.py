# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat --by site` says what `spoor record` of the same run says."""
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter

import pytest

from processes import tell


def place(f):
    return f["object"], f["function"] or f["offset"], f["file"], f["line"]


def site(frames):
    """What a site is: all frames of its stack, by function and line where known."""
    return tuple(place(f) for f in frames or ())


def recorded(spoor, trace):
    """
    Of what has returned: (call, frames) -> calls; the same of those whose stack the recording says was cut, for having
    been walked in a copy; and call -> calls whose stack it says it has lost.
    """
    found, cut, lost = Counter(), Counter(), Counter()
    for line in spoor("report", "--format", "json", trace).stdout.splitlines():
        e = json.loads(line)
        if e["event"].startswith("spoor:") or e.get("pending") or e.get("ret") is None:
            continue
        if e["walk"] == "lost":
            lost[e["event"]] += 1
            continue
        found[e["event"], site(e.get("stack"))] += 1
        if e["walk"] == "truncated" and e["way"] == "user":
            cut[e["event"], site(e.get("stack"))] += 1
    return found, cut, lost


def counted_sites(c):
    found = Counter()
    for task in c.tasks:
        for call in task["syscalls"]:
            for s in call["sites"]:
                if s["calls"]:
                    found[call["name"], site(s.get("stack"))] += s["calls"]
    return found


def assert_same_sites(ours, theirs, cut, lost):
    """
    The same, with two allowances, for a program of which nobody knows how deep its stacks are:
    - Either side may have walked a few calls in a copy of the stack, before the unwind rows of a file were there;
      locals of tens of KiB go beyond the copy, and what is known is then only the begin of what the other has. The
      recording says of which that is so; counting does not.
    - Where the recording lost a stack, counting may have it.
    """
    more, less = list((ours - theirs).elements()), list((theirs - ours).elements())
    assert len(less) <= 8
    for name, frames in less:
        pairs = [(n, f) for n, f in more if n == name and f and frames and
                 (frames[:len(f)] == f or f[:len(frames)] == frames and cut[name, frames])]
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


SHALLOW = """
#include <pthread.h>
#include <unistd.h>
static volatile int n;
__attribute__((noinline)) void inner(void) { getppid(); n++; }
__attribute__((noinline)) void left(void) { inner(); getuid(); n++; }
__attribute__((noinline)) void right(void) { inner(); access("/", F_OK); n++; }
static void *thread(void *arg) { for (int i = 0; i < 31; i++) left(); return arg; }
int main(void)
{
	pthread_t threads[3];
	char byte;

	if (read(0, &byte, 1) != 1)
		return 1;
	for (int i = 0; i < 97; i++)
		i % 7 ? left() : right();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, thread, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""
PYTHON = """import os, json, subprocess
for i in range(997): os.getppid(); os.stat("/")
subprocess.run(["/bin/true"])"""
MODES = pytest.mark.parametrize("mode, sites", [("app", 1), ("app-all", 5), ("lib", 5)])


@pytest.fixture
def both(spoor, record, counting_under_way):
    """Attaches both to a process that waits for a line, and returns what each says of the rest of its life."""
    def run(target, mode, sites):
        recording = record("-p", target.pid, "--follow", "-m", mode, "-S", sites)
        stat = counting_under_way("-p", target.pid, "--follow", "--by", "site", "-m", mode, "--sites", sites)
        target.stdin.write(b"\n")
        target.stdin.close()
        assert target.wait(60) == 0
        assert recording.wait() == 0 and stat.wait() == 0
        (c,) = stat.counters()
        return c.whole(), recorded(spoor, recording.trace)
    return run


@MODES
def test_as_recorded(both, start, tmp_path, mode, sites):
    """To the call and to the frame, of a program whose stacks are never too deep to be copied."""
    (tmp_path / "shallow.c").write_text(SHALLOW, encoding="ascii")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", "shallow", "shallow.c"], cwd=tmp_path, check=True, timeout=60)
    c, (theirs, _, lost) = both(start(tmp_path / "shallow"), mode, sites)
    assert counted_sites(c) == theirs and not lost
    assert c.of("getppid") == 97 + 3 * 31 and c.of("getuid") == 83 + 3 * 31 and c.of("access") == 14
    if mode != "lib":
        depth = min(sites, 3)
        found = Counter({tuple(f[1] for f in frames[:depth]): n for (name, frames), n in theirs.items()
                         if name == "getppid"})
        want = {("inner", "left", "main"): 83, ("inner", "right", "main"): 14, ("inner", "left", "thread"): 93}
        assert found == want if depth == 3 else found == {("inner",): 97 + 93}


@MODES
def test_python_as_recorded(both, start, mode, sites):
    target = start("sh", "-c", f"read x; exec /usr/bin/python3 -c '{PYTHON}'")
    c, (theirs, cut, lost) = both(target, mode, sites)
    ours = counted_sites(c)
    assert sum(ours.values()) == sum(theirs.values()) + sum(lost.values())
    names = Counter(s["site"] for t in c.tasks for call in t["syscalls"] for s in call["sites"])
    assert "[stack lost]" not in names, names
    assert_same_sites(ours, theirs, cut, lost)
    assert max(n for (name, _), n in ours.items() if name == "getppid") == 997
    longest = max(len(frames) for _, frames in ours)
    assert longest <= 1 if mode == "app" else longest > 1


@pytest.mark.parametrize("answers", [True, False])
def test_rows_that_come_late(counting_under_way, start, chain, tmp_path, answers):
    """A busy machine may be longer at them than a program lives, and some seconds more: 3. A compiler that does not
    answer for 11 is killed, and another one asked."""
    target = start("sh", "-c", f"read x; exec {chain}")
    stat = counting_under_way("-p", target.pid, "--follow", "--by", "site", "-e", "getppid",
                              env=os.environ | {"SPOOR_CACHE_DIR": str(tmp_path / "rows")})
    compiler = stat.helpers()["spoor-rows"]
    os.kill(compiler, signal.SIGSTOP)
    tell(target)
    assert target.wait(20) == 0
    time.sleep(3)
    if answers:
        os.kill(compiler, signal.SIGCONT)
    assert stat.wait() == 0
    (c,) = stat.counters()
    (call,) = c.whole().tasks[0]["syscalls"]
    assert [(s["site"].split()[0], s["calls"]) for s in call["sites"]] == [("inner", 10)]
    assert "call sites are unknown" not in stat.said()


def test_no_room_for_stacks(counting_under_way, start, tmp_path):
    """A program calls and calls while the row compiler stands still: what finds no room is counted, and told."""
    target = start("sh", "-c", "read x; exec perl -e 'getppid for 1..100000'")
    stat = counting_under_way("-p", target.pid, "--follow", "--by", "site", "-e", "getppid",
                              env=os.environ | {"SPOOR_CACHE_DIR": str(tmp_path / "rows")})
    compiler = stat.helpers()["spoor-rows"]
    os.kill(compiler, signal.SIGSTOP)
    tell(target)
    assert target.wait(20) == 0
    os.kill(compiler, signal.SIGCONT)
    assert stat.wait() == 0
    (c,) = stat.counters()
    (call,) = c.whole().tasks[0]["syscalls"]
    calls = {s["site"]: s["calls"] for s in call["sites"]}
    (unknown,) = map(int, re.findall(r"^spoor: (\d+) call sites are unknown", stat.said(), re.M))
    assert call["calls"] == sum(calls.values()) == 100000
    assert unknown == sum(n for name, n in calls.items() if name.endswith(" lost]")) > 0


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
    assert c.whole().of("getppid") == sum(e.of("getppid") for e in ended) == 21  # sh asks once


def test_own_code(count, chain):
    """--app says whose frames name a site; --unwind fp walks by frame pointers."""
    _, (c,) = count("--by", "site", "-e", "getppid", "--app", "libc*", "--", chain)
    (call,) = c.whole().tasks[0]["syscalls"]
    assert all("libc" in s["stack"][0]["object"] for s in call["sites"])
    assert sum(s["calls"] for s in call["sites"]) == 10
    # getppid() of the C library keeps no frame pointer, which hides its caller; a scan finds that one.
    for way, found in (("fp", {"left": 3, "right": 7}), ("scan", {"inner": 10})):
        _, (c,) = count("--by", "site", "-e", "getppid", "--unwind", way, "--", chain)
        (call,) = c.whole().tasks[0]["syscalls"]
        assert {s["stack"][0]["function"]: s["calls"] for s in call["sites"]} == found


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
